// Poseidon2 on eight lanes, for CPUs with AVX-512 F and DQ. Built with -mavx512f -mavx512dq.
#include "goldilocks_avx512.h"

namespace dp {
namespace {

namespace isa = gl::avx512;

}  // namespace
}  // namespace dp

#include "poseidon2_hash.h"
#include "poseidon2_lanes.h"

namespace dp {

extern const HashOps POSEIDON2_AVX512 = Poseidon2Hash<Poseidon2Vectors>::ops(&POSEIDON2_PORTABLE);

}  // namespace dp
