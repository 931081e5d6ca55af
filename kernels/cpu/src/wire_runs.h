// Runs of wires: one wire of each of several lanes, at equal distances.
#pragma once
#include <cstdint>

namespace dp {

// Whether the wires first, first + stride, .. of so many lanes, one at least, all lie in [0, wires). Numbers of a file may
// be anything: no product of theirs may wrap.
inline bool run_inside(int64_t first, int64_t stride, int64_t lanes, int64_t wires) {
  int64_t last;
  return first >= 0 && first < wires && !__builtin_mul_overflow(lanes - 1, stride, &last) &&
         !__builtin_add_overflow(first, last, &last) && last >= 0 && last < wires;
}

// Whether the `own` wires of each of so many lanes, one at least, lie in [0, wires): those of a lane from first + lane * step
// on, beyond those of the lane before.
inline bool lanes_inside(int64_t first, int64_t step, int64_t own, int64_t lanes, int64_t wires) {
  return own >= 0 && own <= wires && (lanes == 1 || step >= own) && run_inside(first, step, lanes, wires - own + 1);
}

// Whether so many lanes of `own` wires each, one after the other from `first` on, lie in [0, wires).
inline bool block_inside(int64_t first, int64_t own, int64_t lanes, int64_t wires) {
  int64_t size;
  return first >= 0 && first <= wires && own >= 0 && !__builtin_mul_overflow(lanes, own, &size) && size <= wires - first;
}

}  // namespace dp
