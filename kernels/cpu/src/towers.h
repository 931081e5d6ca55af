// The tower of a curve by the curve's name.
#pragma once
#include <stdexcept>
#include <string>

#include "curve/endomorphism.h"

namespace dp {

// call(Tower{}) for the curve's tower
template <class Call>
auto with_tower(const std::string& curve, const Call& call) {
  if (curve == "bn128") return call(Bn254Tower{});
  if (curve == "bls12381") return call(Bls12381Tower{});
  throw std::invalid_argument("unknown curve " + curve);
}

}  // namespace dp
