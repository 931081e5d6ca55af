// Row functions as a CUDA kernel: one thread per row, so that the rows of a warp write each column in one piece.
#pragma once
#include "threads.h"
#include "trace/row.h"

// `Inputs` holds the table's height and the arrays; `function` is the author's row function.
#define DP_TRACE_KERNEL(name, function)                                                   \
  extern "C" __global__ void name(u64* out, const __grid_constant__ Inputs inputs) {      \
    const dp::u64 index = dp::global_thread();                                            \
    if (index >= inputs.rows) return;                                                     \
    dp::trace::Row row{out + index, inputs.rows};                                         \
    ::function(inputs, index, row);                                                       \
  }
