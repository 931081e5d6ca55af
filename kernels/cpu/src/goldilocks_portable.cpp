// Goldilocks for every CPU.
#include "goldilocks_scalar.h"
#include "goldilocks_table.h"

namespace dp {

extern const GoldilocksOps GOLDILOCKS_PORTABLE = make_goldilocks_ops<ScalarVector>("portable", KECCAK_PORTABLE, POSEIDON2_PORTABLE);

}  // namespace dp
