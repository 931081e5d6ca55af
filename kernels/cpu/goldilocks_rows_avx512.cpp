// The row kernels for processors with AVX-512 F and DQ: eight elements at a time. Compiled for them alone: it must call no
// function that other files share.
#include "goldilocks_avx512.h"
#include "goldilocks_rows_kernels.h"

namespace dp {
namespace rows {
namespace {

using gl::avx512::V;
using gl::avx512::Halves;
using gl::avx512::Pieces;
using gl::avx512::Lazy;
using gl::avx512::Dot;
using gl::avx512::load;
using gl::avx512::store;
using gl::avx512::set1;
using gl::avx512::splat;
using gl::avx512::select_zero;
using gl::avx512::add;
using gl::avx512::sub;
using gl::avx512::mul;
using gl::avx512::halves;
using gl::avx512::pieces;

constexpr char NAME[] = "avx512";
constexpr size_t WIDTH = 8;
constexpr bool MANY_REGISTERS = true;

inline Pieces spread(const Weight& w) { return {{splat(w.part[0]), splat(w.part[1]), splat(w.part[2])}}; }
inline Weight weight(u64 v) { return {{v & ((1 << 22) - 1), (v >> 22) & ((1 << 22) - 1), v >> 44}}; }

}  // namespace
}  // namespace rows
}  // namespace dp

#include "goldilocks_rows_impl.h"

const dp::rows::Kernels dp::rows::AVX512_KERNELS = dp::rows::KERNELS;
