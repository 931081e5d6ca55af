// The product of a sparse matrix and a vector of points, of which a ceremony's proving key is made: sums of few points
// each, most of them with a coefficient of 1 or -1. First the multiples by the other coefficients are computed, then the sums.
//
// Launch: one thread per multiple, which takes a doubling a bit and an addition every third bit; one thread per segment
// of a row, which takes an addition an entry. The host sorts the multiples by the lengths of their coefficients, and keeps
// segments short, so that the threads of a warp end together. Results are XYZZ; point_batch.cu normalises them.
// Bound: multiplications. This is set-up work, so products are calls. Compiled with CURVE and GROUP.
#define DP_OUTLINE_PRODUCTS
#include "device.h"
#include "group.h"

using namespace dp;

__device__ bool bit_of(const u32* words, u32 bit) { return (words[bit / 32] >> (bit % 32)) & 1; }

// out[i] = k points[columns[i]] for the coefficient k with number value_index[i], which has 256 bits as its triple 3 k has.
// The signed digits of k are the differences of the bits of 3 k and k (non-adjacent form).
extern "C" __global__ void sparse_multiples(const Point* points, const u32* columns, const u32* value_index,
                                            const u32* values, const u32* triples, u32 n, Sum* out) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const u32* k = values + 8 * (size_t)value_index[i];
  const u32* triple = triples + 8 * (size_t)value_index[i];
  const Point point = load16(points + columns[i]);
  u32 bit = 255;
  while (bit && !bit_of(triple, bit)) --bit;
  Sum sum = Sum::infinity();
#pragma unroll 1
  for (; bit; --bit) {
    double_it(sum);
    const bool plus = bit_of(triple, bit);
    if (plus != bit_of(k, bit)) add_to(sum, plus ? point : point.neg());
  }
  out[i] = sum;
}

// out[i] = the sum of the entries begin[i] to end[i]. The code of an entry is twice the number of its point, plus 1 for the
// opposite point; numbers from `count` on are those of `multiples`. SKIP is an entry of zero.
extern "C" __global__ void sparse_sums(const Point* points, u32 count, const Point* multiples, const u32* codes,
                                       const u32* begin, const u32* end, u32 n, Sum* out) {
  constexpr u32 SKIP = 0xffffffff;
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Sum sum = Sum::infinity();
#pragma unroll 1
  for (u32 entry = begin[i]; entry < end[i]; ++entry) {
    const u32 code = codes[entry];
    if (code == SKIP) continue;
    const u32 number = code >> 1;
    const Point point = load16(number < count ? points + number : multiples + (number - count));
    add_to(sum, (code & 1) ? point.neg() : point);
  }
  out[i] = sum;
}
