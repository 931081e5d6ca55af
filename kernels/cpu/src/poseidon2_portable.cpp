// Poseidon2 for every CPU.
#include "goldilocks_branchless.h"
#include "poseidon2_hash.h"

namespace dp {
namespace {

struct ScalarLanes : poseidon2::Scalar {
  static constexpr size_t LANES = 1;
  static u64 load(const u64* p) { return *p; }
  static void store(u64* p, u64 x) { *p = x; }
  static u64 add(u64 a, u64 b) { return gl::branchless::add(a, b); }
  static u64 mul(u64 a, u64 b) { return gl::branchless::mul(a, b); }
};

}  // namespace

extern const HashOps POSEIDON2_PORTABLE = Poseidon2Hash<ScalarLanes>::ops(nullptr);

}  // namespace dp
