// Makes the table of an instruction set from the vector type that it computes with.
#pragma once
#include "goldilocks_ntt.h"
#include "goldilocks_ops.h"
#include "keccak_lanes.h"

namespace dp {

template <class Field, class Hash>
constexpr GoldilocksOps make_goldilocks_ops(const char* name) {
  return {name,
          Field::LANES,
          &GoldilocksVectors<Field>::add,
          &GoldilocksVectors<Field>::sub,
          &GoldilocksVectors<Field>::mul,
          &GoldilocksNtt<Field>::forward,
          &GoldilocksNtt<Field>::inverse,
          &GoldilocksNtt<Field>::forward_pass,
          &GoldilocksNtt<Field>::inverse_pass,
          Hash::LANES,
          &KeccakLanes<Hash>::leaves,
          &KeccakLanes<Hash>::pairs,
          &KeccakLanes<Hash>::rows,
          &KeccakLanes<Hash>::grind};
}

}  // namespace dp
