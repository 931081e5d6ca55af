// Row functions on the CPU, as tasks of a pool (kernels/cpu/src/threads.h). Each task is a number of whole tiles.
//
// A row has thousands of columns that lie far apart. So the rows of a tile are computed in a buffer that stays in the
// cache and are written from there to their columns, some cache lines of each at a time and past the cache: lines that are
// written whole need not be read first, and the trace does not fit anyway. Every element is checked on the way: one that
// no row function wrote, or that is no field element, is reported.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "trace/row.h"

namespace dp {
namespace trace {

constexpr u64 TILE = 32;  // rows: from 8, a cache line of each column, to 64 about as fast for Keccak-f's 2321 columns
constexpr u64 LINE = 64 / sizeof(u64);
constexpr u64 UNWRITTEN = ~(u64)0;  // the buffer's initial content; no field element

// A job as the class _Job in kernels/cpu/goldilocks/row_source.py lays it out.
template <class Inputs>
struct Job {
  const Inputs* inputs;
  u64* out;
  u64 rows_per_task;
  u64 width;
  std::atomic<u64> bad;  // the least row * width + column whose element is no field element, or one of these
};

constexpr u64 NONE = ~(u64)0, NO_MEMORY = NONE - 1;

inline void least(std::atomic<u64>& found, u64 value) {
  u64 known = found.load();
  while (value < known && !found.compare_exchange_weak(known, value)) {
  }
}

inline void store_past_cache(u64* to, u64 value) {
#if defined(__x86_64__)
  _mm_stream_si64(reinterpret_cast<long long*>(to), (long long)value);
#else
  *to = value;
#endif
}

inline void finish_stores() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

template <class Inputs, class Function>
void fill(Job<Inputs>& job, u64 task, Function function) {
  const u64 rows = job.inputs->rows, width = job.width, first = task * job.rows_per_task;
  const u64 end = rows - first < job.rows_per_task ? rows : first + job.rows_per_task;
  u64* tile = static_cast<u64*>(std::malloc(width * TILE * sizeof(u64)));
  if (!tile) return least(job.bad, NO_MEMORY);
  for (u64 begin = first, count; begin < end; begin += count) {
    count = TILE - reinterpret_cast<std::uintptr_t>(job.out + begin) / sizeof(u64) % LINE;  // up to the end of a line
    if (count > end - begin) count = end - begin;
    for (u64 i = 0; i < count * width; ++i) tile[i] = UNWRITTEN;
    for (u64 r = 0; r < count; ++r) {
      Row row{tile + r * width};
      function(*job.inputs, begin + r, row);
    }
    for (u64 c = 0; c < width; ++c) {
      u64* to = job.out + c * rows + begin;
      u64 high = 0;  // bit 32 is set by an upper half of ones, as all that is no field element has, and p - 1
      for (u64 r = 0; r < count; ++r) {
        const u64 value = tile[r * width + c];
        high |= (value >> 32) + 1;
        store_past_cache(to + r, value);
      }
      if (high >> 32)
        for (u64 r = 0; r < count; ++r)
          if (tile[r * width + c] >= gl::P) least(job.bad, (begin + r) * width + c);
    }
  }
  finish_stores();
  std::free(tile);
}

}  // namespace trace
}  // namespace dp

#define DP_TRACE_TASK(name, function)                                                                     \
  extern "C" void name(void* job, std::size_t task) {                                                     \
    dp::trace::fill(*static_cast<dp::trace::Job<Inputs>*>(job), task,                                     \
                    [](const Inputs& inputs, dp::u64 index, dp::trace::Row& row) {                        \
                      ::function(inputs, index, row);                                                     \
                    });                                                                                   \
  }
