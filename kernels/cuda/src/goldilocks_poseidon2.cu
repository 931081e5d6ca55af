// Poseidon2 trees over rows of column-major matrices, and grinding. goldilocks.py defines the format, tree_rows.h the layout.
// goldilocks_merkle.cu opens these trees too.
//
// One thread a permutation, its state in registers. Bound: the multiplier; a permutation has 600 products.
#include "tree_rows.h"
#include "hash/poseidon2.h"

using namespace dp;

using State = u64[poseidon2::WIDTH];
constexpr u32 LEVELS = 20;  // most of one climb; must equal CLIMBED in cuda/goldilocks/merkle.py

// One thread per leaf: header, then each matrix's rows. Leaves of more than MATRICES matrices take several launches, and
// their sponges wait in `state`, (16, count). The last launch writes the digests.
extern "C" __global__ void __launch_bounds__(HASH_THREADS, HASH_BLOCKS)
    poseidon2_leaves(const u64* header, const u64* m0, const u64* m1, const u64* m2, const u64* m3, const u64* m4,
                     const u64* m5, const u64* m6, const u64* m7, u64* state, u64* digests,
                     const __grid_constant__ Leaves leaves) {
  const u64 place = global_thread();
  if (place >= leaves.count) return;
  const u64* const matrices[MATRICES] = {m0, m1, m2, m3, m4, m5, m6, m7};
  const u64 index = leaves.index(place), height = (u64)1 << (leaves.log_n + leaves.log_blowup);

  // The words to come: `left` of them from `at` on, `stride` apart; then row t of matrix m.
  const u64* at = header;
  u64 stride = 1;
  u32 left = leaves.header_words, m = 0, t = 0;
  auto next = [&]() {
    const u64 row = index + ((u64)t << leaves.log_count);
    at = matrices[m] + row_place(row, leaves.log_n, leaves.log_blowup);
    stride = height;
    left = leaves.widths[m];
    if (++t >> leaves.log_arity) {
      t = 0;
      ++m;
    }
  };

  State s;
#pragma unroll
  for (int i = 0; i < poseidon2::WIDTH; ++i) s[i] = leaves.flags & RESUME ? state[(u64)i * leaves.count + place] : 0;
  if (!(leaves.flags & RESUME)) {
    s[poseidon2::RATE] = poseidon2::SPONGE_TAG;
    s[poseidon2::RATE + 1] = leaves.words;
  }
  int filled = leaves.filled;
  for (;;) {
    // Words replace the rate's elements.
    if (filled == 0 && left >= poseidon2::RATE) {
#pragma unroll
      for (int i = 0; i < poseidon2::RATE; ++i) s[i] = at[i * stride];
      at += poseidon2::RATE * stride;
      left -= poseidon2::RATE;
      filled = poseidon2::RATE;
    } else {
#pragma unroll
      for (int i = 0; i < poseidon2::RATE; ++i) {
        if (i == filled) {
          while (left == 0 && m < leaves.matrices) next();
          if (left) {
            s[i] = *at;
            at += stride;
            --left;
            ++filled;
          }
        }
      }
    }
    while (left == 0 && m < leaves.matrices) next();
    if (filled < poseidon2::RATE) {  // nothing is left
      if (!(leaves.flags & FINISH)) break;
#pragma unroll
      for (int i = 0; i < poseidon2::RATE; ++i)
        if (i >= filled) s[i] = 0;
    }
    poseidon2::permute<poseidon2::Scalar>(s);
    filled = 0;
    if (left == 0) break;
  }
  if (leaves.flags & FINISH) {
    store_digest(digests, place, s);
  } else {
#pragma unroll
    for (int i = 0; i < poseidon2::WIDTH; ++i) state[(u64)i * leaves.count + place] = s[i];
  }
}

// The node over 2^log_arity children, 2^log_apart apart from the one at `first` on.
__device__ __forceinline__ void hash_children(State& s, const u64* below, u64 first, u32 log_apart, u32 log_arity, u64 node_tag) {
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    const bool child = t < 1 << log_arity;
    const ulonglong2* p = reinterpret_cast<const ulonglong2*>(below) + 2 * (first + ((u64)t << log_apart));
    const ulonglong2 a = child ? p[0] : make_ulonglong2(t == 2 ? node_tag : 0, 0), b = child ? p[1] : make_ulonglong2(0, 0);
    s[4 * t] = a.x, s[4 * t + 1] = a.y, s[4 * t + 2] = b.x, s[4 * t + 3] = b.y;
  }
}

__device__ __forceinline__ void compress(State& s) {
  u64 added[poseidon2::DIGEST];
#pragma unroll
  for (int i = 0; i < poseidon2::DIGEST; ++i) added[i] = s[i];
  poseidon2::permute<poseidon2::Scalar>(s);
#pragma unroll
  for (int i = 0; i < poseidon2::DIGEST; ++i) s[i] = gl::add(s[i], added[i]);
}

// Where the first child of the node at `place` is, whose siblings are 2^log_apart apart.
__device__ __forceinline__ u64 first_child(u64 place, u32 log_apart, u32 log_arity) {
  const u64 low = place & (((u64)1 << log_apart) - 1);
  return ((place - low) << log_arity) + low;
}

// Hashes the level above `below`, and then, unless `injected` is null, each node with the leaf that enters there.
extern "C" __global__ void __launch_bounds__(HASH_THREADS, HASH_BLOCKS)
    poseidon2_nodes(const u64* below, const u64* injected, u64* out, u64 count, u32 log_apart, u32 log_arity, u64 node_tag,
                    u64 inject_tag) {
  const u64 place = global_thread();
  if (place >= count) return;
  State s;
  hash_children(s, below, first_child(place, log_apart, log_arity), log_apart, log_arity, node_tag);
#pragma unroll 1
  for (bool last = injected == nullptr;; last = true) {
    compress(s);
    if (last) break;
#pragma unroll
    for (int i = 0; i < poseidon2::DIGEST; ++i) s[4 + i] = injected[4 * place + i];
#pragma unroll
    for (int i = 8; i < poseidon2::WIDTH; ++i) s[i] = i == 8 ? inject_tag : 0;
  }
  store_digest(out, place, s);
}

// log2 of the nodes of some levels of a tree, one above the other. Digests of every binary level have room between them.
struct Levels {
  u32 count, log[LEVELS];
};

// The levels from number `from` to number `to`, as far as they lead to 2^log_ends nodes of the last one from `first` on, counted
// in natural order, by the threads of a block. `nodes`: those of level 0.
__device__ __forceinline__ void climb(u64* nodes, const Levels& levels, u32 from, u32 to, u32 first, u32 log_ends, u32 log_blowup,
                                      u64 node_tag) {
  const u32 log_end = levels.log[to];
#pragma unroll 1
  for (u32 l = from; l < to; ++l) {
    const u32 below = levels.log[l], log = levels.log[l + 1], cosets = min(log_blowup, log);
    const u32 log_apart = log < log_blowup ? log : log - log_blowup;
    u64 *const in = nodes + ((u64)8 << levels.log[0]) - ((u64)8 << below), *const out = in + ((u64)8 << below) - ((u64)8 << log);
#pragma unroll 1
    for (u32 i = threadIdx.x; i < 1u << (log - log_end + log_ends); i += HASH_THREADS) {
      const u32 node = first + (i & ((1u << log_ends) - 1)) + ((i >> log_ends) << log_end);
      const u64 place = row_place(node, log - cosets, cosets);
      State s;
      hash_children(s, in, first_child(place, log_apart, below - log), log_apart, below - log, node_tag);
      compress(s);
      store_digest(out, place, s);
    }
    __syncthreads();
  }
}

// All levels above the first of `levels`. Each block climbs to 2^log_ends nodes of level `middle`; unless that is the root, the
// block that ends last goes on. `ended`: zero, and zero again afterwards.
extern "C" __global__ void __launch_bounds__(HASH_THREADS, HASH_BLOCKS)
    poseidon2_climb(u64* nodes, const __grid_constant__ Levels levels, u32 middle, u32 log_ends, u32 log_blowup, u64 node_tag,
                    u32* ended) {
  __shared__ u32 before;
  climb(nodes, levels, 0, middle, blockIdx.x << log_ends, log_ends, log_blowup, node_tag);
  if (middle + 1 == levels.count) return;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) before = atomicAdd(ended, 1u);
  __syncthreads();
  if (before + 1 < gridDim.x) return;
  __threadfence();
  if (threadIdx.x == 0) *ended = 0;
  climb(nodes, levels, middle, levels.count - 1, 0, 0, log_blowup, node_tag);
}

// best = the least nonce in [first, first + count) whose element 0 has no bit of `mask`, if below what it was
extern "C" __global__ void __launch_bounds__(HASH_THREADS, HASH_BLOCKS)
    poseidon2_grind(const __grid_constant__ Seed seed, u64 tag, u64 first, u64 count, u64 mask, u64* best) {
  const u64 i = global_thread();
  const u64 nonce = first + i;
  if (i >= count || *(volatile u64*)best < nonce) return;
  State s;
#pragma unroll
  for (int k = 0; k < poseidon2::WIDTH; ++k) s[k] = k < 4 ? seed.lane[k % 4] : k == 4 ? nonce : k == poseidon2::RATE ? tag : 0;
  poseidon2::permute<poseidon2::Scalar>(s);
  if ((s[0] & mask) == 0) atomicMin(best, nonce);
}
