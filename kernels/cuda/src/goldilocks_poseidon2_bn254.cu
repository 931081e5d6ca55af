// Trees over rows of column-major matrices under Poseidon2 over BN254's scalar field, and grinding. goldilocks.py defines the
// format, tree_rows.h the layout. goldilocks_merkle.cu opens these trees too.
//
// One thread a permutation, its state in registers. Bound: the multiplier; a permutation has 240 products of 254 bits.
#include "tree_rows.h"
#include "hash/poseidon2_bn254.h"

using namespace dp;
using poseidon2_bn254::Fr;

__device__ __forceinline__ Fr digest_at(const u64* digests, u64 place) {
  const ulonglong2* p = reinterpret_cast<const ulonglong2*>(digests) + 2 * place;
  const ulonglong2 low = p[0], high = p[1];
  return poseidon2_bn254::element(low.x, low.y, high.x, high.y);
}

// One thread per leaf: header, then each matrix's rows. Leaves of more than MATRICES matrices take several launches, and
// their sponges wait in `state`, (18, count): three elements of four words, then the words of the block that is not full. The
// last launch writes the digests.
extern "C" __global__ void __launch_bounds__(BN254_THREADS)
    bn254_leaves(const u64* header, const u64* m0, const u64* m1, const u64* m2, const u64* m3, const u64* m4, const u64* m5,
                 const u64* m6, const u64* m7, u64* state, u64* digests, const __grid_constant__ Leaves leaves) {
  using namespace poseidon2_bn254;
  constexpr u32 BLOCK = RATE * PACKED;
  const u64 place = global_thread();
  if (place >= leaves.count) return;
  const u64* const matrices[MATRICES] = {m0, m1, m2, m3, m4, m5, m6, m7};
  const u64 index = leaves.index(place), height = (u64)1 << (leaves.log_n + leaves.log_blowup);

  // The words to come: `left` of them from `at` on, `stride` apart; then row t of matrix m.
  const u64* at = header;
  u64 stride = 1;
  u32 left = leaves.header_words, m = 0, t = 0;

  const bool resumed = leaves.flags & RESUME;
  u64 block[BLOCK];
  Fr s[WIDTH] = {Fr::zero(), Fr::zero(), capacity(SPONGE_TAG, leaves.words)};
  const auto waiting = [&](u32 i) -> u64& { return state[(u64)i * leaves.count + place]; };
#pragma unroll
  for (u32 i = 0; i < BLOCK; ++i) block[i] = resumed && i < leaves.filled ? waiting(WIDTH * WORDS + i) : 0;
  if (resumed)
    for (u32 i = 0; i < WIDTH; ++i)
      s[i] = Fr::from_words(Words<WORDS>{{waiting(4 * i), waiting(4 * i + 1), waiting(4 * i + 2), waiting(4 * i + 3)}});

  u32 filled = leaves.filled;
#pragma unroll 1
  for (;;) {
#pragma unroll
    for (u32 i = 0; i < BLOCK; ++i) {
      if (i == filled) {
        while (left == 0 && m < leaves.matrices) {
          at = matrices[m] + row_place(index + ((u64)t << leaves.log_count), leaves.log_n, leaves.log_blowup);
          stride = height;
          left = leaves.widths[m];
          if (++t >> leaves.log_arity) t = 0, ++m;
        }
        if (left) {
          block[i] = *at;
          at += stride;
          --left;
          ++filled;
        }
      }
    }
    if (filled < BLOCK && (filled == 0 || !(leaves.flags & FINISH))) break;  // nothing is left
#pragma unroll
    for (u32 i = 0; i < BLOCK; ++i)
      if (i >= filled) block[i] = 0;
    s[0] = element(block[0], block[1], block[2], 0);
    s[1] = element(block[3], block[4], block[5], 0);
    permute(s);
    if (filled < BLOCK) break;
    filled = 0;
  }
  if (leaves.flags & FINISH) {
    store_digest(digests, place, number(s[0]).w);
    return;
  }
  for (u32 i = 0; i < WIDTH; ++i) {
    // As they are, in Montgomery form.
    Words<WORDS> words{};
    for (int k = 0; k < Fr::N; ++k) words.w[k * LIMB_BITS / 64] |= (u64)s[i].v[k] << (k * LIMB_BITS % 64);
    for (int k = 0; k < WORDS; ++k) waiting(4 * i + k) = words.w[k];
  }
#pragma unroll
  for (u32 i = 0; i < BLOCK; ++i)
    if (i < filled) waiting(WIDTH * WORDS + i) = block[i];
}

// Hashes the level above `below`, and then, unless `injected` is null, each node with the leaf that enters there.
extern "C" __global__ void __launch_bounds__(BN254_THREADS)
    bn254_nodes(const u64* below, const u64* injected, u64* out, u64 count, u32 log_apart, u64 node_tag, u64 inject_tag) {
  const u64 place = global_thread();
  if (place >= count) return;
  const u64 low = place & (((u64)1 << log_apart) - 1), first = 2 * (place - low) + low;
  Fr a = digest_at(below, first), b = digest_at(below, first + ((u64)1 << log_apart));
  Words<poseidon2_bn254::WORDS> digest = poseidon2_bn254::node(node_tag, a, b);
  if (injected != nullptr)
    digest = poseidon2_bn254::node(inject_tag, poseidon2_bn254::element(digest.w), digest_at(injected, place));
  store_digest(out, place, digest.w);
}

// best = the least nonce in [first, first + count) that does the work, if below what it was
extern "C" __global__ void __launch_bounds__(BN254_THREADS)
    bn254_grind(const __grid_constant__ Seed seed, u64 tag, u64 first, u64 count, u64 mask, u64* best) {
  const u64 i = global_thread();
  const u64 nonce = first + i;
  if (i >= count || *(volatile u64*)best < nonce) return;
  if (poseidon2_bn254::works(tag, seed.lane, nonce, mask)) atomicMin(best, nonce);
}
