// Some leaves of a tree over codewords, from the coefficients: a few hundred of millions, of which no whole transform is made.
//
// A leaf holds the values at x, w_16 x, w_16^2 x .. of all columns. With coefficients split as c[i0 + M i1], M = n / RESIDUES,
// f(x) = sum_i0 x^i0 g(i0), g(i0) = sum_i1 c[i0 + M i1] (x^M)^i1, and x^M is the same for the whole leaf, one of B RESIDUES
// roots of unity. codeword_residues makes g for the roots that occur: a short transform for each i0, of which few outputs are
// kept. codeword_leaves evaluates these. Bound: instructions, a third of those of an encoding.
#include "field/goldilocks.h"
#include "register_transform.h"
#include "threads.h"

using namespace dp;
using namespace dp::gl;

constexpr u32 LOG_RESIDUES = 10, RESIDUES = 1u << LOG_RESIDUES;  // both must equal those in cuda/goldilocks/leaves.py
constexpr u32 NEIGHBOURS = 8;                                    // i0 of a block: whole sectors of memory
constexpr u32 THREADS = RESIDUES * NEIGHBOURS / 16;              // each has 16 coefficients
constexpr u32 LEAF = 16, LEAF_THREADS = 256;

// 16 values of a pass, element a times w_16^(a e) summed over a, times roots[step e].
__device__ __forceinline__ void pass(u64 (&v)[16], u64* out, u32 apart, const u64* roots, u32 step) {
  transform<false, 4>(v);
#pragma unroll
  for (u32 e = 0; e < 16; ++e) {
    const u64 own = v[reversed<4>(e)];
    out[e * apart] = e ? mul(own, __ldg(roots + step * e)) : own;
  }
}

// out (columns, rows, M): for each of the `count` numbers e the values g at w_{B RESIDUES}^(k + B e), of one coset k, from row
// `first` on. `twists` are the powers of w_{B RESIDUES}^k, null for k = 0; `roots` those of w_RESIDUES. Grid (M / NEIGHBOURS,
// columns).
extern "C" __global__ void __launch_bounds__(THREADS)
    codeword_residues(const u64* __restrict__ coefficients, u64* __restrict__ out, u32 log_rest, u64 rows, u64 first,
                      const u64* __restrict__ numbers, u32 count, const u64* __restrict__ twists,
                      const u64* __restrict__ roots) {
  DP_DYNAMIC_SHARED(u64, tile);
  const u64 begin = (u64)blockIdx.x * NEIGHBOURS;
  const u64* const own = coefficients + ((u64)blockIdx.y << (log_rest + LOG_RESIDUES)) + begin;
  const u32 l = threadIdx.x % NEIGHBOURS, j = threadIdx.x / NEIGHBOURS;  // j < RESIDUES / 16
  u64 v[16];
#pragma unroll
  for (u32 a = 0; a < 16; ++a) v[a] = own[((u64)(a * 64 + j) << log_rest) + l];
  if (twists) {
#pragma unroll
    for (u32 a = 0; a < 16; ++a) v[a] = mul(v[a], __ldg(twists + a * 64 + j));
  }
  pass(v, tile + j * NEIGHBOURS + l, 64 * NEIGHBOURS, roots, j);
  __syncthreads();
  u64* const second = tile + ((j / 4) * 64 + j % 4) * NEIGHBOURS + l;  // of output j / 4 of the first pass
#pragma unroll
  for (u32 a = 0; a < 16; ++a) v[a] = second[a * 4 * NEIGHBOURS];
  pass(v, second, 4 * NEIGHBOURS, roots, 16 * (j % 4));
  __syncthreads();
  for (u32 i = threadIdx.x; i < count * NEIGHBOURS; i += THREADS) {  // the last four, for what is kept alone
    const u32 e = (u32)numbers[i / NEIGHBOURS], k = i % NEIGHBOURS, last = e >> 8;
    const u64* const four = tile + ((e & 15) * 64 + ((e >> 4) & 15) * 4) * NEIGHBOURS + k;
    u64 sum = four[0];
#pragma unroll
    for (u32 a = 1; a < 4; ++a) sum = add(sum, mul(four[a * NEIGHBOURS], __ldg(roots + ((a * last) & 3) * (RESIDUES / 4))));
    out[(((u64)blockIdx.y * rows + first + i / NEIGHBOURS) << log_rest) + begin + k] = sum;
  }
}

// out (leaves, LEAF, columns) from residues (columns, rows, M). `leaves` (count, 2): a leaf's row, and its x. Grid (count,
// columns): thread t adds up the coefficients t + LEAF_THREADS k.
extern "C" __global__ void __launch_bounds__(LEAF_THREADS)
    codeword_leaves(const u64* __restrict__ residues, u64* __restrict__ out, u32 log_rest, u64 rows,
                    const u64* __restrict__ leaves, const u64* __restrict__ turns) {
  __shared__ u64 sums[LEAF_THREADS];
  const u64 row = leaves[2 * blockIdx.x], x = leaves[2 * blockIdx.x + 1];
  const u64* const own = residues + (((u64)blockIdx.y * rows + row) << log_rest) + threadIdx.x;
  const u64 step = gl::pow(x, LEAF_THREADS);
  u64 sum = 0;
#pragma unroll 4
  for (u64 k = (1ull << log_rest) / LEAF_THREADS; k-- > 0;) sum = add(mul(sum, step), own[k * LEAF_THREADS]);
  sums[threadIdx.x] = mul(sum, gl::pow(x, threadIdx.x));
  __syncthreads();
  if (threadIdx.x < LEAF) {  // all coefficients that have one place modulo LEAF
    for (u32 i = threadIdx.x + LEAF; i < LEAF_THREADS; i += LEAF) sums[threadIdx.x] = add(sums[threadIdx.x], sums[i]);
  }
  __syncthreads();
  if (threadIdx.x < LEAF) {
    u64 value = 0;
    for (u32 r = 0; r < LEAF; ++r) value = add(value, mul(sums[r], __ldg(turns + (threadIdx.x * r) % LEAF)));
    out[((u64)blockIdx.x * LEAF + threadIdx.x) * gridDim.y + blockIdx.y] = value;
  }
}
