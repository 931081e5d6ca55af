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
// A thread asks for all that it takes of a tile before it waits for the first: barriers and shared memory keep the
// compiler from moving loads up, and one load after the other costs the latency of memory as often.
//
// Bound: memory, 8 bytes per entry in and out for each pass.
//
// Launch: BLOCK threads per block; as many blocks to scatter as to count in a pass; each kernel names its shared memory.
// Compiled with CURVE (Bn254 or Bls12381), for the order of the group, SORT_ITEMS (entries that a thread ranks in a tile,
// an even number) and SORT_BLOCKS (blocks of msm_scatter_entries that must fit a multiprocessor).
#include "device.h"

namespace dp {

using Fr = CURVE::Fr;

constexpr int BLOCK = 512;
constexpr int WARPS = BLOCK / 32;
constexpr int MAX_BINS = 2048;
constexpr int ITEMS = SORT_ITEMS;
constexpr int TILE = BLOCK * ITEMS;
constexpr int AHEAD = 8;  // entries that a thread asks for before it waits
constexpr u32 SMALL = 128;
constexpr int CLASSES = 10;

// How scalars are cut, and which windows are wanted: those of the `some` sets from first_set on.
struct Windows {
  u32 bits, count, sets, first_set, some;
  u32 halves[8];  // 2^(bits - 1) in every window but the last
};

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

struct Scalar {
  uint4 lo, hi;
};

// Scalar i, or zero from `end` on.
DP_HD Scalar scalar_at(const uint4* scalars, u32 i, u32 end) {
  if (i >= end) return {make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0)};
  return {scalars[2 * (size_t)i], scalars[2 * (size_t)i + 1]};
}

// A scalar, or its negative where that is smaller: at most half the group's order, which saves a bit and so sometimes a
// window.
struct Magnitude {
  u32 s[8];
  u32 negative;
  DP_HD explicit Magnitude(const Scalar& scalar) {
    const uint4 lo = scalar.lo, hi = scalar.hi;
    const u32 given[8] = {lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w};
    Fr order = Fr::modulus();
    u32 negated[8], unused[8];
    sub_n<8>(negated, order.v, given);
    negative = sub_n<8>(unused, negated, given);
#pragma unroll
    for (int k = 0; k < 8; ++k) s[k] = negative ? negated[k] : given[k];
  }
  // Whether it is at most `bound`, which must be below 2^32.
  DP_HD bool at_most(u32 bound) const {
    return (s[1] | s[2] | s[3] | s[4] | s[5] | s[6] | s[7]) == 0 && s[0] <= bound;
  }
};

// s >>= bits, for bits < 256.
DP_HD void shift_right(u32* s, u32 bits) {
  for (u32 words = 4; words != 0; words /= 2) {
    if (((bits / 32) & words) == 0) continue;
    if (words == 4) {
#pragma unroll
      for (int k = 0; k < 8; ++k) s[k] = k < 4 ? s[k + 4] : 0;
    } else if (words == 2) {
#pragma unroll
      for (int k = 0; k < 8; ++k) s[k] = k < 6 ? s[k + 2] : 0;
    } else {
#pragma unroll
      for (int k = 0; k < 8; ++k) s[k] = k < 7 ? s[k + 1] : 0;
    }
  }
#pragma unroll
  for (int k = 0; k < 7; ++k) s[k] = __funnelshift_r(s[k], s[k + 1], bits);
  s[7] >>= bits & 31;
}

// Calls body(key, value) for each wanted non-zero digit of a scalar, whose point is `point` of the table. With half of its
// range added to every digit but the last no digit depends on another, so that unwanted windows are skipped: d = ((s +
// halves) >> bits w) mod 2^bits - 2^(bits - 1). The last digit is what is left, and at most 2^(bits - 1), because s is at
// most half the order.
template <class Body>
DP_HD void for_each_digit(const Scalar& scalar, const Windows& windows, u32 point, u32 table_points, Body body) {
  Magnitude m(scalar);
  const u32 half = 1u << (windows.bits - 1), mask = 2 * half - 1;
  if (m.at_most(half)) {  // most of a 0/1-heavy witness: a digit in window 0 at most
    if (m.s[0] != 0 && windows.first_set == 0) body(m.s[0] - 1, point | (m.negative << 31));
    return;
  }
  add_n<8>(m.s, m.s, windows.halves);
  shift_right(m.s, windows.bits * windows.first_set);
  u32 first = windows.first_set;
  while (true) {
    const u32 end = min(first + windows.some, windows.count);
    u32 key = 0;
    for (u32 w = first; w < end; ++w, key += half) {
      const u32 low = m.s[0] & mask;
      const bool last = w + 1 == windows.count;
      const u32 below = !last && low < half;
      const u32 magnitude = last ? m.s[0] : below ? half - low : low - half;
      if (magnitude != 0) body(key + magnitude - 1, point | ((below ^ m.negative) << 31));
#pragma unroll
      for (int k = 0; k < 7; ++k) m.s[k] = __funnelshift_r(m.s[k], m.s[k + 1], windows.bits);
      m.s[7] >>= windows.bits;
    }
    first += windows.sets;
    if (first >= windows.count) return;
    if (windows.some < windows.sets) shift_right(m.s, windows.bits * (windows.sets - windows.some));
    point += table_points;
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

// classes[k] += how many scalars are of class k, by magnitude: 0, at most SMALL, and of 1 to 8 words of 32 bits.
extern "C" __global__ void __launch_bounds__(BLOCK) msm_classify(const uint4* scalars, u32 n, u32* classes) {
  __shared__ u32 all[CLASSES];
  if (threadIdx.x < CLASSES) all[threadIdx.x] = 0;
  __syncthreads();
  u32 own[CLASSES] = {};
  for (u64 i = global_thread(); i < n; i += global_threads()) {
    const Magnitude m(scalar_at(scalars, (u32)i, n));
    u32 words = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) words = m.s[k] != 0 ? k + 1 : words;
    const u32 found = words > 1 || m.s[0] > SMALL ? words + 1 : words;
#pragma unroll
    for (int k = 0; k < CLASSES; ++k) own[k] += found == (u32)k;
  }
#pragma unroll
  for (int k = 0; k < CLASSES; ++k)
    if (own[k] != 0) atomicAdd(&all[k], own[k]);
  __syncthreads();
  if (threadIdx.x < CLASSES) atomicAdd(&classes[threadIdx.x], all[threadIdx.x]);
}

// Also tile_counts[tile][bin], for msm_scatter_digits. As many tiles as shared memory has bins for are counted at a time.
extern "C" __global__ void __launch_bounds__(BLOCK)
    msm_count_digits(const uint4* scalars, u32 n, Windows windows, u32 bins, u32 tile, u32* counts,
                     unsigned short* tile_counts) {
  __shared__ u32 count[MAX_BINS], of_tiles[MAX_BINS];
  clear(count, bins);
  clear(of_tiles, MAX_BINS);
  const Slice slice = share(n, tile);
  const u32 together = MAX_BINS / bins;
  for (u32 first = slice.begin; first < slice.end; first += together * tile) {
    const u32 tiles = min(together, (slice.end - first + tile - 1) / tile);
    for (u32 t = 0; t < tiles; ++t) {
      const u32 begin = first + t * tile, end = min(begin + tile, slice.end);
      u32* of_tile = of_tiles + t * bins;
      Scalar next = scalar_at(scalars, begin + threadIdx.x, end);
      for (u32 i = begin + threadIdx.x; i < end; i += BLOCK) {
        const Scalar scalar = next;
        next = scalar_at(scalars, i + BLOCK, end);
        for_each_digit(scalar, windows, 0, 0, [&](u32 key, u32) { atomicAdd(&of_tile[key & (bins - 1)], 1u); });
      }
    }
    __syncthreads();
    for (u32 k = threadIdx.x; k < tiles * bins; k += BLOCK) {
      tile_counts[(size_t)(first / tile) * bins + k] = (unsigned short)of_tiles[k];
      atomicAdd(&count[k & (bins - 1)], of_tiles[k]);
      of_tiles[k] = 0;
    }
    __syncthreads();
  }
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

// entry_count[0] becomes the number of entries. Shared memory: 3 * bins words, then `room` entries. A tile with more is
// written one entry at a time: in a witness that is mostly 0 and 1 some tiles are of full width.
extern "C" __global__ void __launch_bounds__(BLOCK)
    msm_scatter_digits(const uint4* scalars, u32 n, u32 first_point, u32 table_points, Windows windows, u32 bins, u32 tile,
                       const u32* counts, const unsigned short* tile_counts, u32 room, const u32* totals,
                       uint2* entries, u32* entry_count) {
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
    Scalar next_scalar = scalar_at(scalars, begin + threadIdx.x, end);
    for (u32 k = threadIdx.x; k < bins; k += BLOCK) {
      place[k] = tile_counts[(size_t)(begin / tile) * bins + k];
      from_tile[k] = next[k];
      next[k] += place[k];
    }
    __syncthreads();
    const u32 count = exclusive_sums(place, place, bins);
    for (u32 k = threadIdx.x; k < bins; k += BLOCK) from_tile[k] -= place[k];
    __syncthreads();
    for (u32 i = begin + threadIdx.x; i < end; i += BLOCK) {
      const Scalar scalar = next_scalar;
      next_scalar = scalar_at(scalars, i + BLOCK, end);
      for_each_digit(scalar, windows, first_point + i, table_points, [&](u32 key, u32 value) {
        const u32 bin = key & (bins - 1), to = atomicAdd(&place[bin], 1u);
        if (count <= room)
          staged[to] = make_uint2(key, value);
        else
          entries[from_tile[bin] + to] = make_uint2(key, value);
      });
    }
    __syncthreads();
    if (count > room) continue;
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
  const Slice slice = share(*entry_count, TILE);
  for (u32 begin = slice.begin + threadIdx.x; begin < slice.end; begin += AHEAD * BLOCK) {
    u32 keys[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) keys[k] = begin + k * BLOCK < slice.end ? entries[begin + k * BLOCK].x : 0;
#pragma unroll
    for (int k = 0; k < AHEAD; ++k)
      if (begin + k * BLOCK < slice.end) atomicAdd(&count[(keys[k] >> shift) & (bins - 1)], 1u);
  }
  write_counts(counts, count, bins);
}

// The stable scatter. Each warp ranks its own ITEMS * 32 consecutive entries of the tile, 32 at a time: lanes of equal bin
// find each other with one ballot a bit. Shared memory: 3 * bins words, TILE entries, WARPS * bins 16-bit counts.
extern "C" __global__ void __launch_bounds__(BLOCK, SORT_BLOCKS)
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
    uint2 entry[ITEMS];
    const u32 first = begin + warp * (ITEMS * 32) + lane;
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) entry[k] = first + 32 * k < slice.end ? entries[first + 32 * k] : make_uint2(0, 0);
    for (u32 k = threadIdx.x; k < WARPS * bins / 2; k += BLOCK) reinterpret_cast<u32*>(ranked)[k] = 0;
    __syncthreads();

    u32 ranks[ITEMS / 2];  // two of 16 bits in each
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      const bool valid = first + 32 * k < slice.end;
      const u32 bin = (entry[k].x >> shift) & (bins - 1);
      u32 peers = __ballot_sync(0xffffffffu, valid);
      for (u32 bit = 0; bit < bin_bits; ++bit) {
        const bool set = (bin >> bit) & 1;
        const u32 with = __ballot_sync(0xffffffffu, set);
        peers &= set ? with : ~with;
      }
      const u32 before = own[bin];
      __syncwarp();
      const u32 rank = before + __popc(peers & lanes_below);
      if (valid && (peers & lanes_below) == 0) own[bin] = (unsigned short)(before + __popc(peers));
      __syncwarp();
      ranks[k / 2] = k % 2 == 0 ? rank : ranks[k / 2] | (rank << 16);
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
      const u32 bin = (entry[k].x >> shift) & (bins - 1);
      staged[place[bin] + own[bin] + ((ranks[k / 2] >> (16 * (k % 2))) & 0xffffu)] = entry[k];
    }
    __syncthreads();
    for (u32 k = threadIdx.x; k < count; k += BLOCK) {
      const uint2 sorted = staged[k];
      out[from_tile[(sorted.x >> shift) & (bins - 1)] + k] = sorted;
    }
    __syncthreads();
  }
}
