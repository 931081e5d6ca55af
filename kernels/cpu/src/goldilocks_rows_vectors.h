// The names that goldilocks_rows_impl.h uses, taken from `isa`, the namespace of vectors that the including file sets.
#pragma once
#include "goldilocks_rows_kernels.h"

namespace dp {
namespace rows {
namespace {

using isa::V;
using isa::Halves;
using isa::Pieces;
using isa::Lazy;
using isa::Dot;
using isa::load;
using isa::store;
using isa::set1;
using isa::splat;
using isa::select_zero;
using isa::add;
using isa::sub;
using isa::mul;
using isa::halves;
using isa::pieces;

inline Pieces spread(const Weight& w) { return {{splat(w.part[0]), splat(w.part[1]), splat(w.part[2])}}; }
inline Weight weight(u64 v) { return {{v & ((1 << 22) - 1), (v >> 22) & ((1 << 22) - 1), v >> 44}}; }

}  // namespace
}  // namespace rows
}  // namespace dp
