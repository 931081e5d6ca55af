// Keccak for every CPU.
#include "keccak_hash.h"
#include "keccak_lanes.h"

namespace dp {
namespace {

struct ScalarLanes {
  using T = u64;
  static constexpr size_t LANES = 1;
  static constexpr int REGISTERS = 16;
  static T load(const u64* p) { return *p; }
  static void store(u64* p, T x) { *p = x; }
  static T broadcast(u64 x) { return x; }
  static T bit_xor(T a, T b) { return a ^ b; }
  static T xor3(T a, T b, T c) { return a ^ b ^ c; }
  static T theta_sum(T a, T b) { return bit_xor(a, b); }
  static T theta(T s, T, T sum) { return bit_xor(s, sum); }
  static T chi(T a, T b, T c) { return a ^ (~b & c); }
  template <int N>
  static T rotl(T a) {
    return (a << N) | (a >> (64 - N));
  }
};

}  // namespace

extern const HashOps KECCAK_PORTABLE = KeccakHash<KeccakLanes<ScalarLanes>>::ops(nullptr);

}  // namespace dp
