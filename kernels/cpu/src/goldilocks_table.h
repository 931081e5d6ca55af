// Makes the table of an instruction set from the vector type that it computes with.
#pragma once
#include "goldilocks_ntt.h"
#include "goldilocks_ops.h"

namespace dp {

template <class Field>
constexpr GoldilocksOps make_goldilocks_ops(const char* name, const HashOps& keccak,
                                             const HashOps& poseidon2) {
  return {name,
          Field::LANES,
          &GoldilocksVectors<Field>::add,
          &GoldilocksVectors<Field>::sub,
          &GoldilocksVectors<Field>::mul,
          &GoldilocksNtt<Field>::forward,
          &GoldilocksNtt<Field>::inverse,
          &GoldilocksNtt<Field>::interpolate,
          &GoldilocksNtt<Field>::move,
          &GoldilocksNtt<Field>::forward_pass,
          &GoldilocksNtt<Field>::inverse_pass,
          &keccak,
          &poseidon2};
}

}  // namespace dp
