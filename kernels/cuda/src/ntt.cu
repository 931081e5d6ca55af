// Number-theoretic transform over FIELD: one pass of a decimation in frequency by large radices.
//
// n = N1 N2 N3, i = (i1 N2 + i2) N3 + i3, k = k1 + N1 (k2 + N2 k3). Pass p replaces digit i_p by k_p: it takes the
// R = N_p points that differ in that digit (a column), transforms them in shared memory, multiplies by the twiddles that
// the later passes need, and puts them back at the same place (the digit order of the data between passes is k1 k2 i3).
// The first pass reads the order that the caller has (natural or bit-reversed, negated for an inverse), and the last
// writes the order that the caller wants, so no order costs a pass of its own. A coset is a scaling of i1 at the first
// load and part of the twiddles elsewhere; 1/n is part of the twiddles.
//
// Launch: a block takes C = 2^log_c neighbouring columns with R C / E threads of E elements each, and dynamic shared
// memory for R C elements. A thread does E-point transforms in registers; between them elements change threads through
// shared memory. The profile sets LOG_ELEMENTS, MAX_THREADS, MIN_BLOCKS (blocks per multiprocessor) and PAIRS: whether the
// twiddles between passes are prepared, as those inside a pass always are (twiddle.h), or in Montgomery form.
// Bound: multiplications (n/2 log2 n less what the last radix saves). Traffic is 64 bytes per element and pass, and for
// the twiddles of all passes but the last 32, or 64 as pairs.
#include "device.h"
#include "field/twiddle.h"

using namespace dp;
using F = Fp<FIELD>;
using W = Twiddle<FIELD>;
using L = Loose<FIELD>;

constexpr int LOG_E = LOG_ELEMENTS, E = 1 << LOG_E;  // elements a thread holds: 4 or 8
constexpr u32 REVERSED_INPUT = 1, NEGATED_INPUT = 2, REVERSED_OUTPUT = 4, FIRST_PASS = 8, LAST_PASS = 16;

// The shape of one pass. `rows_*` say where the last pass finds column q = k1 + N1 k2: at row k1 N2 + k2.
struct Pass {
  u32 log_n, log_r, log_c, log_stride;  // log_stride: of the digit that is transformed, in the data between passes
  u32 log_rows_1, log_rows_2;
  u32 log_twiddle_stride, twiddle_mask;  // twiddle of output k in column q: [(k << stride) + (q & mask)]
  u32 log_roots, flags;
  u64 columns;  // of all transforms of the batch together
};

struct EighthRoots {
  W w[3];  // w8, w8^2, w8^3
};

// The twiddles inside a pass, in four planes of 16 bytes. Level m holds what a step takes that has 2^m points before it and
// makes them 2^(m - D) at [2^m + (j << (m - D)) + p]: w^(j p) for a primitive 2^m-th root w.
struct Roots {
  const uint4* planes;
  u32 plane;
  __device__ __forceinline__ W load(u32 i) const {
    W r;
    uint4* d = reinterpret_cast<uint4*>(&r);
#pragma unroll
    for (int k = 0; k < 4; ++k) d[k] = __ldg(planes + k * plane + i);
    return r;
  }
};

// Shared memory in two planes of 16-byte halves, one slot of padding after eight: a warp that reads with a power-of-two
// stride then meets every bank.
struct Tile {
  uint4 *low, *high;
  __device__ __forceinline__ static u32 slot(u32 i) { return i + (i >> 3); }
  __device__ __forceinline__ F load(u32 i) const {
    F r;
    uint4* d = reinterpret_cast<uint4*>(&r);
    d[0] = low[slot(i)];
    d[1] = high[slot(i)];
    return r;
  }
  __device__ __forceinline__ void store(u32 i, const F& v) const {
    const uint4* s = reinterpret_cast<const uint4*>(&v);
    low[slot(i)] = s[0];
    high[slot(i)] = s[1];
  }
};

// i < 2^bits with its bits in reverse order
__device__ __forceinline__ u64 reverse_bits(u64 i, u32 bits) {
  u64 r = ((u64)__brev((u32)i) << 32) | __brev((u32)(i >> 32));
  return bits ? r >> (64 - bits) : 0;
}

__device__ __forceinline__ u64 load_index(const Pass& pass, u64 column, u32 e) {
  const u64 mask = ((u64)1 << (pass.log_n - pass.log_r)) - 1, q = column & mask;
  u64 i;
  if (pass.flags & LAST_PASS && !(pass.flags & FIRST_PASS)) {
    u64 k1 = q & (((u64)1 << pass.log_rows_1) - 1), k2 = q >> pass.log_rows_1;
    i = (((k1 << pass.log_rows_2) + k2) << pass.log_r) + e;
  } else {
    u64 low = q & (((u64)1 << pass.log_stride) - 1);
    i = ((((q >> pass.log_stride) << pass.log_r) + e) << pass.log_stride) + low;
    if (pass.flags & NEGATED_INPUT) i = (0 - i) & (((u64)1 << pass.log_n) - 1);
    if (pass.flags & REVERSED_INPUT) i = reverse_bits(i, pass.log_n);
  }
  return ((column & ~mask) << pass.log_r) + i;
}

__device__ __forceinline__ u64 store_index(const Pass& pass, u64 column, u32 k) {
  const u64 mask = ((u64)1 << (pass.log_n - pass.log_r)) - 1, q = column & mask;
  u64 i;
  if (pass.flags & LAST_PASS) {
    i = q + ((u64)k << (pass.log_n - pass.log_r));
    if (pass.flags & REVERSED_OUTPUT) i = reverse_bits(i, pass.log_n);
  } else {
    u64 low = q & (((u64)1 << pass.log_stride) - 1);
    i = ((((q >> pass.log_stride) << pass.log_r) + k) << pass.log_stride) + low;
  }
  return ((column & ~mask) << pass.log_r) + i;
}

// 2^D-point transform of v in registers, decimation in frequency: output j is left in v[bit-reversed j].
template <int D>
__device__ __forceinline__ void transform(F* v, const EighthRoots& roots) {
#pragma unroll
  for (int half = (1 << D) / 2; half >= 1; half /= 2) {
#pragma unroll
    for (int first = 0; first < (1 << D); first += 2 * half) {
#pragma unroll
      for (int j = 0; j < half; ++j) {
        // Without a product to come, all but v[0] are left for the twiddles' products.
        const bool open = half == 1, twiddled = j > 0;
        F a = v[first + j], b = v[first + j + half];
        v[first + j] = open && first ? L::add_open(a, b) : L::add(a, b);
        F d = open || twiddled ? L::sub_open(a, b) : L::sub(a, b);
        if (twiddled) d = L::mul(d, roots.w[j * (4 / half) - 1]);
        v[first + j + half] = d;
      }
    }
  }
}

template <int D>
__device__ __forceinline__ constexpr int reversed(int j) {
  return D == 3 ? ((j & 1) << 2) | (j & 2) | (j >> 2) : D == 2 ? ((j & 1) << 1) | (j >> 1) : j;
}

// What an element is multiplied by between two passes. A pair leaves it below 2p, a constant in Montgomery form below p.
#if PAIRS
using Between = W;
__device__ __forceinline__ F times(const F& x, const W& w) { return L::mul(x, w); }
#else
using Between = F;
__device__ __forceinline__ F times(const F& x, const F& w) { return w * x; }
#endif

// The digits that the steps before have made (`done` bits: first a digit of `odd` bits if there is one, then digits of
// LOG_E bits) in the order of the output index.
__device__ __forceinline__ u32 reverse_digits(u32 digits, u32 done, u32 odd) {
  u32 r = 0, at = 0;
  for (u32 bits = odd ? odd : LOG_E; at < done; bits = LOG_E) {
    r |= ((digits >> (done - at - bits)) & ((1u << bits) - 1)) << at;
    at += bits;
  }
  return r;
}

// One radix-2^D step over the whole tile. `done` bits of the transform's log_r are done before it.
template <int D>
__device__ __forceinline__ void step(const Pass& pass, const Tile& tile, u32 done, u32 odd, const F* in, F* out,
                                     const Roots& roots, const F* load_scale, const Between* twiddles,
                                     const EighthRoots& eighth) {
  const u32 log_c = pass.log_c, log_rest = pass.log_r - done - D;  // R' = 2^log_rest points remain per digit
  const bool first = done == 0, last = log_rest == 0;
#pragma unroll 1
  for (u32 u = 0; u < (u32)(E >> D); ++u) {
    const u32 group = threadIdx.x + u * blockDim.x;
    const u32 c = group & ((1u << log_c) - 1), rest = group >> log_c;
    const u32 p = rest & ((1u << log_rest) - 1), digits = rest >> log_rest;
    const u32 base = (digits << (log_rest + D)) + p;
    const u64 column = ((u64)blockIdx.x << log_c) + c;
    const bool inside = column < pass.columns;
    F v[1 << D];
    if (first) {
#pragma unroll
      for (int j = 0; j < (1 << D); ++j) {
        const u32 e = base + ((u32)j << log_rest);
        v[j] = inside ? load16(in + load_index(pass, column, e)) : F::zero();
        if (load_scale) v[j] = load16_const(load_scale + e) * v[j];
      }
    } else {
#pragma unroll
      for (int j = 0; j < (1 << D); ++j) v[j] = tile.load(((base + ((u32)j << log_rest)) << log_c) + c);
    }
    transform<D>(v, eighth);
    if (!last) {
#pragma unroll
      for (int j = 0; j < (1 << D); ++j) {
        F x = v[reversed<D>(j)];
        if (j) x = L::mul(x, roots.load((((1u << D) + (u32)j) << log_rest) + p));
        tile.store(((base + ((u32)j << log_rest)) << log_c) + c, x);
      }
    } else if (inside) {
      const u32 k0 = reverse_digits(digits, done, odd);
      const u64 q = column & pass.twiddle_mask;
#pragma unroll
      for (int j = 0; j < (1 << D); ++j) {
        const u32 k = k0 + ((u32)j << done);
        F x = v[reversed<D>(j)];
        x = twiddles ? times(x, load16_const(twiddles + ((u64)k << pass.log_twiddle_stride) + q)) : L::reduced(x);
        if (PAIRS && twiddles && (pass.flags & LAST_PASS)) x = L::reduced(x);
        store16(out + store_index(pass, column, k), x);
      }
    }
  }
}

// `in` and `out` may be the same array unless the pass is the first or the last of several. `root_planes` are as in Roots,
// up to the level log_roots. load_scale[e], in Montgomery form, and twiddles may be null. Between passes values of `out` are
// below 2p.
extern "C" __global__ void __launch_bounds__(MAX_THREADS, MIN_BLOCKS)
    ntt_pass(const F* in, F* out, const uint4* root_planes, const F* load_scale, const Between* twiddles,
             const __grid_constant__ EighthRoots eighth, const __grid_constant__ Pass pass) {
  DP_DYNAMIC_SHARED(uint4, shared);
  const Roots roots{root_planes, 2u << pass.log_roots};
  const u32 elements = blockDim.x * E;
  const Tile tile{shared, shared + Tile::slot(elements)};
  const u32 odd = pass.log_r % LOG_E;
  u32 done = 0;
  if (odd == 1) step<1>(pass, tile, 0, odd, in, out, roots, load_scale, twiddles, eighth);
  if (LOG_E > 2 && odd == 2) step<2>(pass, tile, 0, odd, in, out, roots, load_scale, twiddles, eighth);
  done = odd;
#pragma unroll 1
  while (done < pass.log_r) {
    if (done) __syncthreads();
    step<LOG_E>(pass, tile, done, odd, in, out, roots, load_scale, twiddles, eighth);
    done += LOG_E;
  }
}

// base^(2^k) in Montgomery form
struct Squares {
  F base[32];
};

DP_HD F power(const Squares& squares, u64 exponent, F r) {
  for (int k = 0; exponent; ++k, exponent >>= 1)
    if (exponent & 1) r = r * squares.base[k];
  return r;
}

constexpr u32 PLAIN = 0, PAIRED = 1, PLANES = 2;

// Value [(k << log_columns) + m] = first * root^(k m) * other^(by_row ? k : m) of the tables above, made once per size: in
// Montgomery form, as pairs, or as pairs in four planes of `plane` elements, of which the table begins at `begin`.
extern "C" __global__ void ntt_table(uint4* out, u64 n, u32 log_columns, u32 by_row, u32 form, u32 plane, u32 begin,
                                     const __grid_constant__ F minus_inverse, const __grid_constant__ F first,
                                     const __grid_constant__ Squares root, const __grid_constant__ Squares other) {
  const u64 i = global_thread();
  if (i >= n) return;
  const u64 k = i >> log_columns, m = i & (((u64)1 << log_columns) - 1);
  const F value = power(other, by_row ? k : m, power(root, k * m, first));
  if (form == PLAIN) {
    store16(reinterpret_cast<F*>(out) + i, value);
    return;
  }
  const W pair = L::prepare(value, minus_inverse);
  if (form == PAIRED) {
    store16(reinterpret_cast<W*>(out) + i, pair);
    return;
  }
  const uint4* s = reinterpret_cast<const uint4*>(&pair);
#pragma unroll
  for (int p = 0; p < 4; ++p) out[(u64)p * plane + begin + i] = s[p];
}
