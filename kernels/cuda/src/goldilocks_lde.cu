// Low-degree extension over Goldilocks: (w, n) evaluations to (w, B, n), all columns in one launch per pass.
//
// n = N1 N2 M, i = (i1 N2 + i2) M + i3. The inverse transform is a decimation in frequency by large radices, digit by
// digit from the front: a strided pass replaces i1 by k1 (and i2 by k2), and the coefficient of x^(k1 + N1 (k2 + N2 k3))
// ends at place (k1 N2 + k2) M + k3. The forward transform is the mirror image: it takes the digits from the back, reads
// this order and leaves natural order in place. So no pass permutes, and the last digit's inverse and forward transforms
// meet in one kernel (`lde_rows`) that reads a row of coefficients once and writes it for every coset:
//
//   lde_strided_inverse (N1), lde_strided_inverse (N2), lde_rows (M), lde_strided_forward (N2), lde_strided_forward (N1)
//
// A small n needs no strided pass, and such tables share a launch (`lde_rows_of_many`). The coefficients wait in coset 0
// of the output; there is no scratch.
//
// Scaling by s^k / n (s: a coset's shift over the input's) has a factor for each digit of k. The row's factor, with 1/n,
// is a table. The others are part of the twiddles w^(k1 i') between the passes, which each thread computes itself: it
// holds outputs that are R/E apart, and so needs a geometric series.
//
// Inside a pass each thread transforms E = 2^LOG_ELEMENTS elements in registers. There every root of unity of order up
// to 64 is a power of two (w_64 = 2^39), so a product is a shift. Between the steps the elements change threads through
// shared memory and are multiplied by roots from tables. Bound: additions and subtractions.
//
// The kernels are compiled in three parts (PART), each as long as it takes: extensions, codewords, and runs.
//
// Launch: R C / E threads per block, C columns (strided) or rows; dynamic shared memory for a tile, twice for lde_rows.
#include "device.h"
#include "field/goldilocks.h"
#include "register_transform.h"

using namespace dp;

#define DP_EXTENSIONS (PART == 0)
#define DP_CODEWORDS (PART == 1)
#define DP_RUNS (PART == 2)

constexpr int LOG_E = LOG_ELEMENTS, E = 1 << LOG_E;
constexpr u32 LOG_FINE = 12;  // roots of a large order are w^(fine + 2^12 coarse)

// Parameters of one pass. A vector is one column (inverse), or one column on one coset (forward).
struct Shape {
  u32 log_n, log_r, log_c;  // 2^log_r points are transformed, 2^log_c columns or rows to a block
  u32 log_stride;           // distance of a column's points; 0 in lde_rows
  u32 log_cosets;           // of the output, in lde_rows; in a strided pass, vectors per column
  u32 reserved;
  u64 vectors;               // in lde_rows: columns
  u64 in_pitch, out_pitch;  // elements from one matrix column to the next
};

// Adds a slot of padding per E and per E^2 elements: strides by either then meet every bank.
__device__ __forceinline__ u32 slot(u32 i) { return i + (i >> LOG_E) + (i >> (2 * LOG_E)); }

// Multiplies v[order(j)] by first * ratio^j, two series side by side so that products need not wait for each other.
template <int D, class Order>
__device__ __forceinline__ void scale_by_series(u64* v, u64 first, u64 ratio, Order order) {
  u64 even = first, odd = gl::mul(first, ratio);
  const u64 ratio2 = gl::sqr(ratio);
#pragma unroll
  for (int j = 0; j < (1 << D); j += 2) {
    v[order(j)] = gl::mul(v[order(j)], even);
    if (j + 1 < (1 << D)) v[order(j + 1)] = gl::mul(v[order(j + 1)], odd);
    if (j + 2 < (1 << D)) {
      even = gl::mul(even, ratio2);
      odd = gl::mul(odd, ratio2);
    }
  }
}

// A pass' transforms as steps of 2^D points each: where a step's digits are, and the elements' ways.
//
// After the steps of `done` bits, element (digits, rest) stands at index digits 2^(log_r - done) + rest, the first step's
// digit at the top. The last step's thread takes the digits that make its outputs local + j 2^done.
template <bool INVERSE, bool ROWS>
struct Pass {
  const Shape& shape;
  u64* tile;
  const u64* roots;  // for each step but the last, with 2^m points left: w^(p j) at j 2^(m - D) + p, w of order 2^m

  __device__ __forceinline__ u32 place(u32 c, u32 e) const {
    return slot(ROWS ? (c << shape.log_r) + e : (e << shape.log_c) + c);
  }

  // `load(v, c, p, u)` gives points p + j 2^(log_r - D) of column c to a first step; `store(v, c, k, u)` takes, from a
  // last one, outputs k + j 2^(log_r - D) in v[gl::reversed<D>(j)]. u counts the groups that the thread works on.
  // With `across` the threads of a first step go over columns before points, as they do in strided passes.
  template <int D, class Load, class Store>
  __device__ __forceinline__ void step(u32 done, u32 first_bits, Load load, Store store, bool across) {
    const u32 log_rest = shape.log_r - done - D;
    const bool columns_first = !ROWS || (across && done == 0);
    const bool last = log_rest == 0;
    if (done) __syncthreads();
#pragma unroll 1
    for (u32 u = 0; u < (u32)(E >> D); ++u) {
      const u32 group = threadIdx.x + u * blockDim.x;
      const u32 log_groups = shape.log_r - D;
      const u32 c = columns_first ? group & ((1u << shape.log_c) - 1) : group >> log_groups;
      const u32 local = columns_first ? group >> shape.log_c : group & ((1u << log_groups) - 1);
      const u32 p = local & ((1u << log_rest) - 1);
      const u32 digits = last ? made_digits(local, done, first_bits) : local >> log_rest;
      const u32 base = (digits << (log_rest + D)) + p;
      u64 v[1 << D];
      if (done == 0) {
        load(v, c, local, u);
      } else {
#pragma unroll
        for (int j = 0; j < (1 << D); ++j) v[j] = tile[place(c, base + ((u32)j << log_rest))];
      }
      gl::transform<INVERSE, D>(v);
      if (last) {
        store(v, c, local, u);
      } else {
#pragma unroll
        for (int j = 0; j < (1 << D); ++j) {
          u64 x = v[gl::reversed<D>(j)];
          if (j) x = gl::mul(x, __ldg(roots + ((u32)j << log_rest) + p));
          tile[place(c, base + ((u32)j << log_rest))] = x;
        }
      }
    }
    roots += (u64)1 << (log_rest + D);
  }

  // The digits of an output index below 2^done, the first step's at the top.
  __device__ __forceinline__ static u32 made_digits(u32 k, u32 done, u32 first_bits) {
    u32 r = 0;
    for (u32 bits = first_bits; done; done -= bits, bits = LOG_E) {
      if (bits > done) bits = done;
      r = (r << bits) | (k & ((1u << bits) - 1));
      k >>= bits;
    }
    return r;
  }

  // A step of `bits` bits, not LOG_E of them.
  template <int D, class Load, class Store>
  __device__ __forceinline__ void odd_step(u32 bits, u32 done, u32 first_bits, Load load, Store store, bool across) {
    if constexpr (D < LOG_E) {
      if (bits == D) step<D>(done, first_bits, load, store, across);
      else odd_step<D + 1>(bits, done, first_bits, load, store, across);
    }
  }

  // The inverse's short step is its first and the forward's its last, so that the series at the passes' outer ends, and
  // the coefficients that stay with their thread in lde_rows, come in E at a time.
  template <class Load, class Store>
  __device__ __forceinline__ void run(Load load, Store store, bool across = false) {
    const u32 odd = shape.log_r % LOG_E;
    u32 done = 0;
    if (INVERSE && (odd || shape.log_r == 0)) {
      odd_step<0>(odd, 0, odd, load, store, across);
      done = odd;
    }
    const u32 first_bits = INVERSE && odd ? odd : LOG_E;
#pragma unroll 1
    while (done + LOG_E <= shape.log_r) {
      step<LOG_E>(done, first_bits, load, store, across);
      done += LOG_E;
    }
    if (!INVERSE && (odd || shape.log_r == 0)) odd_step<0>(odd, done, first_bits, load, store, across);
  }
};

struct Identity {
  __device__ __forceinline__ constexpr int operator()(int j) const { return j; }
};
template <int D>
struct Reversed {
  __device__ __forceinline__ constexpr int operator()(int j) const { return gl::reversed<D>(j); }
};

template <int N>
struct LogOf {
  static constexpr int value = N == 1 ? 0 : 1 + LogOf<N / 2>::value;
};
template <>
struct LogOf<0> {
  static constexpr int value = 0;
};

// Powers of a root of unity of order 2^log_order: w^i for i < 2^log_low, then w^(i 2^log_low).
struct Powers {
  const u64* table;
  u32 log_low, log_order;

  __device__ __forceinline__ u64 operator[](u32 i) const {
    i &= (u32)(((u64)1 << log_order) - 1);
    return gl::mul(__ldg(table + (i & ((1u << log_low) - 1))), __ldg(table + (1u << log_low) + (i >> log_low)));
  }
};

// The twiddles of an extension's strided pass: for index k at distance low w^(k low) base^k, w (its inverse, for the inverse)
// of order 2^(log_r + log_stride). fine[i] = w^i, coarse[i] = w^(i 2^LOG_FINE); for each coset start[k] = base^k,
// k < 2^log_apart, and ratio = base^(2^log_apart), where 2^log_apart is the distance of a thread's elements.
struct ExtensionTwiddles {
  const u64 *fine, *coarse, *start, *ratio;

  // the first one of a thread, and what leads to its next
  __device__ __forceinline__ void get(const Shape& shape, u32 coset, u32 low, u32 k, u64& first, u64& next) const {
    const u32 log_apart = shape.log_r < LOG_E ? 0 : shape.log_r - LOG_E;
    first = root(low * k), next = root(low << log_apart);
    if (start) {
      first = gl::mul(first, __ldg(start + ((u64)coset << log_apart) + k));
      next = gl::mul(next, __ldg(ratio + coset));
    }
  }
  __device__ __forceinline__ u64 root(u32 exponent) const {
    return gl::mul(__ldg(fine + (exponent & ((1u << LOG_FINE) - 1))), __ldg(coarse + (exponent >> LOG_FINE)));
  }
};

// Those of a codeword, whose coset t is w^t <w^B>, are powers of the root of its whole domain.
struct CodewordTwiddles {
  Powers powers;

  __device__ __forceinline__ void get(const Shape& shape, u32 coset, u32 low, u32 k, u64& first, u64& next) const {
    const u32 log_apart = shape.log_r < LOG_E ? 0 : shape.log_r - LOG_E;
    const u32 step = ((low << shape.log_cosets) + coset) << (shape.log_n - shape.log_r - shape.log_stride);
    first = powers[step * k], next = powers[step << log_apart];
  }
};

// One strided pass. Transformed index k at distance low < 2^log_stride has its twiddle after the transform or, forward, before
// it.
template <bool INVERSE, class Twiddles>
__device__ __forceinline__ void strided(const u64* in, u64* out, const u64* roots, const Twiddles& twiddles,
                                        const Shape& shape) {
  DP_DYNAMIC_SHARED(u64, tile);
  const u32 log_blocks = shape.log_n - shape.log_r - shape.log_c;
  const u64 vector = (u64)blockIdx.x >> log_blocks;
  const u64 column = vector >> shape.log_cosets;
  const u32 coset = (u32)vector & ((1u << shape.log_cosets) - 1);
  const u32 first = (blockIdx.x & ((1u << log_blocks) - 1)) << shape.log_c;
  const u32 low0 = first & ((1u << shape.log_stride) - 1);
  const u64 offset = ((u64)coset << shape.log_n) + ((u64)(first >> shape.log_stride) << (shape.log_stride + shape.log_r));
  in += column * shape.in_pitch + offset;
  out += column * shape.out_pitch + offset;

  auto twiddle = [&](auto& v, u32 c, u32 k, auto order) {
    constexpr int D = LogOf<sizeof(v) / sizeof(u64)>::value;
    u64 first, next;
    twiddles.get(shape, coset, low0 + c, k, first, next);
    scale_by_series<D>(v, first, next, order);
  };
  auto load = [&](auto& v, u32 c, u32 p, u32) {
    constexpr int D = LogOf<sizeof(v) / sizeof(u64)>::value;
#pragma unroll
    for (int j = 0; j < (1 << D); ++j)
      v[j] = in[((u64)(p + ((u32)j << (shape.log_r - D))) << shape.log_stride) + low0 + c];
    if (!INVERSE) twiddle(v, c, p, Identity());
  };
  auto store = [&](auto& v, u32 c, u32 k, u32) {
    constexpr int D = LogOf<sizeof(v) / sizeof(u64)>::value;
    if (INVERSE) twiddle(v, c, k, Reversed<D>());
#pragma unroll
    for (int j = 0; j < (1 << D); ++j)
      out[((u64)(k + ((u32)j << (shape.log_r - D))) << shape.log_stride) + low0 + c] = v[gl::reversed<D>(j)];
  };
  Pass<INVERSE, false>{shape, tile, roots}.run(load, store);
}

#if DP_EXTENSIONS
extern "C" __global__ void __launch_bounds__(STRIDED_THREADS, STRIDED_BLOCKS)
    lde_strided_inverse(const u64* in, u64* out, const u64* roots, const u64* fine, const u64* coarse, const u64* start,
                        const u64* ratio, const __grid_constant__ Shape shape) {
  strided<true>(in, out, roots, ExtensionTwiddles{fine, coarse, start, ratio}, shape);
}

extern "C" __global__ void __launch_bounds__(STRIDED_THREADS, STRIDED_BLOCKS)
    lde_strided_forward(const u64* in, u64* out, const u64* roots, const u64* fine, const u64* coarse, const u64* start,
                        const u64* ratio, const __grid_constant__ Shape shape) {
  strided<false>(in, out, roots, ExtensionTwiddles{fine, coarse, start, ratio}, shape);
}

#endif

#if DP_CODEWORDS
extern "C" __global__ void __launch_bounds__(STRIDED_THREADS, STRIDED_BLOCKS)
    encode_strided(u64* out, const u64* roots, const __grid_constant__ Powers powers, const __grid_constant__ Shape shape) {
  strided<false>(out, out, roots, CodewordTwiddles{powers}, shape);
}
#endif

// The last digit: inverse transform of a row, then for each coset t the products with scale[t 2^log_r + k] and the
// forward transform. `in` may be `out`'s coset 0. The coefficients wait in each thread's own part of `kept`.
__device__ __forceinline__ void rows_of_block(const u64* in, u64* out, const u64* inverse_roots,
                                              const u64* forward_roots, const u64* scale, const Shape& shape,
                                              u32 block) {
  DP_DYNAMIC_SHARED(u64, tile);
  u64* kept = tile + slot(E * blockDim.x) + threadIdx.x;
  const u32 log_rows = shape.log_n - shape.log_r;
  const u64 first = (u64)block << shape.log_c, rows = shape.vectors << log_rows;

  auto load = [&](auto& v, u32 c, u32 p, u32) {
    constexpr int D = LogOf<sizeof(v) / sizeof(u64)>::value;
    const u64 row = first + c;
    const u64* at = in + (row >> log_rows) * shape.in_pitch + ((row & (((u64)1 << log_rows) - 1)) << shape.log_r) + p;
#pragma unroll
    for (int j = 0; j < (1 << D); ++j) v[j] = row < rows ? at[(u64)j << (shape.log_r - D)] : 0;
  };
  auto keep = [&](auto& v, u32, u32, u32 u) {
    constexpr int D = LogOf<sizeof(v) / sizeof(u64)>::value;
#pragma unroll
    for (int j = 0; j < (1 << D); ++j) kept[((u << D) + j) * blockDim.x] = v[gl::reversed<D>(j)];
  };
  Pass<true, true>{shape, tile, inverse_roots}.run(load, keep);

#pragma unroll 1
  for (u32 t = 0; t < (1u << shape.log_cosets); ++t) {
    auto again = [&](auto& v, u32 c, u32 k, u32 u) {
      constexpr int D = LogOf<sizeof(v) / sizeof(u64)>::value;
      const u64* factors = scale + ((u64)t << shape.log_r) + k;
#pragma unroll
      for (int j = 0; j < (1 << D); ++j)
        v[j] = gl::mul(kept[((u << D) + j) * blockDim.x], __ldg(factors + ((u32)j << (shape.log_r - D))));
    };
    auto store = [&](auto& v, u32 c, u32 k, u32) {
      constexpr int D = LogOf<sizeof(v) / sizeof(u64)>::value;
      const u64 row = first + c;
      if (row >= rows) return;
      u64* at = out + (row >> log_rows) * shape.out_pitch + ((u64)t << shape.log_n) +
                ((row & (((u64)1 << log_rows) - 1)) << shape.log_r) + k;
#pragma unroll
      for (int j = 0; j < (1 << D); ++j) at[(u64)j << (shape.log_r - D)] = v[gl::reversed<D>(j)];
    };
    __syncthreads();  // the tile's last readers
    Pass<false, true>{shape, tile, forward_roots}.run(again, store);
  }
}

#if DP_EXTENSIONS
extern "C" __global__ void __launch_bounds__(ROWS_THREADS, ROWS_BLOCKS)
    lde_rows(const u64* in, u64* out, const u64* inverse_roots, const u64* forward_roots, const u64* scale,
             const __grid_constant__ Shape shape) {
  rows_of_block(in, out, inverse_roots, forward_roots, scale, shape, blockIdx.x);
}
#endif

#if DP_CODEWORDS
// A codeword's first pass: the forward transforms of rows, a block for each coset, which lie side by side in the grid.
// Coefficients are in natural order, so that neighbours belong to as many rows: that of x^(k1 + N1 (k2 + N2 k3)) is the k3-th
// of row k1 N2 + k2. N1 or N2 may be 1. A block takes neighbours and reads them side by side.
extern "C" __global__ void __launch_bounds__(ROWS_THREADS, ROWS_BLOCKS)
    encode_rows(const u64* in, u64* out, const u64* roots, const __grid_constant__ Powers powers, u32 log_n1,
                const __grid_constant__ Shape shape) {
  DP_DYNAMIC_SHARED(u64, tile);
  const u32 log_rows = shape.log_n - shape.log_r, t = blockIdx.x & ((1u << shape.log_cosets) - 1);
  const u64 first = (u64)(blockIdx.x >> shape.log_cosets) << shape.log_c, rows = shape.vectors << log_rows;
  auto load = [&](auto& v, u32 c, u32 k, u32) {
    constexpr int D = LogOf<sizeof(v) / sizeof(u64)>::value;
    const u64 row = first + c;
    const u64* at = in + (row >> log_rows) * shape.in_pitch + (row & (((u64)1 << log_rows) - 1));
#pragma unroll
    for (int j = 0; j < (1 << D); ++j)
      v[j] = row < rows ? at[(u64)(k + ((u32)j << (shape.log_r - D))) << log_rows] : 0;
    const u32 step = t << log_rows;
    if (t) scale_by_series<D>(v, powers[step * k], powers[step << (shape.log_r - D)], Identity());
  };
  auto store = [&](auto& v, u32 c, u32 k, u32) {
    constexpr int D = LogOf<sizeof(v) / sizeof(u64)>::value;
    const u64 row = first + c, place = row & (((u64)1 << log_rows) - 1);
    if (row >= rows) return;
    const u64 own = ((place & (((u64)1 << log_n1) - 1)) << (log_rows - log_n1)) + (place >> log_n1);
    u64* at = out + (row >> log_rows) * shape.out_pitch + ((u64)t << shape.log_n) + (own << shape.log_r) + k;
#pragma unroll
    for (int j = 0; j < (1 << D); ++j) at[(u64)j << (shape.log_r - D)] = v[gl::reversed<D>(j)];
  };
  Pass<false, true>{shape, tile, roots}.run(load, store, log_rows > 0);
}
#endif

#if DP_RUNS
// Runs of 2^LOG values over the subgroup become their coefficients, in place: one thread a run, through shared memory, where
// runs are one element more apart. Bound: memory.
template <int LOG>
__device__ __forceinline__ void interpolate(u64* values, u64 words) {
  DP_DYNAMIC_SHARED(u64, tile);
  const u32 all = blockDim.x << LOG;
  const u64 begin = (u64)blockIdx.x * all;
  const u32 count = (u32)min((u64)all, words - begin);
  values += begin;
  for (u32 i = threadIdx.x; i < count; i += blockDim.x) tile[i + (i >> LOG)] = values[i];
  __syncthreads();
  if (threadIdx.x << LOG < count) {
    u64 v[1 << LOG], *const run = tile + threadIdx.x * ((1u << LOG) + 1);
#pragma unroll
    for (int j = 0; j < (1 << LOG); ++j) v[j] = run[j];
    gl::transform<true, LOG>(v);
#pragma unroll
    for (int j = 0; j < (1 << LOG); ++j)  // 1 / 2^LOG = -2^(96 - LOG)
      run[j] = gl::neg(gl::mul_pow2<96 - LOG>(v[gl::reversed<LOG>(j)]));
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < count; i += blockDim.x) values[i] = tile[i + (i >> LOG)];
}

#define DP_INTERPOLATE(LOG)                                                                                \
  extern "C" __global__ void __launch_bounds__(RUN_THREADS) interpolate_##LOG(u64* values, u64 words) {   \
    interpolate<LOG>(values, words);                                                                       \
  }
DP_INTERPOLATE(1)
DP_INTERPOLATE(2)
DP_INTERPOLATE(3)
DP_INTERPOLATE(4)
DP_INTERPOLATE(5)
DP_INTERPOLATE(6)
#endif

#if DP_EXTENSIONS

constexpr u32 TABLES = 16;  // tables per launch of lde_rows_of_many

struct RowTable {
  const u64* in;
  u64* out;
  const u64 *inverse_roots, *forward_roots, *scale;
  u64 first_block;
  Shape shape;
};

struct RowTables {
  RowTable tables[TABLES];
  u32 count, reserved;
};

// lde_rows of several tables, each with blocks of its own.
extern "C" __global__ void __launch_bounds__(ROWS_THREADS, ROWS_BLOCKS)
    lde_rows_of_many(const __grid_constant__ RowTables given) {
  u32 t = 0;
  while (t + 1 < given.count && given.tables[t + 1].first_block <= blockIdx.x) ++t;
  const RowTable& table = given.tables[t];
  rows_of_block(table.in, table.out, table.inverse_roots, table.forward_roots, table.scale, table.shape,
                blockIdx.x - (u32)table.first_block);
}
#endif
