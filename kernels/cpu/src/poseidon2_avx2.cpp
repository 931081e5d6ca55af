// Poseidon2 on four lanes, for CPUs with AVX2. Built with -mavx2.
#include "goldilocks_avx2.h"

namespace dp {
namespace {

namespace isa = gl::avx2;

}  // namespace
}  // namespace dp

#include "poseidon2_hash.h"
#include "poseidon2_lanes.h"

namespace dp {

extern const HashOps POSEIDON2_AVX2 = Poseidon2Hash<Poseidon2Vectors>::ops(&POSEIDON2_PORTABLE);

}  // namespace dp
