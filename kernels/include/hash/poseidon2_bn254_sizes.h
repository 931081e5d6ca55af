// Sizes of Poseidon2 over the scalar field of BN254 (hash/poseidon2_bn254.h), for code that has an arithmetic of its own.
#pragma once
#include "platform.h"

namespace dp {
namespace poseidon2_bn254 {

constexpr int WIDTH = 3, RATE = 2, HALF_FULL = 4, PARTIAL = 56;
constexpr int WORDS = 4, PACKED = 3;  // words of an element; words of a message in one element
constexpr u64 SPONGE_TAG = 1;         // lowest word of a sponge's capacity, before the length of its message

}  // namespace poseidon2_bn254
}  // namespace dp
