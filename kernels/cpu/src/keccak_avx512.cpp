// Keccak on eight lanes, for CPUs with AVX-512 F. Built with -mavx512f.
#include <immintrin.h>

#include "keccak_hash.h"
#include "keccak_lanes.h"

namespace dp {
namespace {

struct Avx512Lanes {
  using T = __m512i;
  static constexpr size_t LANES = 8;
  static constexpr int REGISTERS = 32;
  static T load(const u64* p) { return _mm512_loadu_si512(p); }
  static void store(u64* p, T x) { _mm512_storeu_si512(p, x); }
  static T broadcast(u64 x) { return _mm512_set1_epi64((long long)x); }
  static T bit_xor(T a, T b) { return _mm512_xor_si512(a, b); }
  // The immediates are truth tables: bit 4a + 2b + c.
  static T xor3(T a, T b, T c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }
  static T theta_sum(T, T b) { return b; }
  static T theta(T s, T a, T b) { return xor3(s, a, b); }
  static T chi(T a, T b, T c) { return _mm512_ternarylogic_epi64(a, b, c, 0xD2); }
  template <int N>
  static T rotl(T a) {
    return _mm512_rol_epi64(a, N);
  }
};

}  // namespace

extern const HashOps KECCAK_AVX512 = KeccakHash<KeccakLanes<Avx512Lanes>>::ops(&KECCAK_PORTABLE);

}  // namespace dp
