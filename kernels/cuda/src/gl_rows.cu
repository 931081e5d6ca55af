// Goldilocks columns, row by row: selectors, quotients of extension vectors, histograms, FRI's fold. See kernels/interface/goldilocks.py.
//
// Layout: columns of n elements; an extension vector is three columns; row = coset n + j.
// Launch: one thread for CHUNK rows that are `count` apart (selectors, divide), for one row (count), or for one row of the
// result (fold).
// Bound: products. An inversion takes 75 products, shared by a thread's CHUNK elements. A histogram is bound by memory, or
// by the rate of atomic additions to one address where most rows name it.
#include "field/goldilocks_batch.h"
#include "threads.h"

using namespace dp;
using namespace dp::gl;

constexpr int CHUNK = 8;

DP_HD Ext load(const u64* columns, u64 row, u64 stride) {
  return {{columns[row], columns[row + stride], columns[row + 2 * stride]}};
}

DP_HD void store(u64* columns, u64 row, u64 stride, const Ext& v) {
  for (int i = 0; i < 3; ++i) columns[row + i * stride] = v.c[i];
}

// The shift of each coset, and the vanishing polynomial x^n - 1 on it. At most MAX_COSETS of cuda/goldilocks/row_program.py.
struct Cosets {
  u64 shift[32], vanishing[32];
};

// out (3, rows): (x^n - 1)/(x - 1), (x^n - 1)/(x - 1/w), x - 1/w. The second is the first of the next row, times w:
// 1/(x - 1/w) = w/(w x - 1).
extern "C" __global__ void gl_selectors(u64* out, const u64* powers, u32 log_low, u64 rows, u64 count, u32 log_n, u64 w,
                                        u64 w_inverse, const __grid_constant__ Cosets cosets) {
  u64 t = global_thread();
  if (t >= count) return;
  const Powers table{powers, log_low};
  const u64 mask = (1ull << log_n) - 1;
  u64 d[CHUNK];
#pragma unroll
  for (int i = 0; i < CHUNK; ++i) {
    u64 row = t + i * count;
    if (row >= rows) {
      d[i] = 1;
      continue;
    }
    u64 x = mul(cosets.shift[row >> log_n], table[row & mask]);
    d[i] = sub(x, 1);
    out[2 * rows + row] = sub(x, w_inverse);
  }
  invert_all(d);
#pragma unroll
  for (int i = 0; i < CHUNK; ++i) {
    u64 row = t + i * count;
    if (row >= rows) break;
    u64 first = mul(cosets.vanishing[row >> log_n], d[i]);
    out[row] = first;
    u64 before = (row & ~mask) | ((row - 1) & mask);
    out[rows + before] = mul(first, w);
  }
}

// a / b for m extension vectors of n rows; total = m n. out may be a or b.
extern "C" __global__ void gl_divide(const u64* a, const u64* b, u64* out, u64 total, u64 count, u32 log_n) {
  u64 t = global_thread();
  if (t >= count) return;
  const u64 n = 1ull << log_n;
  u64 d[CHUNK];
#pragma unroll
  for (int i = 0; i < CHUNK; ++i) {
    u64 e = t + i * count;
    d[i] = e < total ? norm(load(b, e + 2 * n * (e >> log_n), n)) : 1;
  }
  invert_all(d);
#pragma unroll
  for (int i = 0; i < CHUNK; ++i) {
    u64 e = t + i * count;
    if (e >= total) break;
    u64 row = e + 2 * n * (e >> log_n);  // three columns a vector
    Ext quotient = mul(mul(load(a, row, n), adjugate(load(b, row, n))), d[i]);
    store(out, row, n, quotient);
  }
}

// counts[rows[i]] += times[i]; rows beyond m count nowhere. Most lookups name few rows, and additions to one place wait for
// each other: so lanes of a warp that name one row add up first, each the next of its peers, then the next but one, ...
extern "C" __global__ void gl_count(const u64* rows, const u64* times, unsigned long long* counts, u64 n, u64 m) {
  constexpr u32 ALL = 0xffffffff;
  const u64 i = global_thread();
  const u32 lane = threadIdx.x % 32;
  unsigned long long sum = i < n ? times[i] : 0;
  const u64 row = sum && rows[i] < m ? rows[i] : m;
  const u32 peers = __match_any_sync(ALL, row);
  u32 place = __popc(peers & ((1u << lane) - 1)), later = peers & ~((2u << lane) - 1);
  const bool first = place == 0;
  while (__any_sync(ALL, later != 0)) {
    const u32 next = later ? __ffs(later) - 1 : lane;
    const unsigned long long other = __shfl_sync(ALL, sum, next);
    if (later) sum += other;
    later &= ~__ballot_sync(ALL, place & 1);  // these are added up
    place >>= 1;
  }
  if (first && row < m) atomicAdd(counts + row, sum);
}

struct FoldStep {
  u64 scale;      // 1 / arity
  u64 roots[4];   // w^-t, w of order arity
  Ext betas[4];   // beta^(2^step), and last the one that `added` is multiplied by
};

// The second half of f onto the first, by *betas; then that half, until one is left. h becomes its squares. Recursive, so
// that every index is a constant and the arrays stay in registers.
template <int HALF>
DP_HD void fold_halves(Ext* f, u64* h, const Ext* betas) {
  if constexpr (HALF > 0) {
#pragma unroll
    for (int t = 0; t < HALF; ++t) {
      Ext odd = mul(sub(f[t], f[t + HALF]), h[t]);
      f[t] = add(add(f[t], f[t + HALF]), mul(odd, *betas));
      h[t] = sqr(h[t]);
    }
    fold_halves<HALF / 2>(f, h, betas + 1);
  }
}

// One row of the result: the arity's values, folded in registers. Steps leave out their halves; `scale` makes up for it.
template <int LOG_ARITY>
DP_HD void fold_row(const u64* codeword, const u64* added, u64* out, const Powers& inverse_powers, u64 rows, u32 log_n,
                    u32 log_blowup, const FoldStep& step) {
  constexpr int ARITY = 1 << LOG_ARITY;
  u64 row = global_thread();
  if (row >= rows) return;
  const u32 log_out = log_n - LOG_ARITY;
  const u64 coset = row >> log_out, j = row & ((1ull << log_out) - 1);
  const u64 length = rows << LOG_ARITY;
  Ext f[ARITY];
#pragma unroll
  for (int t = 0; t < ARITY; ++t) f[t] = load(codeword, (coset << log_n) + j + ((u64)t << log_out), length);
  u64 h[ARITY / 2];  // 1 / h of each pair
  h[0] = inverse_powers[(j << log_blowup) + coset];
#pragma unroll
  for (int t = 1; t < ARITY / 2; ++t) h[t] = mul(h[0], step.roots[t]);
  fold_halves<ARITY / 2>(f, h, step.betas);
  Ext r = mul(f[0], step.scale);
  if (added) r = add(r, mul(load(added, row, rows), step.betas[LOG_ARITY]));
  store(out, row, rows, r);
}

#define DP_FOLD(arity, log_arity)                                                                                    \
  extern "C" __global__ void gl_fold_##arity(const u64* codeword, const u64* added, u64* out, const u64* inverses,   \
                                             u32 log_low, u64 rows, u32 log_n, u32 log_blowup,                       \
                                             const __grid_constant__ FoldStep step) {                                \
    fold_row<log_arity>(codeword, added, out, Powers{inverses, log_low}, rows, log_n, log_blowup, step);             \
  }
DP_FOLD(2, 1)
DP_FOLD(4, 2)
DP_FOLD(8, 3)
