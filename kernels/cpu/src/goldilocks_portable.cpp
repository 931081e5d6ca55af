// Goldilocks and Keccak for every CPU.
#include "goldilocks_scalar.h"
#include "goldilocks_table.h"

namespace dp {

extern const GoldilocksOps GOLDILOCKS_PORTABLE = make_goldilocks_ops<ScalarVector, ScalarLanes>("portable");

}  // namespace dp
