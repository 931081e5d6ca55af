// The tables of OpenVM 2's opening argument over BabyBear's extension, in Montgomery form.
//
// A table (4, n) has the coefficients of its n elements one behind another, so that neighbours of a coefficient lie side by
// side. One thread per item, or blocks that walk over items with sums. Bound: memory for large tables, latency for small ones.
#include "openvm_sums.h"
#include "threads.h"

using namespace dp;
using namespace dp::bb::m;

struct Factor {
  Ext value;
};

__device__ __forceinline__ Ext get(const u32* table, u64 n, u64 i) {
  return {{table[i], table[n + i], table[2 * n + i], table[3 * n + i]}};
}

__device__ __forceinline__ void put(u32* table, u64 n, u64 i, const Ext& value) {
#pragma unroll
  for (int c = 0; c < 4; ++c) table[c * n + i] = value[c];
}

// out[i] = the sum over columns c of factors[c] columns[c][i]
extern "C" __global__ void __launch_bounds__(THREADS)
    opening_combine(const u64* columns, const uint4* factors, u32 count, u32* out, u64 n) {
  const u64 i = global_thread();
  if (i >= n) return;
  auto cell = [&](u32 c) { return __ldg(reinterpret_cast<const u32*>(__ldg(columns + c)) + i); };
  ExtSum sum = ExtSum::zero();
  u32 c = 0;
#pragma unroll 4
  for (; c + 1 < count; c += 2) sum.add(load(__ldg(factors + c)), cell(c), load(__ldg(factors + c + 1)), cell(c + 1));
  if (c < count) sum.add(load(__ldg(factors + c)), cell(c));
  put(out, n, i, sum.result());
}

// Sums of neighbours in registers: what a subset of D bits gives.
template <int D>
__device__ __forceinline__ void subset_sums(u32* tile, u32 words, u32 bit) {
  for (u32 g = threadIdx.x; g < words >> D; g += blockDim.x) {
    u32 v[1 << D], *const own = tile + ((g >> bit) << (bit + D)) + (g & ((1u << bit) - 1));
#pragma unroll
    for (int j = 0; j < (1 << D); ++j) v[j] = own[(u32)j << bit];
#pragma unroll
    for (int b = 0; b < D; ++b)
#pragma unroll
      for (int j = 0; j < (1 << D); ++j)
        if (j >> b & 1) v[j] = bb::add(v[j], v[j ^ (1 << b)]);
#pragma unroll
    for (int j = 0; j < (1 << D); ++j) own[(u32)j << bit] = v[j];
  }
  __syncthreads();
}

// Adds to each element those of the subsets of some bits of its number, the ones from log_stride on, in place. A tile of
// 2^log_tile words has 2^log_low neighbours, 2^log_stride apart; these bits begin at `bit` in it.
extern "C" __global__ void __launch_bounds__(THREADS)
    opening_subset_sums(u32* table, u32 log_tile, u32 log_stride, u32 log_low, u32 bit, u32 bits) {
  __shared__ u32 tile[TILE];
  const u32 log_blocks = log_stride - log_low, words = 1u << log_tile, lows = (1u << log_low) - 1;
  const u64 block = blockIdx.x >> log_blocks;
  u32* const base = table + (block << (log_tile + log_blocks)) + ((u64)(blockIdx.x & ((1u << log_blocks) - 1)) << log_low);
  for (u32 i = threadIdx.x; i < words; i += blockDim.x) tile[i] = base[((u64)(i >> log_low) << log_stride) + (i & lows)];
  __syncthreads();
  for (; bits; bits -= min(bits, 4u), bit += 4) {
    if (bits >= 4) subset_sums<4>(tile, words, bit);
    else if (bits == 3) subset_sums<3>(tile, words, bit);
    else if (bits == 2) subset_sums<2>(tile, words, bit);
    else subset_sums<1>(tile, words, bit);
  }
  for (u32 i = threadIdx.x; i < words; i += blockDim.x) base[((u64)(i >> log_low) << log_stride) + (i & lows)] = tile[i];
}

// out[b] = the product over i of factors[2 i + bit i of b]
extern "C" __global__ void __launch_bounds__(THREADS) opening_products(const uint4* factors, u32 variables, uint4* out) {
  const u32 b = (u32)global_thread();
  if (b >> variables) return;
  Ext product = Ext::one();
  for (u32 i = 0; i < variables; ++i) product = mul(product, load(factors[2 * i + (b >> i & 1)]));
  out[b] = store(product);
}

// out[b] = scale times eq(z, z^2, z^4, ...) of b, for z = at^(2^skipped)
extern "C" __global__ void __launch_bounds__(THREADS)
    opening_eq_of_squares(const __grid_constant__ Factor at, const __grid_constant__ Factor scale, u32 skipped, u32 variables,
                          uint4* out) {
  const u32 b = (u32)global_thread();
  if (b >> variables) return;
  Ext z = at.value, product = scale.value;
  for (u32 i = 0; i < skipped; ++i) z = square(z);
  for (u32 i = 0; i < variables; ++i, z = square(z)) product = mul(product, b >> i & 1 ? z : sub(Ext::one(), z));
  out[b] = store(product);
}

// table[h 2^log_low + l] = high[h] low[l]
extern "C" __global__ void __launch_bounds__(THREADS)
    opening_outer(const uint4* low, const uint4* high, u32* table, u32 log_low, u64 n) {
  const u64 i = global_thread();
  if (i < n) put(table, n, i, mul(load(high[i >> log_low]), load(low[i & ((1u << log_low) - 1)])));
}

// The sums of values times weights with the first variable at 1 and at 2, over `pairs` pairs. With FOLD the tables are bound to
// `at` first, and written; a thread then reads 4 neighbours.
template <bool FOLD>
__device__ __forceinline__ void round_of(const u32* values, const u32* weights, const Ext& at, u32* new_values, u32* new_weights,
                                         u64 pairs, Ext* out, Ext* partial, u32* ended) {
  __shared__ Ext total[2];
  ExtProducts at_one = ExtProducts::zero(), at_two = ExtProducts::zero();
  auto pair_of = [&](const u32* table, u32* bound, u64 i, Ext& low, Ext& high) {
    if constexpr (FOLD) {
      Ext x[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const uint4 four = reinterpret_cast<const uint4*>(table + 4 * c * pairs)[i];
        x[0][c] = four.x, x[1][c] = four.y, x[2][c] = four.z, x[3][c] = four.w;
      }
      low = between(x[0], x[1], at), high = between(x[2], x[3], at);
#pragma unroll
      for (int c = 0; c < 4; ++c) reinterpret_cast<uint2*>(bound + 2 * c * pairs)[i] = make_uint2(low[c], high[c]);
    } else {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const uint2 two = reinterpret_cast<const uint2*>(table + 2 * c * pairs)[i];
        low[c] = two.x, high[c] = two.y;
      }
    }
  };
  for (u64 i = global_thread(); i < pairs; i += global_threads()) {
    Ext v0, v1, w0, w1;
    pair_of(values, new_values, i, v0, v1);
    pair_of(weights, new_weights, i, w0, w1);
    at_one.add(v1, w1);
    at_two.add(sub(add(v1, v1), v0), sub(add(w1, w1), w0));
  }
  Ext sums[2] = {at_one.result(), at_two.result()};
  if (bb::grid_sums(sums, total, partial, ended) && threadIdx.x < 2) out[threadIdx.x] = total[threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    opening_sums(const u32* values, const u32* weights, u64 pairs, Ext* out, Ext* partial, u32* ended) {
  round_of<false>(values, weights, Ext::zero(), nullptr, nullptr, pairs, out, partial, ended);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    opening_fold_sums(const u32* values, const u32* weights, const __grid_constant__ Factor at, u32* new_values, u32* new_weights,
                      u64 pairs, Ext* out, Ext* partial, u32* ended) {
  round_of<true>(values, weights, at.value, new_values, new_weights, pairs, out, partial, ended);
}

// Binds the first variable of both tables, which have n elements then.
extern "C" __global__ void __launch_bounds__(THREADS)
    opening_fold(const u32* values, const u32* weights, const __grid_constant__ Factor at, u32* new_values, u32* new_weights,
                 u64 n) {
  const u64 i = global_thread();
  if (i >= n) return;
  put(new_values, n, i, between(get(values, 2 * n, 2 * i), get(values, 2 * n, 2 * i + 1), at.value));
  put(new_weights, n, i, between(get(weights, 2 * n, 2 * i), get(weights, 2 * n, 2 * i + 1), at.value));
}

// out[i] = the sum over b of factors[b] in[i 2^log_run + b], (4, n) from (4, n 2^log_run)
extern "C" __global__ void __launch_bounds__(THREADS)
    opening_combine_runs(const u32* in, const uint4* factors, u32* out, u64 n, u32 log_run) {
  const u64 i = global_thread();
  if (i >= n) return;
  ExtProducts sum = ExtProducts::zero();
  for (u32 b = 0; b < 1u << log_run; ++b) sum.add(get(in, n << log_run, (i << log_run) + b), load(__ldg(factors + b)));
  put(out, n, i, sum.result());
}

// The sum over i of coefficient i times at^i: Horner's rule in a thread, for every so many coefficients.
extern "C" __global__ void __launch_bounds__(THREADS)
    opening_evaluate(const u32* coefficients, u64 n, const __grid_constant__ Factor at, Ext* out, Ext* partial, u32* ended) {
  __shared__ Ext total[1];
  const u64 own = global_thread(), step = global_threads();
  Ext first = Ext::one(), apart = Ext::one(), power = at.value, sums[1] = {Ext::zero()};
  for (u64 left = step, mine = own; left; left >>= 1, mine >>= 1, power = square(power)) {
    if (left & 1) apart = mul(apart, power);
    if (mine & 1) first = mul(first, power);
  }
  if (own < n) {
    for (u64 i = (n - 1 - own) / step + 1; i-- > 0;)
      sums[0] = add(mul(sums[0], apart), get(coefficients, n, own + i * step));
    sums[0] = mul(sums[0], first);
  }
  if (bb::grid_sums(sums, total, partial, ended) && threadIdx.x == 0) *out = total[0];
}

// eq(z, z^2, z^4, ...) for base elements z, as two small tables: low (count, 2^log_low), and high (2^log_high, count) for the
// next powers of z, times a factor.
extern "C" __global__ void __launch_bounds__(THREADS)
    opening_point_tables(const u32* points, const uint4* factors, u32 count, u32 log_low, u32 log_high, u32* low, uint4* high) {
  const u64 at = global_thread();
  const u64 lows = (u64)count << log_low, highs = (u64)count << log_high;
  if (at >= lows + highs) return;
  const bool is_low = at < lows;
  const u32 point = is_low ? (u32)(at >> log_low) : (u32)((at - lows) % count);
  const u32 b = is_low ? (u32)at & ((1u << log_low) - 1) : (u32)((at - lows) / count);
  u32 z = points[point], product = ONE;
  if (!is_low)
    for (u32 i = 0; i < log_low; ++i) z = mul(z, z);
  for (u32 i = 0; i < (is_low ? log_low : log_high); ++i, z = mul(z, z))
    product = mul(product, b >> i & 1 ? z : bb::sub(ONE, z));
  if (is_low) low[at] = product;
  else high[at - lows] = store(mul(load(factors[point]), product));
}

// Adds to each weight the product of both tables of the point of the extension, and the sum over base points.
extern "C" __global__ void __launch_bounds__(THREADS)
    opening_add_points(u32* weights, const uint4* outside_low, const uint4* outside_high, const u32* low, const uint4* high,
                       u32 count, u32 log_low, u64 n) {
  const u64 i = global_thread();
  if (i >= n) return;
  const u64 h = i >> log_low, l = i & ((1u << log_low) - 1);
  const uint4* const of_high = high + h * count;
  const u32* const of_low = low + l;
  ExtSum sum = ExtSum::zero();
  u32 p = 0;
  for (; p + 1 < count; p += 2)
    sum.add(load(of_high[p]), of_low[(u64)p << log_low], load(of_high[p + 1]), of_low[(u64)(p + 1) << log_low]);
  if (p < count) sum.add(load(of_high[p]), of_low[(u64)p << log_low]);
  const Ext outside = mul(load(outside_high[h]), load(outside_low[l]));
  put(weights, n, i, add(get(weights, n, i), add(outside, sum.result())));
}
