// Keccak-256 trees over rows of column-major matrices, their openings, and grinding. goldilocks.py defines the format,
// tree_rows.h the layout. Bound: permutations of Keccak-f.
#include "tree_rows.h"
#include "hash/keccak.h"

using namespace dp;

struct Digest {
  u64 lane[4];
};

__device__ __forceinline__ Digest load_digest(const u64* digests, u64 at) {
  const ulonglong2* p = reinterpret_cast<const ulonglong2*>(digests) + 2 * at;
  const ulonglong2 a = p[0], b = p[1];
  return {{a.x, a.y, b.x, b.y}};
}

// One thread per leaf: header, then each matrix's rows. Leaves of more than MATRICES matrices take several launches, and
// their sponges wait in `state`, (25, count). The last launch writes the digests.
extern "C" __global__ void __launch_bounds__(LEAF_THREADS, LEAF_BLOCKS)
    merkle_leaves(const u64* header, const u64* m0, const u64* m1, const u64* m2, const u64* m3, const u64* m4,
                  const u64* m5, const u64* m6, const u64* m7, u64* state, u64* digests,
                  const __grid_constant__ Leaves leaves) {
  const u64 place = global_thread();
  if (place >= leaves.count) return;
  const u64* const matrices[MATRICES] = {m0, m1, m2, m3, m4, m5, m6, m7};
  const u64 index = leaves.index(place), height = (u64)1 << (leaves.log_n + leaves.log_blowup);

  // The lanes to come: `left` of them from `at` on, `stride` apart; then row t of matrix m.
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

  u64 s[25];
#pragma unroll
  for (int i = 0; i < 25; ++i) s[i] = leaves.flags & RESUME ? state[(u64)i * leaves.count + place] : 0;
  int filled = leaves.filled;
  bool more = true;
  do {
    // Loads first, then the sponge: none waits for another.
    u64 block[keccak::RATE_LANES];
    if (filled == 0 && left >= keccak::RATE_LANES) {
#pragma unroll
      for (int i = 0; i < keccak::RATE_LANES; ++i) block[i] = at[i * stride];
      at += keccak::RATE_LANES * stride;
      left -= keccak::RATE_LANES;
      filled = keccak::RATE_LANES;
    } else {
#pragma unroll
      for (int i = 0; i < keccak::RATE_LANES; ++i) {
        block[i] = 0;
        if (i == filled) {
          while (left == 0 && m < leaves.matrices) next();
          if (left) {
            block[i] = *at;
            at += stride;
            --left;
            ++filled;
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < keccak::RATE_LANES; ++i) s[i] ^= block[i];
    more = filled == keccak::RATE_LANES;
    if (!more) {
      if (!(leaves.flags & FINISH)) break;
      keccak::pad(s, filled);
    }
    keccak::permute(s);
    filled = 0;
  } while (more);
  if (leaves.flags & FINISH) {
    store_digest(digests, place, s);
  } else {
#pragma unroll
    for (int i = 0; i < 25; ++i) state[(u64)i * leaves.count + place] = s[i];
  }
}

__device__ __forceinline__ void hash_pair(u64 (&s)[25], u64 tag, const Digest& a, const Digest& b) {
#pragma unroll
  for (int i = 0; i < 25; ++i) s[i] = 0;
  s[0] = tag;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    s[1 + i] = a.lane[i];
    s[5 + i] = b.lane[i];
  }
  keccak::pad(s, 9);
  keccak::permute(s);
}

// A node over its children; with `injected` not null hashed once more, with its digest there.
__device__ __forceinline__ void hash_node(u64 (&s)[25], Digest a, Digest b, const u64* injected, u64 place) {
  u64 tag = keccak::NODE_TAG;
#pragma unroll 1
  for (;;) {
    hash_pair(s, tag, a, b);
    if (!injected || tag == keccak::INJECT_TAG) break;
    a = {{s[0], s[1], s[2], s[3]}};
    b = load_digest(injected, place);
    tag = keccak::INJECT_TAG;
  }
}

// Hashes the parents of `below`, whose children are 2^log_apart apart.
extern "C" __global__ void __launch_bounds__(NODE_THREADS, NODE_BLOCKS)
    merkle_nodes(const u64* below, const u64* injected, u64* out, u64 count, u32 log_apart) {
  const u64 place = global_thread();
  if (place >= count) return;
  const u64 low = place & (((u64)1 << log_apart) - 1), first = ((place - low) << 1) + low;
  u64 s[25];
  hash_node(s, load_digest(below, first), load_digest(below, first + ((u64)1 << log_apart)), injected, place);
  store_digest(out, place, s);
}

// The levels above one of 2^log_m nodes, up to one of 2^log_end where `injected` enters, as far as they lead to
// 2^log_ends nodes of it from `first` on: a thread a node. `nodes`: the level to begin with; the others follow it.
// `first` and all nodes here are counted in natural order.
__device__ __forceinline__ void climb(u64* nodes, const u64* injected, u32 log_m, u32 log_end, u32 first, u32 log_ends,
                                      u32 log_blowup) {
  const u32 end = first + (threadIdx.x & ((1u << log_ends) - 1)), above = threadIdx.x >> log_ends;
#pragma unroll 1
  while (log_m > log_end) {
    u64* out = nodes + ((u64)4 << log_m);
    const u32 below_cosets = min(log_blowup, log_m), below_rows = log_m - below_cosets;
    --log_m;
    if (above < 1u << (log_m - log_end)) {
      const u32 cosets = min(log_blowup, log_m), i = end + (above << log_end);
      const u64 place = row_place(i, log_m - cosets, cosets);
      u64 s[25];
      hash_node(s, load_digest(nodes, row_place(i, below_rows, below_cosets)),
                load_digest(nodes, row_place(i + (1u << log_m), below_rows, below_cosets)),
                log_m == log_end ? injected : nullptr, place);
      store_digest(out, place, s);
    }
    __syncthreads();
    nodes = out;
  }
}

// Levels above one of 2^log_m <= (2 NODE_THREADS)^2 nodes, up to one of 2^log_end, where `injected` enters unless it is
// null. Each block climbs to 2^log_ends nodes of the level of 2^log_middle, at most 2 NODE_THREADS nodes below it; where
// this is not the end, which then is the root, the block that ends last goes on. `ended`: zero, and zero again afterwards.
extern "C" __global__ void __launch_bounds__(NODE_THREADS, NODE_BLOCKS)
    merkle_climb(u64* nodes, const u64* injected, u32 log_m, u32 log_middle, u32 log_end, u32 log_ends, u32 log_blowup,
                 u32* ended) {
  __shared__ u32 before;
  const bool whole = log_middle == log_end;
  climb(nodes, whole ? injected : nullptr, log_m, log_middle, blockIdx.x << log_ends, log_ends, log_blowup);
  if (whole) return;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) before = atomicAdd(ended, 1u);
  __syncthreads();
  if (before + 1 < gridDim.x) return;
  __threadfence();
  if (threadIdx.x == 0) *ended = 0;
  climb(nodes + ((u64)8 << log_m) - ((u64)8 << log_middle), injected, log_middle, log_end, 0, 0, log_blowup);
}

// What one launch of merkle_open reads of one source: a matrix' rows of leaves, or a tree's nodes. 48 bytes.
struct Part {
  const u64* source;  // a matrix, or all of a tree's digests, the leaves' first
  u64 begin;          // of its words in `out`; the parts lie one after the other
  u64 list;           // where in `numbers` those of the leaves or nodes to read begin
  u32 width;          // of a row
  u32 log_n, log_blowup;
  u32 log_count;      // leaves: of the matrix, or of the tree
  u32 log_arity;      // a leaf holds rows i + t count, t < 2^log_arity
  u32 nodes;          // 1 for nodes, 0 for leaves
};

// Word i of a matrix' rows: (leaves, 2^log_arity, width). Leaf k of m leaves has the number m + k.
__device__ __forceinline__ u64 opened_row(const Part& part, const u64* numbers, u64 i) {
  const u64 c = i % part.width, which = i / part.width;
  const u64 t = which & (((u64)1 << part.log_arity) - 1);
  const u64 leaf = numbers[which >> part.log_arity] - ((u64)1 << part.log_count), row = leaf + (t << part.log_count);
  return part.source[(c << (part.log_n + part.log_blowup)) + row_place(row, part.log_n, part.log_blowup)];
}

// Word i of nodes (nodes, 4). Node k of the level of m nodes has the number m + k.
__device__ __forceinline__ u64 opened_node(const Part& part, const u64* numbers, u64 i) {
  const u64 number = numbers[i / 4];
  const u32 log_m = 63 - __clzll(number), log_cosets = min(part.log_blowup, log_m);
  const u64 m = (u64)1 << log_m, above = ((u64)2 << part.log_count) - 2 * m;  // digests of the levels below this one
  return part.source[4 * (above + row_place(number - m, log_m - log_cosets, log_cosets)) + i % 4];
}

// All openings of several trees. One thread a word.
extern "C" __global__ void merkle_open(const u64* numbers, const Part* parts, u32 count, u64* out, u64 words) {
  const u64 item = global_thread();
  if (item >= words) return;
  u32 p = 0;
  while (p + 1 < count && parts[p + 1].begin <= item) ++p;
  const Part part = parts[p];
  const u64 i = item - part.begin;
  const u64* list = numbers + part.list;
  out[item] = part.nodes ? opened_node(part, list, i) : opened_row(part, list, i);
}

// best = the least nonce in [first, first + count) whose digest's first lane has no bit of `mask`, if below what it was
extern "C" __global__ void __launch_bounds__(NODE_THREADS, NODE_BLOCKS)
    grind(const __grid_constant__ Seed seed, u64 first, u64 count, u64 mask, u64* best) {
  const u64 i = global_thread();
  const u64 nonce = first + i;
  if (i >= count || *(volatile u64*)best < nonce) return;
  u64 s[25];
#pragma unroll
  for (int k = 0; k < 25; ++k) s[k] = 0;
  s[0] = keccak::GRIND_TAG;
#pragma unroll
  for (int k = 0; k < 4; ++k) s[1 + k] = seed.lane[k];
  s[5] = nonce;
  keccak::pad(s, 6);
  keccak::permute(s);
  if ((s[0] & mask) == 0) atomicMin(best, nonce);
}
