// The reduction from claims about columns to claims about stacked columns, over BabyBear.
// kernels/interface/openvm_stacking.py describes it.
//
// Elements are in Montgomery form. Stacked columns are base elements, all else elements of the extension. `eq` has the table of
// n coordinates from element 2^n on, for every n. Sums over runs and binding read the stacked columns once. A round is one
// launch, which folds at the challenge of the round before; its last block to end draws from the transcript. Bound: memory.
#include "field/babybear.h"
#include "openvm_sponge.h"
#include "openvm_sums.h"
#include "threads.h"

using namespace dp;
using bb::m::Ext;
using bb::m::ExtSum;
using dp::poseidon2_babybear::Constants;

constexpr u32 LOG_THREADS = 8;
constexpr u32 COLUMNS = 64;  // of a tile, for each of its threads
constexpr u32 MAX_LOG_RUN = 8, LOG_TILE = 12, ROUNDS = 32;
static_assert(THREADS == 1 << LOG_THREADS, "");
// COLUMNS, LOG_TILE and ROUNDS must equal those in cuda/openvm/stacking.py.

// Columns of one trace: PIECE in cuda/openvm/stacking.py.
struct Piece {
  const u32* cells;            // of the first column
  u64 first_tile, first_item;  // tiles and runs of all pieces before
  u64 place;                   // of its first run among those of all stacks
  u32 width, log_rows, kind, claim, reads_next, unused;
};

// The last of some pieces that begins at or before `at`.
template <class Begin>
__device__ __forceinline__ u32 piece_at(const Piece* pieces, u32 count, u64 at, const Begin& begin) {
  u32 low = 0, high = count;
  while (high - low > 1) {
    const u32 middle = (low + high) / 2;
    if (begin(pieces[middle]) <= at) low = middle;
    else high = middle;
  }
  return low;
}

// The powers of *x.
extern "C" __global__ void __launch_bounds__(THREADS) openvm_powers(const uint4* x, uint4* out, u64 count) {
  const u64 i = global_thread();
  if (i >= count) return;
  Ext power = Ext::one(), square = bb::m::load(*x);
#pragma unroll 1
  for (u64 e = i; e; e >>= 1, square = bb::m::mul(square, square))
    if (e & 1) power = bb::m::mul(power, square);
  out[i] = bb::m::store(power);
}

// eq of the first n coordinates of a point, for all n <= bits.
extern "C" __global__ void __launch_bounds__(THREADS) openvm_eq_prefixes(const uint4* point, uint4* out, u32 bits) {
  const u64 i = global_thread();
  if (i >= 2ull << bits) return;
  Ext product = Ext::one();
#pragma unroll 1
  for (u32 b = 0; i >> (b + 1); ++b) {
    const Ext x = bb::m::load(point[b]);
    product = bb::m::mul(product, i >> b & 1 ? x : bb::m::sub(Ext::one(), x));
  }
  out[i] = bb::m::store(product);
}

// The three sums of each thread of a block, in shared memory: they change once a tile, and take no registers within it.
struct ThreadSums {
  Ext of[3][THREADS];

  __device__ __forceinline__ void clear() {
    for (u32 k = 0; k < 3; ++k) of[k][threadIdx.x] = Ext::zero();
  }
  __device__ __forceinline__ void add(u32 k, const Ext& value) { of[k][threadIdx.x] = bb::m::add(of[k][threadIdx.x], value); }
  // Adds them to those of a kind, by their places in a run: sums in 64 bits, of at most 2^33 elements.
  __device__ __noinline__ void flush(u64* out, u32 kind, u32 log_run) {
    const u32 words = 4u << log_run;
    __syncthreads();
    for (u32 i = threadIdx.x; i < 3 * words; i += THREADS) {
      const u32 k = i / words, place = i % words / 4;
      u32 total = 0;
      for (u32 t = place; t < THREADS; t += 1u << log_run) total = bb::add(total, of[k][t][i % 4]);
      atomicAdd(out + (u64)3 * kind * words + i, (u64)total);
    }
    __syncthreads();
    clear();
  }
};

// The sums of a thread's columns of a tile, times their scales and times those of their next rows. Its columns are `step` apart, and
// AT_ONCE are loaded together. With CHECKED those from `width` on are left out.
template <bool CHECKED, u32 AT_ONCE>
__device__ __forceinline__ void add_columns(const u32* cells, const uint4* scales, u32 column, u32 step, u32 width, u32 log_rows,
                                            bool reads_next, ExtSum& here, ExtSum& next) {
  const u64 apart = (u64)step << log_rows;
#pragma unroll 1
  for (u32 i = 0; i < COLUMNS; i += AT_ONCE) {
    if (CHECKED && column >= width) return;
    u32 cell[AT_ONCE];
#pragma unroll
    for (u32 k = 0; k < AT_ONCE; ++k) cell[k] = !CHECKED || column + k * step < width ? cells[k * apart] : 0;
#pragma unroll
    for (u32 k = 0; k < AT_ONCE; k += 2) {
      // A column that is left out has cells 0: any scale will do.
      const u32 first = CHECKED && column + k * step >= width ? 0 : k * step;
      const u32 second = CHECKED && column + (k + 1) * step >= width ? 0 : (k + 1) * step;
      here.add(bb::m::load(scales[2 * first]), cell[k], bb::m::load(scales[2 * second]), cell[k + 1]);
      if (reads_next) next.add(bb::m::load(scales[2 * first + 1]), cell[k], bb::m::load(scales[2 * second + 1]), cell[k + 1]);
    }
    column += AT_ONCE * step, cells += AT_ONCE * apart, scales += 2 * AT_ONCE * step;
  }
}

// The sums over columns and the cube for each kind of weights, out (kinds, 3, 2^log_run, 4), zero before: columns times scale and
// eq, and for next rows, columns times their scale and eq, and eq moved by one. A tile is THREADS rows, or some columns of fewer,
// times COLUMNS columns. A block has tiles of all pieces, and few changes of the kind.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
    openvm_run_sums(const Piece* __restrict__ pieces, u32 count, u64 tiles, u32 log_run, const uint4* __restrict__ eq,
                    const uint4* __restrict__ scales, u64* out) {
  u32 at = piece_at(pieces, count, blockIdx.x, [](const Piece& piece) { return piece.first_tile; }), kind = pieces[at].kind;
  __shared__ ThreadSums sums;
  sums.clear();
  for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    while (at + 1 < count && pieces[at + 1].first_tile <= tile) ++at;
    const Piece& piece = pieces[at];
    if (piece.kind != kind) {
      sums.flush(out, kind, log_run);
      kind = piece.kind;
    }
    const u32 log_rows = piece.log_rows, width = piece.width;
    const bool reads_next = piece.reads_next;
    const u32 log_across = min(log_rows, LOG_THREADS), log_step = LOG_THREADS - log_across;
    const u64 own = tile - piece.first_tile, down = own & ((1ull << (log_rows - log_across)) - 1);
    const u64 row = down << LOG_THREADS | (threadIdx.x & ((1u << log_across) - 1));
    const u32 before = (u32)(own >> (log_rows - log_across)) * (COLUMNS << log_step);
    const u32 first = before + (threadIdx.x >> log_across), step = 1u << log_step;
    const u32* const cells = piece.cells + ((u64)first << log_rows) + row;
    const uint4* const weights = scales + 2 * ((u64)piece.claim + first);
    ExtSum here = ExtSum::zero(), next = here;
    if (before + (COLUMNS << log_step) <= width)
      add_columns<false, 8>(cells, weights, first, step, width, log_rows, reads_next, here, next);
    else
      add_columns<true, 4>(cells, weights, first, step, width, log_rows, reads_next, here, next);
    const u64 runs = 1ull << (log_rows - log_run), run = row >> log_run;
    const Ext of_run = bb::m::load(eq[runs + run]);
    sums.add(0, bb::m::mul(here.result(), of_run));
    if (reads_next) {
      const Ext value = next.result();
      sums.add(1, bb::m::mul(value, of_run));
      sums.add(2, bb::m::mul(value, bb::m::load(eq[runs + ((run - 1) & (runs - 1))])));
    }
  }
  sums.flush(out, kind, log_run);
}

// Binds runs of base elements: out[i] = the sum over z < 2^log_run of in[i 2^log_run + z] weights[z]. A tile goes by way of shared
// memory, with a word of padding after each run.
extern "C" __global__ void __launch_bounds__(THREADS)
    openvm_bind_runs(const u32* __restrict__ in, u64 words, const uint4* __restrict__ weights, uint4* __restrict__ out,
                     u32 log_run) {
  __shared__ u32 tile[(1u << LOG_TILE) + (1u << (LOG_TILE - 3))];
  __shared__ Ext factors[1u << MAX_LOG_RUN];
  const u64 begin = (u64)blockIdx.x << LOG_TILE;
  const u32 count = (u32)min((u64)1 << LOG_TILE, words - begin), size = 1u << log_run, runs = count >> log_run;
  const u32 pad = log_run > 2 ? log_run : 31;
#pragma unroll 8
  for (u32 i = threadIdx.x; i < count; i += THREADS) tile[i + (i >> pad)] = in[begin + i];
  for (u32 i = threadIdx.x; i < size; i += THREADS) factors[i] = bb::m::load(weights[i]);
  __syncthreads();
  for (u32 run = threadIdx.x; run < runs; run += THREADS) {
    const u32 first = run << log_run;
    const u32* const own = tile + first + (first >> pad);
    ExtSum sum = ExtSum::zero();
    if (size == 1) sum.add(factors[0], own[0]);
#pragma unroll 2
    for (u32 z = 0; z + 1 < size; z += 2) sum.add(factors[z], own[z], factors[z + 1], own[z + 1]);
    out[(begin >> log_run) + run] = bb::m::store(sum.result());
  }
}

// The two factors of each column's weights, of eq and of eq moved by one, in place of its scale and that of its next row.
extern "C" __global__ void __launch_bounds__(THREADS)
    openvm_column_factors(const Piece* pieces, u32 count, const uint4* factors, uint4* scales, u64 claims) {
  const u64 claim = global_thread();
  if (claim >= claims) return;
  const Piece& piece = pieces[piece_at(pieces, count, claim, [](const Piece& piece) { return (u64)piece.claim; })];
  const uint4* const of_kind = factors + 3 * piece.kind;
  Ext here = bb::m::mul(bb::m::load(scales[2 * claim]), bb::m::load(of_kind[0])), moved = Ext::zero();
  if (piece.reads_next) {
    const Ext next = bb::m::load(scales[2 * claim + 1]);
    here = bb::m::add(here, bb::m::mul(next, bb::m::load(of_kind[1])));
    moved = bb::m::mul(next, bb::m::load(of_kind[2]));
  }
  scales[2 * claim] = bb::m::store(here), scales[2 * claim + 1] = bb::m::store(moved);
}

// The weights of all runs of all pieces, at their places among those of all stacks.
extern "C" __global__ void __launch_bounds__(THREADS)
    openvm_stacked_weights(const Piece* __restrict__ pieces, u32 count, u64 items, u32 log_run, const uint4* __restrict__ eq,
                           const uint4* __restrict__ factors, uint4* __restrict__ out) {
  const u64 item = global_thread();
  if (item >= items) return;
  const Piece& piece = pieces[piece_at(pieces, count, item, [](const Piece& piece) { return piece.first_item; })];
  const u64 own = item - piece.first_item;
  const u32 bits = piece.log_rows - log_run;
  const u64 runs = 1ull << bits, run = own & (runs - 1), column = piece.claim + (own >> bits);
  Ext weight = bb::m::mul(bb::m::load(eq[runs + run]), bb::m::load(factors[2 * column]));
  if (piece.reads_next) {
    const Ext moved = bb::m::load(eq[runs + ((run - 1) & (runs - 1))]);
    weight = bb::m::add(weight, bb::m::mul(moved, bb::m::load(factors[2 * column + 1])));
  }
  out[piece.place + own] = bb::m::store(weight);
}

// What the rounds send and draw. Must equal STATE in cuda/openvm/stacking.py.
struct PairState {
  bb::Sponge sponge;
  u32 unused[2];
  Ext drawn[ROUNDS], sent[ROUNDS][2];
};

struct Pair {
  Ext even, odd;
};

// Entries 2 j and 2 j + 1 of a table, or those of its fold at x, which are stored.
__device__ __forceinline__ Pair pair_of(const uint4* __restrict__ in, uint4* __restrict__ out, u64 j, bool folds, const Ext& x) {
  if (!folds) return {bb::m::load(in[2 * j]), bb::m::load(in[2 * j + 1])};
  const uint4 a = in[4 * j], b = in[4 * j + 1], c = in[4 * j + 2], d = in[4 * j + 3];
  const Pair pair{bb::m::between(bb::m::load(a), bb::m::load(b), x), bb::m::between(bb::m::load(c), bb::m::load(d), x)};
  out[2 * j] = bb::m::store(pair.even), out[2 * j + 1] = bb::m::store(pair.odd);
  return pair;
}

// A round over values times weights: the sums with the first variable at 1 and at 2. The first round takes the tables as they are,
// later ones their folds.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    openvm_pair_round(const uint4* values, const uint4* weights, uint4* folded_values, uint4* folded_weights, u64 pairs,
                      u32 round, PairState* state, const Constants* with, Ext* partial, u32* ended) {
  __shared__ Ext total[2];
  Ext sums[2] = {Ext::zero(), Ext::zero()};
  const Ext x = round ? state->drawn[round - 1] : Ext::zero();
  for (u64 j = global_thread(); j < pairs; j += global_threads()) {
    const Pair v = pair_of(values, folded_values, j, round, x), w = pair_of(weights, folded_weights, j, round, x);
    sums[0] = bb::m::add(sums[0], bb::m::mul(v.odd, w.odd));
    const Ext v2 = bb::m::sub(bb::m::add(v.odd, v.odd), v.even), w2 = bb::m::sub(bb::m::add(w.odd, w.odd), w.even);
    sums[1] = bb::m::add(sums[1], bb::m::mul(v2, w2));
  }
  if (!bb::grid_sums(sums, total, partial, ended) || threadIdx.x >= bb::WarpSponge::LANES) return;
  bb::WarpSponge sponge(&state->sponge, with);
  sponge.observe(total[0]), sponge.observe(total[1]);
  const Ext drawn = sponge.sample_ext();
  sponge.keep();
  if (threadIdx.x) return;
  state->drawn[round] = drawn;
  state->sent[round][0] = total[0], state->sent[round][1] = total[1];
}

// The values at the challenge of the last round.
extern "C" __global__ void __launch_bounds__(THREADS)
    openvm_last_fold(const uint4* values, uint4* out, u64 count, u32 round, const PairState* state) {
  const u64 j = global_thread();
  if (j < count)
    out[j] = bb::m::store(bb::m::between(bb::m::load(values[2 * j]), bb::m::load(values[2 * j + 1]), state->drawn[round]));
}
