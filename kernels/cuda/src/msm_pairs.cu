// Batch-affine rounds of an MSM: the points of sorted entries are added two and two, and a list half as long is left.
//
// Entries 2j and 2j + 1 are a pair. If their keys are equal, their points are added and one entry remains, else both do;
// the order is kept. So the work does not depend on how full single buckets are, and a bucket with many entries loses
// half of them. The sums are affine, and what remains is the same kind of list as before: keys, and the points in order.
//
// An affine addition takes the inverse of x2 - x1. A thread multiplies up those of its pairs, the threads of a block share
// one inversion, and a second pass over the pairs takes it apart again (Montgomery's trick): 5 products and a square for
// each pair, where msm_accumulate.cu takes 8 and 2 for each entry.
//
// Bound: in the first round, whose points come by random gathers, once their x and once all of them, the gathers for
// groups with short coordinates, else the multiplier; in later rounds the multiplier.
//
// Launch: each kernel says so. Compiled with CURVE, GROUP, PAIRS_BLOCK (threads of msm_add_pairs), PAIRS_BLOCKS (which must
// fit a multiprocessor) and PRODUCT_CALLS: 1 makes field products function calls, as for msm_accumulate.
#if PRODUCT_CALLS
#define DP_OUTLINE_PRODUCTS
#endif
#include "group.h"

using namespace dp;

namespace {

constexpr u32 SIGN = 0x80000000u;
constexpr u32 PLACE_BLOCK = 512;
constexpr u32 PLACE_WARPS = PLACE_BLOCK / 32;
constexpr u32 PLACE_AHEAD = 4;  // pairs that a thread loads before it waits for the first

// The entries of one round: some `limit` of the list from `first` on, as far as there are.
struct Entries {
  const uint2* entries;
  u32 count, pairs;
  DP_HD Entries(const uint2* all, const u32* entry_count, u32 first, u32 limit) {
    const u32 there = *entry_count;
    entries = all + first;
    count = there > first ? min(there - first, limit) : 0;
    pairs = count / 2 + (count & 1);
  }
  // Both entries of pair j; `first` is even, so they are 16 bytes at a multiple of 16.
  DP_HD uint4 pair(u32 j) const {
    if (has_second(j)) return reinterpret_cast<const uint4*>(entries)[j];
    return make_uint4(entries[2 * j].x, entries[2 * j].y, 0, 0);
  }
  DP_HD bool has_second(u32 j) const { return 2 * j + 1 < count; }
};

// Warp w's pairs in a grid of warps: a multiple of 32, so that their loads are whole lines.
struct WarpShare {
  u32 begin, end;
  DP_HD WarpShare(u32 pairs, u32 warp, u32 warps) {
    const u64 per = (u64)((pairs + 31) / 32 + warps - 1) / warps * 32;
    begin = (u32)min(per * warp, (u64)pairs);
    end = (u32)min(per * (warp + 1), (u64)pairs);
  }
};

DP_HD Point signed_point(const Point* points, u32 value) {
  Point p = points[value & ~SIGN];
  if (value & SIGN) p.y = p.y.neg();
  return p;
}

enum Result : u32 { SUM, FIRST, SECOND, INFINITY_POINT };

// What an addition with an infinite summand or equal x coordinates is. For SUM, the slope is n / d, else d is one.
DP_COLD Result unusual(const Point& p, const Point& q, F& n, F& d) {
  n = q.y - p.y;
  d = q.x - p.x;
  Result result = SUM;
  if (p.is_infinity()) {
    result = SECOND;
  } else if (q.is_infinity()) {
    result = FIRST;
  } else if (d.is_zero()) {
    if (n.is_zero() && !p.y.is_zero()) {
      const F xx = p.x.sqr();
      n = xx.dbl() + xx;
      d = p.y.dbl();
    } else {
      result = INFINITY_POINT;
    }
  }
  if (result != SUM) d = F::one();
  return result;
}

DP_HD bool may_be_unusual(const F& first_x, const F& second_x, const F& difference) {
  return difference.is_zero() || first_x.is_zero() || second_x.is_zero();
}

DP_COLD F unusual_denominator(const Point* points, uint4 pair) {
  F n, d;
  unusual(signed_point(points, pair.y), signed_point(points, pair.w), n, d);
  return d;
}

// The inverse of each thread's `product`: a lane of the first warp multiplies those of a thread of each warp, inverts.
DP_HD F block_inverse(const F& product) {
  constexpr u32 WARPS = PAIRS_BLOCK / 32;
  __shared__ F inverses[PAIRS_BLOCK];
  __shared__ F before[PAIRS_BLOCK];
  inverses[threadIdx.x] = product;
  __syncthreads();
  if (threadIdx.x < 32) {
    F all = inverses[threadIdx.x];
#pragma unroll 1
    for (u32 i = threadIdx.x + 32; i < PAIRS_BLOCK; i += 32) {
      before[i] = all;
      all = all * inverses[i];
    }
    all = all.inverse();
#pragma unroll 1
    for (u32 i = threadIdx.x + 32 * (WARPS - 1); i >= 32; i -= 32) {
      const F own = inverses[i];
      inverses[i] = all * before[i];
      all = all * own;
    }
    inverses[threadIdx.x] = all;
  }
  __syncthreads();
  const F inverse = inverses[threadIdx.x];
  __syncthreads();
  return inverse;
}

}  // namespace

// doubled[w] = how many pairs of warp w leave two entries. Any grid of PLACE_BLOCK threads a block; so msm_place_pairs.
extern "C" __global__ void __launch_bounds__(PLACE_BLOCK)
    msm_count_pairs(const uint2* all_entries, const u32* entry_count, u32 first, u32 limit, u32* doubled) {
  const Entries list(all_entries, entry_count, first, limit);
  const u32 lane = threadIdx.x & 31, warp = blockIdx.x * PLACE_WARPS + (threadIdx.x >> 5);
  const WarpShare share(list.pairs, warp, gridDim.x * PLACE_WARPS);
  u32 sum = 0;
#pragma unroll 4
  for (u32 j = share.begin + lane; j < share.end; j += 32) {
    const uint4 pair = list.pair(j);
    sum += list.has_second(j) && pair.x != pair.z;
  }
  sum = __reduce_add_sync(0xffffffffu, sum);
  if (lane == 0) doubled[warp] = sum;
}

// places[j] = where the first entry that pair j leaves goes; left_entries and left_count are the list that remains, in which
// entry i has the point i.
extern "C" __global__ void __launch_bounds__(PLACE_BLOCK)
    msm_place_pairs(const uint2* all_entries, const u32* entry_count, u32 first, u32 limit, const u32* doubled,
                    u32* places, uint2* left_entries, u32* left_count) {
  __shared__ u32 sums[PLACE_WARPS];
  const Entries list(all_entries, entry_count, first, limit);
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, first_warp = blockIdx.x * PLACE_WARPS;
  const WarpShare share(list.pairs, first_warp + warp, gridDim.x * PLACE_WARPS);

  // of the blocks before this one, then of the warps before this one
  u32 sum = 0;
  for (u32 w = threadIdx.x; w < first_warp; w += PLACE_BLOCK) sum += doubled[w];
  sum = __reduce_add_sync(0xffffffffu, sum);
  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  u32 before = 0;
  for (u32 w = 0; w < PLACE_WARPS; ++w) before += sums[w];
  for (u32 w = 0; w < warp; ++w) before += doubled[first_warp + w];
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == PLACE_BLOCK - 1)
    *left_count = list.pairs + before + doubled[first_warp + warp];

  for (u32 base = share.begin; base < share.end; base += 32 * PLACE_AHEAD) {
    uint4 pairs[PLACE_AHEAD];
#pragma unroll
    for (u32 k = 0; k < PLACE_AHEAD; ++k) {
      const u32 j = base + 32 * k + lane;
      if (j < share.end) pairs[k] = list.pair(j);
    }
#pragma unroll
    for (u32 k = 0; k < PLACE_AHEAD; ++k) {
      const u32 j = base + 32 * k + lane;
      const bool two = j < share.end && list.has_second(j) && pairs[k].x != pairs[k].z;
      const u32 ballot = __ballot_sync(0xffffffffu, two);
      const u32 place = j + before + __popc(ballot & ((1u << lane) - 1));
      before += __popc(ballot);
      if (j < share.end) {
        places[j] = place;
        left_entries[place] = make_uint2(pairs[k].x, place);
        if (two) left_entries[place + 1] = make_uint2(pairs[k].z, place + 1);
      }
    }
  }
}

// left[places[j]] = the sum of pair j, or its point and the next one. One wave of blocks; `most` bounds the pairs that a
// thread takes with one inversion, `fewest` too, where there are fewer pairs than that for each thread. `products` holds
// `most` elements for each thread.
extern "C" __global__ void __launch_bounds__(PAIRS_BLOCK, PAIRS_BLOCKS)
    msm_add_pairs(const Point* points, const uint2* all_entries, const u32* entry_count, u32 first, u32 limit,
                  const u32* places, u32 fewest, u32 most, F* products, Point* left) {
  const Entries list(all_entries, entry_count, first, limit);
  // as many turns for each block, and as many pairs in each turn
  const u32 threads = gridDim.x * PAIRS_BLOCK;
  const u32 each = (u32)(((u64)list.pairs + threads - 1) / threads);
  const u32 turns = (each + most - 1) / most;
  const u32 per_thread = turns ? max((each + turns - 1) / turns, fewest) : fewest;
  const u64 tile = (u64)per_thread * PAIRS_BLOCK;
  F* const own = products + (size_t)blockIdx.x * most * PAIRS_BLOCK + threadIdx.x;

  for (u64 tile_begin = tile * blockIdx.x; tile_begin < list.pairs; tile_begin += tile * gridDim.x) {
    const u32 begin = (u32)tile_begin + threadIdx.x, end = (u32)min(tile_begin + tile, (u64)list.pairs);
    F product = F::one();
    F* at = own;
    // The loads run ahead: entries by two pairs, x coordinates by one.
    uint4 pair = make_uint4(0, 0, 0, 0), next = pair;
    F x0 = product, x1 = product;
    if (begin < end) pair = list.pair(begin);
    if (begin + PAIRS_BLOCK < end) next = list.pair(begin + PAIRS_BLOCK);
    if (begin < end && list.has_second(begin)) {
      x0 = points[pair.y & ~SIGN].x;
      x1 = points[pair.w & ~SIGN].x;
    }
#pragma unroll 1
    for (u32 j = begin; j < end; j += PAIRS_BLOCK, at += PAIRS_BLOCK) {
      const uint4 now = pair;
      const F now0 = x0, now1 = x1;
      const u32 after = j + PAIRS_BLOCK;
      pair = next;
      if (after < end && list.has_second(after)) {
        x0 = points[pair.y & ~SIGN].x;
        x1 = points[pair.w & ~SIGN].x;
      }
      if (after + PAIRS_BLOCK < end) next = list.pair(after + PAIRS_BLOCK);
      if (list.has_second(j) && now.x == now.z) {
        *at = product;
        F d = now1 - now0;
        if (may_be_unusual(now0, now1, d)) d = unusual_denominator(points, now);
        product = product * d;
      } else {
        const u32 place = places[j];
        left[place] = signed_point(points, now.y);
        if (list.has_second(j)) left[place + 1] = signed_point(points, now.w);
      }
    }

    F inverse = block_inverse(product);  // of the denominators up to the pair at hand
    if (begin >= end) continue;
    u32 j = begin + (end - 1 - begin) / PAIRS_BLOCK * PAIRS_BLOCK;
#pragma unroll 1
    while (true) {
      at -= PAIRS_BLOCK;
      const uint4 now = list.pair(j);
      if (list.has_second(j) && now.x == now.z) {
        const Point p = signed_point(points, now.y), q = signed_point(points, now.w);
        const F before = *at;
        const u32 place = places[j];
        F n = q.y - p.y, d = q.x - p.x;
        Result result = SUM;
        if (may_be_unusual(p.x, q.x, d)) {
          const Point a = p, b = q;  // copies, so that the function's references keep nothing else in memory
          F numerator, denominator;
          result = unusual(a, b, numerator, denominator);
          n = numerator;
          d = denominator;
        }
        const F slope = n * (inverse * before);
        inverse = inverse * d;
        Point sum;
        sum.x = slope.sqr() - p.x - q.x;
        sum.y = slope * (p.x - sum.x) - p.y;
        if (result != SUM) sum = result == FIRST ? p : result == SECOND ? q : Point::infinity();
        left[place] = sum;
      }
      if (j == begin) break;
      j -= PAIRS_BLOCK;
    }
  }
}
