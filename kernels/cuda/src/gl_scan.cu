// LogUp's running sum: s[0] = 0, s[j + 1] = s[j] + sum_g t_g[j] - T/n, T the total of terms. See
// kernels/interface/goldilocks.py.
//
// T is known only after everything was added, so s is written twice: first the sum over the earlier rows of the tile;
// then the sum of the earlier tiles is added and j T/n subtracted, in place.
// Layout: terms (3 m, n), s (3, n). Launch: gl_scan_tiles has one warp per tile of STEPS x 32 rows, gl_scan_totals one
// block, gl_scan_finish one thread per row. Bound: memory, 24 (m + 3) bytes a row.
#include "field/goldilocks.h"
#include "threads.h"

using namespace dp;
using namespace dp::gl;

constexpr int STEPS = 8;    // SCAN_TILE of cuda/goldilocks/rows.py must equal 32 STEPS
constexpr int BLOCK = 1024;  // threads of gl_scan_totals; must equal SCAN_BLOCK
constexpr u32 ALL = 0xffffffffu;

// Sum over this lane and those before it.
__device__ __forceinline__ Ext warp_scan(Ext v) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (int delta = 1; delta < 32; delta *= 2) {
    Ext other;
#pragma unroll
    for (int i = 0; i < 3; ++i) other.c[i] = __shfl_up_sync(ALL, v.c[i], delta);
    if (lane >= delta) v = add(v, other);
  }
  return v;
}

__device__ __forceinline__ Ext from_lane(const Ext& v, int lane) {
  Ext r;
#pragma unroll
  for (int i = 0; i < 3; ++i) r.c[i] = __shfl_sync(ALL, v.c[i], lane);
  return r;
}

// s[j] = sum of the terms of the tile's rows before j; totals (3, tiles) the tiles' sums.
extern "C" __global__ void gl_scan_tiles(const u64* __restrict__ terms, u64* __restrict__ s, u64* __restrict__ totals,
                                         u32 vectors, u64 n, u64 tiles) {
  const u64 tile = global_thread() / 32;
  const u32 lane = threadIdx.x % 32;
  if (tile >= tiles) return;
  Ext carry = embed(0);
  for (int step = 0; step < STEPS; ++step) {
    u64 row = (tile * STEPS + step) * 32 + lane;
    Ext v = embed(0);
    if (row < n)
      for (u32 g = 0; g < vectors; ++g) {
        const u64* t = terms + 3 * g * n + row;
        v = add(v, Ext{{t[0], t[n], t[2 * n]}});
      }
    Ext upto = add(carry, warp_scan(v));
    if (row < n) {
      Ext before = sub(upto, v);
#pragma unroll
      for (int i = 0; i < 3; ++i) s[i * n + row] = before.c[i];
    }
    carry = from_lane(upto, 31);
  }
  if (lane == 0)
    for (int i = 0; i < 3; ++i) totals[i * tiles + tile] = carry.c[i];
}

// totals[t] becomes the sum of those before it; whole[0..2] the sum of all.
extern "C" __global__ void gl_scan_totals(u64* totals, u64* whole, u64 tiles) {
  __shared__ Ext warps[BLOCK / 32];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const u64 share = (tiles + BLOCK - 1) / BLOCK;
  const u64 begin = share * threadIdx.x, end = begin + share < tiles ? begin + share : tiles;
  Ext mine = embed(0);
  for (u64 t = begin; t < end; ++t) mine = add(mine, Ext{{totals[t], totals[tiles + t], totals[2 * tiles + t]}});
  Ext upto = warp_scan(mine);
  if (lane == 31) warps[warp] = upto;
  __syncthreads();
  if (warp == 0) {
    Ext scanned = warp_scan(warps[lane]);
    __syncwarp();
    warps[lane] = scanned;
  }
  __syncthreads();
  Ext before = sub(upto, mine);
  if (warp) before = add(before, warps[warp - 1]);
  for (u64 t = begin; t < end; ++t) {
    Ext v{{totals[t], totals[tiles + t], totals[2 * tiles + t]}};
#pragma unroll
    for (int i = 0; i < 3; ++i) totals[i * tiles + t] = before.c[i];
    before = add(before, v);
  }
  if (threadIdx.x == 0)
    for (int i = 0; i < 3; ++i) whole[i] = warps[BLOCK / 32 - 1].c[i];
}

// s[j] += what the tiles before it hold - j T/n
extern "C" __global__ void gl_scan_finish(u64* s, const u64* totals, const u64* whole, u64 n, u64 tiles, u64 n_inverse) {
  const u64 row = global_thread();
  if (row >= n) return;
  const u64 tile = row / (STEPS * 32), j_over_n = mul(row, n_inverse);
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    u64 v = add(s[i * n + row], totals[i * tiles + tile]);
    s[i * n + row] = sub(v, mul(whole[i], j_over_n));
  }
}
