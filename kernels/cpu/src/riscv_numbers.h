// Numbers of LIMBS words of 32 bits, the lowest first: order, remainder, and products modulo a number.
#pragma once
#include <algorithm>
#include <cstring>

#include "platform.h"

namespace dp::riscv {

constexpr u32 MOST_LIMBS = 12;  // words of a number

template <int LIMBS>
bool below(const u32* a, const u32* b) {
  for (int i = LIMBS - 1; i >= 0; --i)
    if (a[i] != b[i]) return a[i] < b[i];
  return false;
}

// The remainder of `n`, of 2 LIMBS words, by `m`, which is not 0; words are least significant first. Knuth, The Art of
// Computer Programming, volume 2, 4.3.1, algorithm D.
template <int LIMBS>
void remainder_of(const u32* n, const u32* m, u32* out) {
  int size = LIMBS;
  while (m[size - 1] == 0) --size;
  if (size == 1) {
    u64 rest = 0;
    for (int i = 2 * LIMBS - 1; i >= 0; --i) rest = (rest << 32 | n[i]) % m[0];
    std::memset(out, 0, LIMBS * sizeof(u32));
    out[0] = (u32)rest;
    return;
  }
  const int shift = __builtin_clz(m[size - 1]);
  u32 v[LIMBS], u[2 * LIMBS + 1];
  const auto shifted = [&](u32 high, u32 low) { return (u32)(((u64)high << 32 | low) << shift >> 32); };
  for (int i = 0; i < size; ++i) v[i] = shifted(m[i], i ? m[i - 1] : 0);
  for (int i = 0; i <= 2 * LIMBS; ++i) u[i] = shifted(i < 2 * LIMBS ? n[i] : 0, i ? n[i - 1] : 0);
  for (int j = 2 * LIMBS - size; j >= 0; --j) {
    const u64 top = (u64)u[j + size] << 32 | u[j + size - 1];
    u64 digit = top / v[size - 1], rest = top % v[size - 1];
    while (digit >> 32 || digit * v[size - 2] > (rest << 32 | u[j + size - 2])) {
      --digit;
      rest += v[size - 1];
      if (rest >> 32) break;
    }
    u64 carry = 0, borrow = 0;
    for (int i = 0; i <= size; ++i) {
      carry += digit * (i < size ? v[i] : 0);
      const u64 difference = (u64)u[i + j] - (u32)carry - borrow;
      u[i + j] = (u32)difference;
      borrow = difference >> 63;
      carry >>= 32;
    }
    if (borrow) {  // the digit was one too large
      carry = 0;
      for (int i = 0; i <= size; ++i) {
        carry += (u64)u[i + j] + (i < size ? v[i] : 0);
        u[i + j] = (u32)carry;
        carry >>= 32;
      }
    }
  }
  for (int i = 0; i < LIMBS; ++i)
    out[i] = i < size ? (u32)(((u64)u[i + 1] << 32 | u[i]) >> shift) : 0;
}

// x y + a modulo m, where 0 stands for the power of two above all numbers. False where the quotient has more words than they.
template <int LIMBS>
bool multiply_add(const u32* x, const u32* y, const u32* a, const u32* m, u32* out) {
  u32 n[2 * LIMBS] = {};
  if (a != nullptr) std::memcpy(n, a, LIMBS * sizeof(u32));
  for (int i = 0; i < LIMBS; ++i) {
    u64 carry = 0;
    for (int k = 0; k < 2 * LIMBS - i; ++k) {
      carry += (k < LIMBS ? (u64)x[i] * y[k] : 0) + n[i + k];
      n[i + k] = (u32)carry;
      carry >>= 32;
    }
  }
  if (std::all_of(m, m + LIMBS, [](u32 word) { return word == 0; })) {
    std::memcpy(out, n, LIMBS * sizeof(u32));
    return true;
  }
  if (!below<LIMBS>(n + LIMBS, m)) return false;
  remainder_of<LIMBS>(n, m, out);
  return true;
}

}  // namespace dp::riscv
