// Openings: columns evaluated at a point outside the domain, and the DEEP combination. See kernels/interface/goldilocks.py.
//
// Evaluation is barycentric: with y = point/7 and W_j = w^j / (y - w^j), f(point) = (y^n - 1)/n sum_j f_j W_j. At the
// point w point it is the same sum with W_{j-1}, so one vector of weights serves both points.
//
// Layout: extensions (width, B, n), column-major; weights (3, n); each kernel states the layout of its other arrays.
// Bound: memory, with three products of 64 bits (twelve multiply-adds) for every 8 bytes and point.
#include "field/goldilocks_batch.h"
#include "field/goldilocks_sum.h"
#include "threads.h"

using namespace dp;
using namespace dp::gl;

constexpr int MATRICES = 32;  // matrices per launch; must equal MATRICES in cuda/goldilocks/deep_fri.py
constexpr u32 ALL = 0xffffffffu;

__device__ __forceinline__ Ext warp_sum(Ext v) {
#pragma unroll
  for (int delta = 16; delta; delta /= 2) {
    Ext other;
#pragma unroll
    for (int i = 0; i < 3; ++i) other.c[i] = __shfl_down_sync(ALL, v.c[i], delta);
    v = add(v, other);
  }
  return v;
}

// -- evaluation at a point --------------------------------------------------------------------------------------------

constexpr int CHUNK = 8;

// Writes the weights W. Launch: one thread for CHUNK rows that are `count` apart.
extern "C" __global__ void gl_open_weights(u64* weights, const u64* powers, u32 log_low, u64 n, u64 count,
                                           const __grid_constant__ Ext y) {
  u64 t = global_thread();
  if (t >= count) return;
  const Powers table{powers, log_low};
  u64 d[CHUNK];
#pragma unroll
  for (int i = 0; i < CHUNK; ++i) {
    u64 j = t + i * count;
    d[i] = j < n ? norm(sub(y, embed(table[j]))) : 1;
  }
  invert_all(d);
#pragma unroll
  for (int i = 0; i < CHUNK; ++i) {
    u64 j = t + i * count;
    if (j >= n) break;
    u64 x = table[j];
    Ext w = mul(adjugate(sub(y, embed(x))), mul(x, d[i]));
    for (int c = 0; c < 3; ++c) weights[c * n + j] = w.c[c];
  }
}

// Columns of several matrices, numbered on: column c is column c - first[m] of matrix m, first[m] <= c < first[m + 1].
struct Columns {
  const u64* base[MATRICES];
  u64 stride[MATRICES];  // elements from a column to the next
  u32 first[MATRICES + 1];
  u32 count;  // of matrices
};

__device__ __forceinline__ const u64* column(const Columns& columns, u32 c) {
  u32 m = 0;
  while (m + 1 < columns.count && columns.first[m + 1] <= c) ++m;
  return columns.base[m] + (c - columns.first[m]) * columns.stride[m];
}

constexpr int BLOCK_WARPS = 8, STEP_ROWS = 64, STEPS = 2;  // BLOCK_WARPS must equal that in cuda/goldilocks/deep_fri.py

// Loads two neighbours in one access, or only the first if the column has a single row.
__device__ __forceinline__ ulonglong2 pair(const u64* p, bool single) {
  return single ? make_ulonglong2(*p, 0) : *reinterpret_cast<const ulonglong2*>(p);
}

// partial (columns, chunks, POINTS, 3): sums over the rows of each chunk. Blocks of (32, BLOCK_WARPS), grid (chunks,
// columns POINTS / (2 BLOCK_WARPS)): a warp sums two columns at one point, or one at two. The warps of a block walk the
// same rows, STEP_ROWS a step, so that W comes from the cache; STEPS of them are loaded before the first is added.
template <int POINTS>
__device__ __forceinline__ void open_sums(const Columns& columns, const u64* __restrict__ weights,
                                          u64* __restrict__ partial, u64 n) {
  constexpr int COLUMNS = 2 / POINTS;
  const u32 lane = threadIdx.x, total = columns.first[columns.count];
  const u32 begin = (blockIdx.y * BLOCK_WARPS + threadIdx.y) * COLUMNS;
  if (begin >= total) return;
  const bool single = n == 1;
  const u64* f[COLUMNS];
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) f[c] = column(columns, begin + c < total ? begin + c : begin);
  ExtSum sums[COLUMNS][POINTS];
  for (u64 first = (u64)blockIdx.x * STEP_ROWS + 2 * lane; first < n; first += (u64)gridDim.x * STEP_ROWS * STEPS) {
    ulonglong2 v[STEPS][COLUMNS], w[STEPS][3];
    u64 before[STEPS][3];
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
      const u64 j = first + (u64)s * gridDim.x * STEP_ROWS;
      const bool inside = j < n;
      const u64 at = inside ? j : first;
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) v[s][c] = inside ? pair(f[c] + at, single) : make_ulonglong2(0, 0);
#pragma unroll
      for (int i = 0; i < 3; ++i) {
        w[s][i] = pair(weights + i * n + at, single);
        if (POINTS == 2) before[s][i] = weights[i * n + ((at - 1) & (n - 1))];
      }
    }
#pragma unroll
    for (int s = 0; s < STEPS; ++s)
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) {
        Ext even{{w[s][0].x, w[s][1].x, w[s][2].x}}, odd{{w[s][0].y, w[s][1].y, w[s][2].y}};
        sums[c][0].add(even, v[s][c].x);
        sums[c][0].add(odd, v[s][c].y);
        if (POINTS == 2) {
          sums[c][POINTS - 1].add(Ext{{before[s][0], before[s][1], before[s][2]}}, v[s][c].x);
          sums[c][POINTS - 1].add(even, v[s][c].y);
        }
      }
  }
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c)
#pragma unroll
    for (int p = 0; p < POINTS; ++p) {
      Ext v = warp_sum(sums[c][p].value());
      u64* out = partial + (((u64)(begin + c) * gridDim.x + blockIdx.x) * POINTS + p) * 3;
      if (lane == 0 && begin + c < total)
        for (int i = 0; i < 3; ++i) out[i] = v.c[i];
    }
}

extern "C" __global__ void __launch_bounds__(256, 2)
    gl_open_sums_1(const __grid_constant__ Columns columns, const u64* weights, u64* partial, u64 n) {
  open_sums<1>(columns, weights, partial, n);
}

extern "C" __global__ void __launch_bounds__(256, 2)
    gl_open_sums_2(const __grid_constant__ Columns columns, const u64* weights, u64* partial, u64 n) {
  open_sums<2>(columns, weights, partial, n);
}

// out (columns, points, 3) = scale times the sum over chunks. One warp a column and point; items = columns points.
extern "C" __global__ void gl_open_finish(const u64* partial, u64* out, u64 items, u32 points, u32 chunks,
                                          const __grid_constant__ Ext scale) {
  const u64 item = global_thread() / 32;
  const u32 lane = threadIdx.x % 32;
  if (item >= items) return;
  const u64 c = item / points, p = item % points;
  Ext sum = embed(0);
  for (u32 k = lane; k < chunks; k += 32) {
    const u64* v = partial + ((c * chunks + k) * points + p) * 3;
    sum = add(sum, Ext{{v[0], v[1], v[2]}});
  }
  sum = mul(warp_sum(sum), scale);
  if (lane == 0)
    for (int i = 0; i < 3; ++i) out[item * 3 + i] = sum.c[i];
}

// -- a combination of columns -----------------------------------------------------------------------------------------

constexpr int COMBINE_BLOCK = 256, COMBINE_ROWS = 2;  // must equal those in cuda/goldilocks/deep_fri.py
constexpr int COMBINE_COLUMNS = 4;                    // loaded before the first is added

// partial (chunks, 3, n): on the first coset, the sum of weight times column over the columns of each chunk; weights
// (columns, 3). Grid (n / rows of a block, chunks); each thread does COMBINE_ROWS rows, read as one.
extern "C" __global__ void __launch_bounds__(COMBINE_BLOCK)
    gl_combine(const __grid_constant__ Columns columns, const u64* __restrict__ weights, u64* __restrict__ partial, u64 n,
               u32 per_chunk) {
  const u64 row = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * COMBINE_ROWS;
  if (row >= n) return;
  const bool single = n == 1;
  const u32 total = columns.first[columns.count], begin = blockIdx.y * per_chunk;
  const u32 end = begin + per_chunk < total ? begin + per_chunk : total;
  ExtSum sums[COMBINE_ROWS];
  u32 m = 0;
  for (u32 c = begin; c < end; c += COMBINE_COLUMNS) {
    ulonglong2 v[COMBINE_COLUMNS];
#pragma unroll
    for (int i = 0; i < COMBINE_COLUMNS; ++i) {
      if (c + i >= end) continue;
      while (columns.first[m + 1] <= c + i) ++m;
      v[i] = pair(columns.base[m] + (c + i - columns.first[m]) * columns.stride[m] + row, single);
    }
#pragma unroll
    for (int i = 0; i < COMBINE_COLUMNS; ++i) {
      if (c + i >= end) continue;
      const u64* w = weights + 3 * (u64)(c + i);
      const Ext weight{{w[0], w[1], w[2]}};
      sums[0].add(weight, v[i].x);
      sums[1].add(weight, v[i].y);
    }
  }
#pragma unroll
  for (int r = 0; r < COMBINE_ROWS; ++r) {
    if (row + r >= n) break;
    const Ext sum = sums[r].value();
#pragma unroll
    for (int i = 0; i < 3; ++i) partial[((u64)blockIdx.y * 3 + i) * n + row + r] = sum.c[i];
  }
}

// out (items) = the sum over chunks of partial (chunks, items).
extern "C" __global__ void gl_combine_finish(const u64* __restrict__ partial, u64* __restrict__ out, u64 items,
                                             u32 chunks) {
  const u64 item = global_thread();
  if (item >= items) return;
  u64 sum = 0;
  for (u32 k = 0; k < chunks; ++k) sum = add(sum, partial[k * items + item]);
  out[item] = sum;
}

// -- DEEP -------------------------------------------------------------------------------------------------------------

constexpr int DEEP_BLOCK = 256, DEEP_ROWS = 2, DEEP_POINTS = 2;  // two must equal those in cuda/goldilocks/deep_fri.py
constexpr int DEEP_COLUMNS = 4;  // loaded before the first is added

// Matrices of one height, opened at one or two points. With one set of weights, matrix m counts at point p with the factor
// scale[m][p]; with two sets, set p is point p's.
struct Deep {
  const u64* base[MATRICES];
  u32 width[MATRICES];
  u32 flush[MATRICES];  // whether the matrix after this one has other factors
  Ext scale[MATRICES][DEEP_POINTS];
  Ext point[DEEP_POINTS], value[DEEP_POINTS];
  u32 matrices, points, log_n, log_blowup, add;
};

template <int SETS>
__device__ __forceinline__ void add_column(ExtSum (&sums)[SETS][DEEP_ROWS], const u64* __restrict__ weights,
                                           const ulonglong2& v) {
#pragma unroll
  for (int s = 0; s < SETS; ++s) {
    Ext w{{weights[3 * s], weights[3 * s + 1], weights[3 * s + 2]}};
    sums[s][0].add(w, v.x);
    sums[s][1].add(w, v.y);
  }
}

// The next `count` <= DEEP_COLUMNS columns at p, all loaded before the first is added. Moves to the ones after.
template <int SETS>
__device__ __forceinline__ void add_columns(ExtSum (&sums)[SETS][DEEP_ROWS], const u64* __restrict__& weights,
                                            const u64*& p, u64 rows, u32 count) {
  ulonglong2 v[DEEP_COLUMNS];
#pragma unroll
  for (u32 i = 0; i < DEEP_COLUMNS; ++i)
    if (i < count) v[i] = *reinterpret_cast<const ulonglong2*>(p + i * rows);
#pragma unroll
  for (u32 i = 0; i < DEEP_COLUMNS; ++i)
    if (i < count) add_column(sums, weights + 3 * SETS * i, v[i]);
  p += count * rows;
  weights += 3 * SETS * count;
}

// out (3, B n) (+)= sum over points of (combination - value) / (x - point). weights (columns, SETS, 3). Each thread does
// DEEP_ROWS rows one after the other in memory, read as one; the block inverts its denominators together.
template <int SETS>
__device__ __forceinline__ void deep(const Deep& d, const u64* __restrict__ weights, const u64* powers, u32 log_low,
                                     u64* __restrict__ out) {
  const u64 rows = 1ull << (d.log_n + d.log_blowup), first = global_thread() * DEEP_ROWS;
  const bool active = first < rows;
  Ext combination[DEEP_ROWS][DEEP_POINTS] = {};
  ExtSum sums[SETS][DEEP_ROWS];
  for (u32 m = 0; active && m < d.matrices; ++m) {
    const u64* p = d.base[m] + first;
    u32 c = 0;
    for (; c + DEEP_COLUMNS <= d.width[m]; c += DEEP_COLUMNS)
      add_columns(sums, weights, p, rows, DEEP_COLUMNS);
    if (c < d.width[m]) add_columns(sums, weights, p, rows, d.width[m] - c);
    if (SETS == 1 && d.flush[m]) {
#pragma unroll
      for (int r = 0; r < DEEP_ROWS; ++r) {
        Ext v = sums[0][r].value();
        sums[0][r] = ExtSum();
#pragma unroll
        for (int k = 0; k < DEEP_POINTS; ++k)
          if (k < d.points) combination[r][k] = add(combination[r][k], mul(v, d.scale[m][k]));
      }
    }
  }
  if (SETS == 2)
#pragma unroll
    for (int r = 0; r < DEEP_ROWS; ++r)
#pragma unroll
      for (int k = 0; k < DEEP_POINTS; ++k) combination[r][k] = sums[k % SETS][r].value();

  const Powers table{powers, log_low};
  Ext x[DEEP_ROWS];
  u64 norms[DEEP_ROWS * DEEP_POINTS], before[DEEP_ROWS * DEEP_POINTS], product = 1;
#pragma unroll
  for (int r = 0; r < DEEP_ROWS; ++r) {
    u64 row = active ? first + r : 0, coset = row >> d.log_n, j = row & ((1ull << d.log_n) - 1);
    x[r] = embed(table[(j << d.log_blowup) + coset]);
#pragma unroll
    for (int k = 0; k < DEEP_POINTS; ++k) {
      int i = r * DEEP_POINTS + k;
      norms[i] = k < d.points ? norm(sub(x[r], d.point[k])) : 1;
      if (norms[i] == 0) norms[i] = 1;
      before[i] = product;
      product = mul(product, norms[i]);
    }
  }
  __shared__ u64 products[DEEP_BLOCK];
  products[threadIdx.x] = product;
  __syncthreads();
  if (threadIdx.x < 32) {
    u64 v[DEEP_BLOCK / 32];
#pragma unroll
    for (int i = 0; i < DEEP_BLOCK / 32; ++i) v[i] = products[threadIdx.x + 32 * i];
    invert_all(v);
#pragma unroll
    for (int i = 0; i < DEEP_BLOCK / 32; ++i) products[threadIdx.x + 32 * i] = v[i];
  }
  __syncthreads();
  if (!active) return;
  u64 rest = products[threadIdx.x];
#pragma unroll
  for (int r = DEEP_ROWS - 1; r >= 0; --r) {
    Ext sum = embed(0);
#pragma unroll
    for (int k = DEEP_POINTS - 1; k >= 0; --k) {
      int i = r * DEEP_POINTS + k;
      u64 inverse_norm = mul(rest, before[i]);
      rest = mul(rest, norms[i]);
      if (k < d.points) {
        Ext quotient = mul(sub(combination[r][k], d.value[k]), adjugate(sub(x[r], d.point[k])));
        sum = add(sum, mul(quotient, inverse_norm));
      }
    }
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      u64* o = out + i * rows + first + r;
      *o = d.add ? add(*o, sum.c[i]) : sum.c[i];
    }
  }
}

extern "C" __global__ void __launch_bounds__(DEEP_BLOCK)
    gl_deep_1(const __grid_constant__ Deep d, const u64* weights, const u64* powers, u32 log_low, u64* out) {
  deep<1>(d, weights, powers, log_low, out);
}

extern "C" __global__ void __launch_bounds__(DEEP_BLOCK)
    gl_deep_2(const __grid_constant__ Deep d, const u64* weights, const u64* powers, u32 log_low, u64* out) {
  deep<2>(d, weights, powers, log_low, out);
}
