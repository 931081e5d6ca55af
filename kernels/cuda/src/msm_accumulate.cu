// Bucket sums of an MSM from its entries, which msm_sort.cu left sorted by bucket.
//
// The work does not depend on how full single buckets are: the entries are cut into equal segments, one per thread. A
// thread adds up each run of equal keys. A run that lies inside the segment is a whole bucket; a run that is cut by the
// segment's ends leaves a record for msm_merge. So one bucket with nearly all entries (the ones of a real witness) costs
// what uniform entries cost.
//
// Bound: the multiplier, 10 field products per entry (XYZZ += affine), of which two share a reduction in G1. Points come
// by random gathers of 64 to 192 bytes, whose latency the arithmetic of other warps hides.
//
// Launch: one wave of blocks, so that equal segments end together; ACCUMULATE_BLOCK threads per block, of which
// ACCUMULATE_BLOCKS must fit a multiprocessor. Compiled with CURVE, GROUP and PRODUCT_CALLS: 1 makes field products
// function calls, for groups whose loop would otherwise be larger than the instruction cache.
#if PRODUCT_CALLS
#define DP_OUTLINE_PRODUCTS
#endif
#include "group.h"

using namespace dp;

namespace {

constexpr u32 NO_KEY = 0xffffffffu;
constexpr u32 SIGN = 0x80000000u;

}  // namespace

// Adds to buckets[key] every run that lies in one segment; records (key, sum) at 2t and 2t + 1 for thread t's cut runs, of
// which the one that holds the beginning of the run holds what was in the bucket too. Zeros are infinity.
extern "C" __global__ void __launch_bounds__(ACCUMULATE_BLOCK, ACCUMULATE_BLOCKS)
    msm_accumulate(const Point* points, const uint2* entries, const u32* entry_count, u32 min_segment, Sum* buckets,
                   u32* record_keys, Sum* records) {
  const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  const u32 count = *entry_count;
  const u32 even = (count + threads - 1) / threads;
  const u32 segment = even > min_segment ? even : min_segment;
  const u64 begin = (u64)segment * thread;
  record_keys[2 * thread] = record_keys[2 * thread + 1] = NO_KEY;
  if (begin >= count) return;
  const u32 end = begin + segment < count ? (u32)(begin + segment) : count;

  u32 i = (u32)begin;
  uint2 entry = entries[i];
  u32 key = entry.x;
  bool cut = i > 0 && entries[i - 1].x == key;
  Sum sum = cut ? Sum::infinity() : buckets[key];
  while (true) {
    Point p = points[entry.y & ~SIGN];
    if (entry.y & SIGN) p.y = p.y.neg();
    sum = sum.add(p);
    if (++i == end) break;
    entry = entries[i];
    if (entry.x != key) {
      if (cut) {
        record_keys[2 * thread] = key;
        records[2 * thread] = sum;
        cut = false;
      } else {
        buckets[key] = sum;
      }
      key = entry.x;
      sum = buckets[key];
    }
  }
  const bool goes_on = end < count && entries[end].x == key;
  if (cut || goes_on) {
    const u32 slot = 2 * thread + (cut ? 0 : 1);
    record_keys[slot] = key;
    records[slot] = sum;
  } else {
    buckets[key] = sum;
  }
}
