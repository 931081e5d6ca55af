// OpenVM 2's commitments over BabyBear: messages and Reed-Solomon codewords, of elements in Montgomery form. openvm_trees.cu has
// the trees over their rows.
//
// Codewords are column-major. The transform is a decimation in frequency in place, so a codeword of B n values for a message of n
// coefficients has the value at w^k in place rev(k), the reversal of all its bits: B blocks, of which block rev(t) has the coset
// w^t <w^B>. The rows of a leaf, which are its number of leaves apart, are neighbours there.
//
// A pass of the transform takes up to 8 bits of the index, from the top: a tile of 2^bits points, a distance apart, for some
// neighbours, in two steps of up to 16 points in a thread's registers, with an exchange by shared memory between them. The first
// pass takes the message for every coset, and scales it; from the columns of a stack it makes the messages, too. Bound: products
// and sums.
#include "field/babybear.h"
#include "threads.h"

using namespace dp;
namespace bm = dp::bb::m;

// ---- messages -------------------------------------------------------------------------------------------------------------

// Spreads a matrix: cells[i << log_step] = matrix[i], and zeros between.
extern "C" __global__ void codes_spread(const u32* matrix, u32* cells, u64 n, u32 log_step) {
  const u64 at = global_thread();
  if (at >= n << log_step) return;
  cells[at] = at & (((u64)1 << log_step) - 1) ? 0 : matrix[at >> log_step];
}

// Products of runs with a matrix (2^log_run, 2^log_run): out[i] of a run is the sum over j of in[j] matrix[j][i]. Column c is at
// c in_pitch, then at c out_pitch. A block's runs lie in shared memory.
extern "C" __global__ void __launch_bounds__(TRANSFORM_THREADS)
    codes_message(const u32* in, u32* out, const u32* matrix, u64 words, u32 log_run, u32 log_n, u64 in_pitch, u64 out_pitch) {
  __shared__ u32 tile[1 << LOG_TILE];
  const u64 begin = (u64)blockIdx.x << LOG_TILE;
  const u32 count = (u32)min((u64)1 << LOG_TILE, words - begin), size = 1u << log_run;
  const u64 inside = ((u64)1 << log_n) - 1;
  for (u32 i = threadIdx.x; i < count; i += TRANSFORM_THREADS) {
    const u64 at = begin + i;
    tile[i] = in[(at >> log_n) * in_pitch + (at & inside)];
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < count; i += TRANSFORM_THREADS) {
    const u32 own = i & (size - 1), *const run = tile + (i - own);
    bm::Sum sum = bm::Sum::zero();
    if (size == 1) sum.add(run[0], matrix[0]);
    for (u32 j = 0; j + 1 < size; j += 2)
      sum.add(run[j], __ldg(matrix + (j << log_run) + own), run[j + 1], __ldg(matrix + ((j + 1) << log_run) + own));
    const u64 at = begin + i;
    out[(at >> log_n) * out_pitch + (at & inside)] = sum.result();
  }
}

// ---- transforms -----------------------------------------------------------------------------------------------------------

constexpr u32 LOG_FINE = 13;  // must equal that in cuda/openvm/codes.py

// The roots of unity of order 2^27: w^i for i < 2^13, then w^(i 2^13) for i < 2^14.
__device__ __forceinline__ u32 root(const u32* roots, u32 exponent, u32 log_order) {
  const u32 e = exponent << (bb::TWO_ADICITY - log_order), low = e & ((1u << LOG_FINE) - 1);
  const u32 high = __ldg(roots + (1u << LOG_FINE) + ((e & ((1u << bb::TWO_ADICITY) - 1)) >> LOG_FINE));
  return low ? bm::mul(__ldg(roots + low), high) : high;
}

constexpr u32 constexpr_power(u32 base, u32 exponent) {
  u64 result = 1, b = base;
  for (; exponent; exponent >>= 1, b = b * b % bb::P)
    if (exponent & 1) result = result * b % bb::P;
  return (u32)result;
}

// w^j for w of order 2^D, in Montgomery form
template <int D>
constexpr u32 small_root(int j) {
  return bb::montgomery_constant(constexpr_power(31, (bb::P - 1) / (1u << D) * (u32)j));
}

template <int D>
struct SmallRoots {
  u32 w[D ? 1 << (D - 1) : 1];
  constexpr SmallRoots() : w() {
    for (int j = 0; j < (D ? 1 << (D - 1) : 1); ++j) w[j] = small_root<D>(j);
  }
};

// The numbers below 2^D with their bits reversed.
template <int D>
struct Reversal {
  int of[1 << D];
  constexpr Reversal() : of() {
    for (int i = 0; i < (1 << D); ++i)
      for (int b = 0; b < D; ++b) of[i] |= ((i >> b) & 1) << (D - 1 - b);
  }
};

// The transform of 2^D points in registers: v[i] becomes the value at w^rev(i).
template <int D>
__device__ __forceinline__ void transform(u32* v) {
  if constexpr (D > 0) {
    constexpr SmallRoots<D> roots;
    constexpr int half = 1 << (D - 1);
#pragma unroll
    for (int j = 0; j < half; ++j) {
      const u32 a = v[j], b = v[j + half];
      v[j] = bb::add(a, b);
      v[j + half] = j ? bm::mul(a - b + bb::P, roots.w[j]) : bb::sub(a, b);  // a factor below 2 p
    }
    transform<D - 1>(v);
    transform<D - 1>(v + half);
  }
}

// Multiplies value k, in v[rev(k)], by base^k.
template <int D>
__device__ __forceinline__ void twiddle(u32* v, u32 base) {
  constexpr Reversal<D> reversal;
  u32 power[1 << D];
  power[0] = bm::ONE, power[1 < (1 << D) ? 1 : 0] = base;
#pragma unroll
  for (int k = 2; k < (1 << D); ++k) power[k] = bm::mul(power[k / 2], power[k - k / 2]);
#pragma unroll
  for (int k = 1; k < (1 << D); ++k) v[reversal.of[k]] = bm::mul(v[reversal.of[k]], power[k]);
}

// The message of a run in registers: coefficients over the subgroup of 2^D elements, then what their subsets give.
template <int D>
__device__ __forceinline__ void message_of(u32* v) {
  constexpr int N = 1 << D;
  constexpr Reversal<D> reversal;
  constexpr u32 SCALE = bb::montgomery_constant(constexpr_power(N, bb::P - 2));
  transform<D>(v);
  u32 out[N];
#pragma unroll
  for (int k = 0; k < N; ++k)  // the values at inverse powers are those in reverse order
    out[k] = bm::mul(v[reversal.of[(N - k) % N]], SCALE);
#pragma unroll
  for (int b = 0; b < D; ++b)
#pragma unroll
    for (int k = 0; k < N; ++k)
      if (k >> b & 1) out[k] = bb::add(out[k], out[k ^ (1 << b)]);
#pragma unroll
  for (int k = 0; k < N; ++k) v[k] = out[k];
}

// One pass. The array has `blocks` blocks of 2^log_block elements, `pitch` apart. A tile has columns, each with the 2^BITS points
// of a transform: 2^log_low neighbours of a block, or several blocks. In the last pass a column is a whole block.
struct Pass {
  u64 blocks, in_pitch, out_pitch;
  u32 log_block, log_low, log_cosets, log_skip;
};

// What a pass is: the first one may read columns of a stack, and make messages of runs of 2^log_skip neighbours.
enum Kind { STACK, STRIDED, LAST_PASS };

// The elements lie in shared memory so that neither step has two lanes of a warp in one bank.
template <int BITS, Kind KIND>
struct Tile {
  static constexpr bool LAST = KIND == LAST_PASS;
  static constexpr int FIRST = BITS < 4 ? BITS : 4, SECOND = BITS - FIRST, LOG_COLUMNS = LOG_TILE - BITS;
  static constexpr u32 COLUMNS = 1u << LOG_COLUMNS, ROOM = (1u << LOG_TILE) / 16 * 17;
  static constexpr u32 KEPT = KIND == STACK ? (COLUMNS + 1) << BITS : 1;  // a word of padding for each point

  const Pass& pass;
  const u32* roots;
  u32 *shared, *kept;
  const u32* in;
  u32* out;
  u64 first_block;
  u32 low, slice;  // of the first column, and the coset's place

  __device__ __forceinline__ u32 log_stride() const { return LAST ? 0 : pass.log_block - BITS; }

  // The column of a step's group, and which of its transforms it is. Neighbours in memory are neighbours in a warp.
  template <int D>
  static __device__ __forceinline__ u32 column_of(u32 group) {
    return LAST ? group >> (BITS - D) : group & (COLUMNS - 1);
  }
  template <int D>
  static __device__ __forceinline__ u32 own_of(u32 group) {
    return LAST ? group & ((1u << (BITS - D)) - 1) : group >> LOG_COLUMNS;
  }
  // The place of point `digit` 2^SECOND + rest of a column.
  static __device__ __forceinline__ u32 place(u32 column, u32 digit, u32 rest) {
    if (!LAST) return digit * (256 + 16) + (rest << LOG_COLUMNS) + column;
    const u32 point = (digit << SECOND) + rest;
    return column * ((1u << BITS) / 16 * 17) + point / 16 * 17 + point % 16;
  }
  __device__ __forceinline__ u64 block_of(u32 column) const { return first_block + (LAST ? column : column >> pass.log_low); }
  __device__ __forceinline__ u32 offset_of(u32 column) const {
    return LAST ? 0 : low + (column & ((1u << pass.log_low) - 1));
  }

  // The first step, on points that are as far apart as the pass has them.
  __device__ __forceinline__ void first() const {
    constexpr int D = FIRST;
    const u32 log_far = log_stride() + SECOND;
    const u64 far = (u64)1 << log_far;
    for (u32 group = threadIdx.x; group < 1u << (LOG_TILE - D); group += TRANSFORM_THREADS) {
      const u32 column = column_of<D>(group), own = own_of<D>(group), offset = (own << log_stride()) + offset_of(column);
      const u64 block = block_of(column);
      u32 v[1 << D];
      if (block < pass.blocks) {
        if (KIND == STACK) {
#pragma unroll
          for (int j = 0; j < (1 << D); ++j) v[j] = kept[(((u32)j << SECOND) + own) * (COLUMNS + 1) + column];
        } else {
          const u32* from = in + block * pass.in_pitch + offset;
#pragma unroll
          for (int j = 0; j < (1 << D); ++j, from += far) v[j] = *from;
        }
        if (slice) {
          const u32 log_order = pass.log_block + pass.log_cosets, t = __brev(slice) >> (32 - pass.log_cosets);
          u32 factor = root(roots, offset * t, log_order);
          const u32 ratio = root(roots, t << log_far, log_order);
#pragma unroll
          for (int j = 0; j < (1 << D); ++j) {
            v[j] = bm::mul(v[j], factor);
            if (j + 1 < (1 << D)) factor = bm::mul(factor, ratio);
          }
        }
        transform<D>(v);
        if (SECOND || !LAST) twiddle<D>(v, root(roots, offset, pass.log_block));
        if (!SECOND) {
          u32* to = out + block * pass.out_pitch + ((u64)slice << pass.log_block) + offset;
#pragma unroll
          for (int j = 0; j < (1 << D); ++j, to += far) *to = v[j];
        }
      }
      if (SECOND) {
#pragma unroll
        for (int j = 0; j < (1 << D); ++j) shared[place(column, j, own)] = v[j];
      }
    }
  }

  // The second step, on neighbours of the pass.
  __device__ __forceinline__ void second() const {
    constexpr int D = SECOND;
    const u64 near = (u64)1 << log_stride();
    for (u32 group = threadIdx.x; group < 1u << (LOG_TILE - D); group += TRANSFORM_THREADS) {
      const u32 column = column_of<D>(group), own = own_of<D>(group);
      u32 v[1 << D];
#pragma unroll
      for (int j = 0; j < (1 << D); ++j) v[j] = shared[place(column, own, j)];
      transform<D>(v);
      if (LAST) {  // by shared memory again, for neighbours to be written side by side
#pragma unroll
        for (int j = 0; j < (1 << D); ++j) shared[place(column, own, j)] = v[j];
      } else {
        const u32 offset = offset_of(column);
        twiddle<D>(v, root(roots, offset, log_stride() + D));
        const u64 block = block_of(column);
        if (block < pass.blocks) {
          u32* to = out + block * pass.out_pitch + ((u64)slice << pass.log_block) + ((u64)own << (log_stride() + D)) + offset;
#pragma unroll
          for (int j = 0; j < (1 << D); ++j, to += near) *to = v[j];
        }
      }
    }
    if (LAST) {
      __syncthreads();
#pragma unroll
      for (u32 i = threadIdx.x; i < 1u << LOG_TILE; i += TRANSFORM_THREADS) {
        const u32 column = i >> BITS, point = i & ((1u << BITS) - 1);
        const u64 block = block_of(column);
        if (block < pass.blocks)
          out[block * pass.out_pitch + ((u64)slice << pass.log_block) + point] =
              shared[place(column, point >> D, point & ((1u << D) - 1))];
      }
    }
  }

  // The messages of the tile's runs, which are neighbours of one point.
  __device__ __forceinline__ void keep_messages() const {
    for (u32 i = threadIdx.x; i < 1u << LOG_TILE; i += TRANSFORM_THREADS) {
      const u32 column = i & (COLUMNS - 1), point = i >> LOG_COLUMNS;
      const u64 block = block_of(column);
      if (block < pass.blocks)
        kept[point * (COLUMNS + 1) + column] = in[block * pass.in_pitch + ((u64)point << log_stride()) + offset_of(column)];
    }
    __syncthreads();
    switch (pass.log_skip) {
      case 1: make_messages<1>(); break;
      case 2: make_messages<2>(); break;
      case 3: make_messages<3>(); break;
      case 4: make_messages<4>(); break;
    }
    __syncthreads();
  }
  template <int D>
  __device__ __forceinline__ void make_messages() const {
    for (u32 run = threadIdx.x; run < 1u << (LOG_TILE - D); run += TRANSFORM_THREADS) {
      const u32 cell = run << D, column = cell & (COLUMNS - 1);
      if (block_of(column) >= pass.blocks) continue;
      u32 v[1 << D], *const own = kept + (cell >> LOG_COLUMNS) * (COLUMNS + 1) + column;
#pragma unroll
      for (int k = 0; k < (1 << D); ++k) v[k] = own[k];
      message_of<D>(v);
#pragma unroll
      for (int k = 0; k < (1 << D); ++k) own[k] = v[k];
    }
  }

  // All cosets. `in` may be `out`'s first one, which is written last.
  __device__ __forceinline__ void run() {
    if (KIND == STACK) keep_messages();
    for (slice = 1u << pass.log_cosets; slice-- > 0;) {
      first();
      if (SECOND) {
        __syncthreads();
        second();
        __syncthreads();
      }
    }
  }
};

template <int BITS, Kind KIND>
__device__ __forceinline__ void pass_of(const u32* in, u32* out, const u32* roots, const Pass& pass) {
  using T = Tile<BITS, KIND>;
  __shared__ u32 shared[T::SECOND ? T::ROOM : 1], kept[T::KEPT];
  const u32 log_blocks = T::LAST ? T::LOG_COLUMNS : T::LOG_COLUMNS - pass.log_low;
  const u32 log_lows = T::LAST ? 0 : pass.log_block - BITS - pass.log_low;
  const u32 low = (blockIdx.x & ((1u << log_lows) - 1)) << pass.log_low;
  T{pass, roots, shared, kept, in, out, (u64)(blockIdx.x >> log_lows) << log_blocks, low, 0}.run();
}

#define DP_PASS(name, BITS, KIND)                                                               \
  extern "C" __global__ void __launch_bounds__(TRANSFORM_THREADS)                              \
      name##_##BITS(const u32* in, u32* out, const u32* roots, const __grid_constant__ Pass pass) { \
    pass_of<BITS, KIND>(in, out, roots, pass);                                                  \
  }
#define DP_PASSES(BITS)              \
  DP_PASS(codes_stack, BITS, STACK)     \
  DP_PASS(codes_strided, BITS, STRIDED) \
  DP_PASS(codes_last, BITS, LAST_PASS)
DP_PASSES(1)
DP_PASSES(2)
DP_PASSES(3)
DP_PASSES(4)
DP_PASSES(5)
DP_PASSES(6)
DP_PASSES(7)
DP_PASSES(8)
DP_PASS(codes_last, 0, LAST_PASS)
