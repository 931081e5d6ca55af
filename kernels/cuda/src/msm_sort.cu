// The start of an MSM: cuts its scalars into entries and sorts them by bucket.
//
// A scalar is cut into signed digits of `window_bits` bits. Digit d != 0 of window w is one entry: the key
// (w mod sets - first_set) * buckets + |d| - 1 names its bucket, and the value names the point to add there, the multiple
// w / sets of the scalar's own point, with the sign in bit 31. Zero digits make no entry, nor do windows of other sets
// than the `some` from first_set on: the sets can be sorted in turn, where memory does not hold the entries of all.
//
// Sorting is a radix sort, least significant bits first. Its first pass reads digits straight from the scalars and may
// leave them in any order within a bin; later passes read entries and keep the order of equal bins. A pass counts each
// block's bins (counts[bin][block]), scans the rows, and scatters, a tile at a time: entries are put in order in shared
// memory first, so that those of one bin are written together. Written one by one they cost several times their bytes,
// because the fronts of all bins of all blocks do not stay in L2 until their sectors are full (on an H200: 2.4 ms
// instead of the 0.3 ms that writing the entries of 2^22 scalars takes).
//
// Bound: memory, 8 bytes per entry in and out for each pass.
//
// Launch: BLOCK threads per block; as many blocks to scatter as to count in a pass; each kernel names its shared memory.
// Compiled with CURVE (Bn254 or Bls12381), for the order of the group.
#include "device.h"

namespace dp {

using Fr = CURVE::Fr;

constexpr int BLOCK = 512;
constexpr int WARPS = BLOCK / 32;
constexpr int MAX_BINS = 2048;
constexpr int ITEMS = 16;  // entries a thread ranks in one tile
constexpr int TILE = BLOCK * ITEMS;

struct Slice {
  u32 begin, end;
};

// Block b's share of n items, in whole multiples of `unit`.
DP_HD Slice share(u32 n, u32 unit) {
  u32 units = (n + unit - 1) / unit;
  u64 per = (u64)((units + gridDim.x - 1) / gridDim.x) * unit;
  u64 begin = per * blockIdx.x, end = begin + per;
  return {(u32)(begin < n ? begin : n), (u32)(end < n ? end : n)};
}

// Calls body(key, value) for each non-zero digit of scalar i. A scalar above half the group's order is replaced by its
// negative, which saves a bit, and so sometimes a window.
template <class Body>
DP_HD void for_each_digit(const uint4* scalars, u32 i, u32 first_point, u32 table_points, u32 window_bits, u32 windows,
                          u32 sets, u32 first_set, u32 some, Body body) {
  uint4 lo = scalars[2 * (size_t)i], hi = scalars[2 * (size_t)i + 1];
  u32 s[8] = {lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w};
  Fr order = Fr::modulus();
  u32 negated[8], unused[8];
  sub_n<8>(negated, order.v, s);
  u32 negative = sub_n<8>(unused, negated, s);
#pragma unroll
  for (int k = 0; k < 8; ++k) s[k] = negative ? negated[k] : s[k];

  const u32 half = 1u << (window_bits - 1);
  const u32 mask = 2 * half - 1;
  u32 carry = 0, set = 0, point = first_point + i;
  for (u32 w = 0; w < windows; ++w) {
    u32 digit = (s[0] & mask) + carry;
#pragma unroll
    for (int k = 0; k < 7; ++k) s[k] = __funnelshift_r(s[k], s[k + 1], window_bits);
    s[7] >>= window_bits;
    carry = digit > half;
    u32 magnitude = carry ? 2 * half - digit : digit;
    if (magnitude != 0 && set - first_set < some)
      body((set - first_set) * half + magnitude - 1, point | ((carry ^ negative) << 31));
    if (++set == sets) {
      set = 0;
      point += table_points;
    }
  }
}

// starts[bin] = the sum of counts[0..bin), which may be the same array; returns the sum of all to every thread.
DP_HD u32 exclusive_sums(u32* starts, const u32* counts, u32 bins) {
  __shared__ u32 warp_sums[WARPS];
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const u32 per = (bins + BLOCK - 1) / BLOCK, begin = threadIdx.x * per;
  u32 sum = 0;
  for (u32 k = begin; k < begin + per && k < bins; ++k) sum += counts[k];
  u32 inclusive = sum;
  for (int d = 1; d < 32; d *= 2) {
    u32 other = __shfl_up_sync(0xffffffffu, inclusive, d);
    if (lane >= d) inclusive += other;
  }
  if (lane == 31) warp_sums[warp] = inclusive;
  __syncthreads();
  u32 start = inclusive - sum, all = 0;
  for (u32 w = 0; w < WARPS; ++w) {
    if (w < warp) start += warp_sums[w];
    all += warp_sums[w];
  }
  for (u32 k = begin; k < begin + per && k < bins; ++k) {
    const u32 count = counts[k];
    starts[k] = start;
    start += count;
  }
  __syncthreads();
  return all;
}

// next[bin] = where this block's first entry of each bin goes; returns the number of all entries.
DP_HD u32 first_places(u32* next, const u32* totals, const u32* counts, u32 bins) {
  const u32 all = exclusive_sums(next, totals, bins);
  for (u32 k = threadIdx.x; k < bins; k += BLOCK) next[k] += counts[(size_t)k * gridDim.x + blockIdx.x];
  __syncthreads();
  return all;
}

DP_HD void clear(u32* words, u32 n) {
  for (u32 k = threadIdx.x; k < n; k += BLOCK) words[k] = 0;
  __syncthreads();
}

DP_HD void write_counts(u32* counts, const u32* bins_of_block, u32 bins) {
  __syncthreads();
  for (u32 k = threadIdx.x; k < bins; k += BLOCK) counts[(size_t)k * gridDim.x + blockIdx.x] = bins_of_block[k];
}

}  // namespace dp

using namespace dp;

extern "C" __global__ void __launch_bounds__(BLOCK)
    msm_count_digits(const uint4* scalars, u32 n, u32 window_bits, u32 windows, u32 sets, u32 first_set, u32 some,
                     u32 bins, u32 tile, u32* counts) {
  __shared__ u32 count[MAX_BINS];
  clear(count, bins);
  const Slice slice = share(n, tile);
  for (u32 i = slice.begin + threadIdx.x; i < slice.end; i += BLOCK)
    for_each_digit(scalars, i, 0, 0, window_bits, windows, sets, first_set, some,
                   [&](u32 key, u32) { atomicAdd(&count[key & (bins - 1)], 1u); });
  write_counts(counts, count, bins);
}

// A warp for each bin: counts[bin][*] becomes its exclusive sums, totals[bin] their sum.
extern "C" __global__ void __launch_bounds__(BLOCK) msm_scan_rows(u32* counts, u32 bins, u32 row, u32* totals) {
  const u32 lane = threadIdx.x & 31, bin = blockIdx.x * WARPS + (threadIdx.x >> 5);
  if (bin >= bins) return;
  u32* c = counts + (size_t)bin * row;
  u32 before = 0;
  for (u32 base = 0; base < row; base += 32) {
    u32 x = base + lane < row ? c[base + lane] : 0, inclusive = x;
    for (int d = 1; d < 32; d *= 2) {
      u32 other = __shfl_up_sync(0xffffffffu, inclusive, d);
      if (lane >= d) inclusive += other;
    }
    if (base + lane < row) c[base + lane] = before + inclusive - x;
    before += __shfl_sync(0xffffffffu, inclusive, 31);
  }
  if (lane == 0) totals[bin] = before;
}

// entry_count[0] becomes the number of entries. Shared memory: 3 * bins words, then the entries of `tile` scalars.
extern "C" __global__ void __launch_bounds__(BLOCK)
    msm_scatter_digits(const uint4* scalars, u32 n, u32 first_point, u32 table_points, u32 window_bits, u32 windows, u32 sets,
                       u32 first_set, u32 some, u32 bins, u32 tile, const u32* counts, const u32* totals, uint2* entries,
                       u32* entry_count) {
  DP_DYNAMIC_SHARED(u32, shared);
  u32* next = shared;           // where the block's next entry of a bin goes
  u32* place = next + bins;     // the same within the tile
  u32* from_tile = place + bins;  // from a place in the tile to the one it goes to, modulo 2^32
  uint2* staged = reinterpret_cast<uint2*>(from_tile + bins);
  const u32 all = first_places(next, totals, counts, bins);
  if (blockIdx.x == 0 && threadIdx.x == 0) *entry_count = all;

  const Slice slice = share(n, tile);
  for (u32 begin = slice.begin; begin < slice.end; begin += tile) {
    const u32 end = min(begin + tile, slice.end);
    clear(place, bins);
    for (u32 i = begin + threadIdx.x; i < end; i += BLOCK)
      for_each_digit(scalars, i, 0, 0, window_bits, windows, sets, first_set, some,
                     [&](u32 key, u32) { atomicAdd(&place[key & (bins - 1)], 1u); });
    __syncthreads();
    for (u32 k = threadIdx.x; k < bins; k += BLOCK) {
      from_tile[k] = next[k];
      next[k] += place[k];
    }
    __syncthreads();
    const u32 count = exclusive_sums(place, place, bins);
    for (u32 k = threadIdx.x; k < bins; k += BLOCK) from_tile[k] -= place[k];
    __syncthreads();
    for (u32 i = begin + threadIdx.x; i < end; i += BLOCK)
      for_each_digit(scalars, i, first_point, table_points, window_bits, windows, sets, first_set, some,
                     [&](u32 key, u32 value) {
                       staged[atomicAdd(&place[key & (bins - 1)], 1u)] = make_uint2(key, value);
                     });
    __syncthreads();
    for (u32 k = threadIdx.x; k < count; k += BLOCK) {
      const uint2 entry = staged[k];
      entries[from_tile[entry.x & (bins - 1)] + k] = entry;
    }
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    msm_count_entries(const uint2* entries, const u32* entry_count, u32 shift, u32 bins, u32* counts) {
  __shared__ u32 count[MAX_BINS];
  clear(count, bins);
  Slice slice = share(*entry_count, TILE);
  for (u32 i = slice.begin + threadIdx.x; i < slice.end; i += BLOCK)
    atomicAdd(&count[(entries[i].x >> shift) & (bins - 1)], 1u);
  write_counts(counts, count, bins);
}

// The stable scatter. Each warp ranks its own ITEMS * 32 consecutive entries of the tile, 32 at a time: lanes of equal bin
// find each other with one ballot a bit. Shared memory: 3 * bins words, TILE entries, WARPS * bins 16-bit counts.
extern "C" __global__ void __launch_bounds__(BLOCK, 2)
    msm_scatter_entries(const uint2* entries, const u32* entry_count, u32 shift, u32 bin_bits, const u32* counts,
                        const u32* totals, uint2* out) {
  DP_DYNAMIC_SHARED(u32, shared);
  const u32 bins = 1u << bin_bits;
  u32* next = shared;             // where the block's next entry of a bin goes
  u32* place = next + bins;       // the first place of a bin in the tile
  u32* from_tile = place + bins;  // from a place in the tile to the one it goes to, modulo 2^32
  uint2* staged = reinterpret_cast<uint2*>(from_tile + bins);
  unsigned short* ranked = reinterpret_cast<unsigned short*>(staged + TILE);  // a row a warp: its entries of each bin
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, lanes_below = (1u << lane) - 1;
  unsigned short* own = ranked + warp * bins;
  first_places(next, totals, counts, bins);

  const Slice slice = share(*entry_count, TILE);
  for (u32 begin = slice.begin; begin < slice.end; begin += TILE) {
    for (u32 k = threadIdx.x; k < WARPS * bins / 2; k += BLOCK) reinterpret_cast<u32*>(ranked)[k] = 0;
    __syncthreads();

    u32 rank[ITEMS];
    const u32 first = begin + warp * (ITEMS * 32) + lane;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      const bool valid = first + 32 * k < slice.end;
      const u32 bin = valid ? (entries[first + 32 * k].x >> shift) & (bins - 1) : 0;
      u32 peers = __ballot_sync(0xffffffffu, valid);
      for (u32 bit = 0; bit < bin_bits; ++bit) {
        const bool set = (bin >> bit) & 1;
        const u32 with = __ballot_sync(0xffffffffu, set);
        peers &= set ? with : ~with;
      }
      const u32 before = own[bin];
      __syncwarp();
      rank[k] = before + __popc(peers & lanes_below);
      if (valid && (peers & lanes_below) == 0) own[bin] = (unsigned short)(before + __popc(peers));
      __syncwarp();
    }
    __syncthreads();
    // a warp's count of a bin becomes the number of such entries in the warps before it
    for (u32 k = threadIdx.x; k < bins; k += BLOCK) {
      u32 sum = 0;
      for (int w = 0; w < WARPS; ++w) {
        const u32 count = ranked[w * bins + k];
        ranked[w * bins + k] = (unsigned short)sum;
        sum += count;
      }
      place[k] = sum;
      from_tile[k] = next[k];
      next[k] += sum;
    }
    __syncthreads();
    const u32 count = exclusive_sums(place, place, bins);
    for (u32 k = threadIdx.x; k < bins; k += BLOCK) from_tile[k] -= place[k];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      if (first + 32 * k >= slice.end) continue;
      const uint2 entry = entries[first + 32 * k];
      const u32 bin = (entry.x >> shift) & (bins - 1);
      staged[place[bin] + own[bin] + rank[k]] = entry;
    }
    __syncthreads();
    for (u32 k = threadIdx.x; k < count; k += BLOCK) {
      const uint2 entry = staged[k];
      out[from_tile[(entry.x >> shift) & (bins - 1)] + k] = entry;
    }
    __syncthreads();
  }
}
