// Many multiples of one point, from a table of d * 2^(8 w) * base for every value d of every byte w of a scalar.
//
// A scalar costs 32 mixed additions with points from the table, which L2 holds (0.5 to 1.5 MiB). Results are XYZZ;
// point_batch.cu normalises them.
//
// Launch: one thread per table entry, one thread per scalar. Compiled with CURVE and GROUP.
#define DP_OUTLINE_PRODUCTS
#include "group.h"

using namespace dp;

// table[256 w + d] = d * 2^(8 w) * base, for 32 * 256 threads
extern "C" __global__ void fixed_base_table(const Point* base, Sum* table) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= 32 * 256) return;
  const u32 digit = i & 255, places = i >> 8;
  const Point point = *base;
  Sum sum = Sum::infinity();
#pragma unroll 1
  for (int bit = 7; bit >= 0; --bit) {
    double_it(sum);
    if ((digit >> bit) & 1) add_to(sum, point);
  }
#pragma unroll 1
  for (u32 k = 0; k < 8 * places; ++k) double_it(sum);
  table[i] = sum;
}

// out[i] = scalars[i] * base; scalars are 256-bit integers
extern "C" __global__ void fixed_base_multiply(const Point* table, const u32* scalars, u32 n, Sum* out) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Sum sum = Sum::infinity();
#pragma unroll 1
  for (u32 w = 0; w < 32; ++w) {
    const u32 digit = (scalars[8 * (size_t)i + w / 4] >> (8 * (w % 4))) & 255;
    sum = sum.add(table[256 * w + digit]);
  }
  out[i] = sum;
}
