// Poseidon2 trees over rows of column-major matrices, and grinding. goldilocks.py defines the format, tree_rows.h the layout.
// goldilocks_merkle.cu opens these trees too.
//
// One thread a permutation, its state in registers. Bound: the multiplier; a permutation has 600 products.
#include "tree_rows.h"
#include "hash/poseidon2.h"

using namespace dp;

using State = u64[poseidon2::WIDTH];

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

// Hashes the level above `below`, node i from nodes first + t 2^log_apart, t < 2^log_arity, and then, unless `injected` is
// null, each node with the leaf that enters there.
extern "C" __global__ void __launch_bounds__(HASH_THREADS, HASH_BLOCKS)
    poseidon2_nodes(const u64* below, const u64* injected, u64* out, u64 count, u32 log_apart, u32 log_arity, u64 node_tag,
                    u64 inject_tag) {
  const u64 place = global_thread();
  if (place >= count) return;
  const u64 low = place & (((u64)1 << log_apart) - 1), first = ((place - low) << log_arity) + low;
  State s;
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    const bool child = t < 1 << log_arity;
    const ulonglong2* p = reinterpret_cast<const ulonglong2*>(below) + 2 * (first + ((u64)t << log_apart));
    const ulonglong2 a = child ? p[0] : make_ulonglong2(t == 2 ? node_tag : 0, 0), b = child ? p[1] : make_ulonglong2(0, 0);
    s[4 * t] = a.x, s[4 * t + 1] = a.y, s[4 * t + 2] = b.x, s[4 * t + 3] = b.y;
  }
#pragma unroll 1
  for (bool last = injected == nullptr;; last = true) {
    u64 added[poseidon2::DIGEST];
#pragma unroll
    for (int i = 0; i < poseidon2::DIGEST; ++i) added[i] = s[i];
    poseidon2::permute<poseidon2::Scalar>(s);
#pragma unroll
    for (int i = 0; i < poseidon2::DIGEST; ++i) s[i] = gl::add(s[i], added[i]);
    if (last) break;
#pragma unroll
    for (int i = 0; i < poseidon2::DIGEST; ++i) s[4 + i] = injected[4 * place + i];
#pragma unroll
    for (int i = 8; i < poseidon2::WIDTH; ++i) s[i] = i == 8 ? inject_tag : 0;
  }
  store_digest(out, place, s);
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
