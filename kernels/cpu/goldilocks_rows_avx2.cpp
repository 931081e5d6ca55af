// The row kernels for processors with AVX2: four elements at a time. Compiled for them alone: it must call no function that
// other files share.
#include "goldilocks_avx2.h"
#include "goldilocks_rows_kernels.h"

namespace dp {
namespace rows {
namespace {

using gl::avx2::V;
using gl::avx2::Halves;
using gl::avx2::Pieces;
using gl::avx2::Lazy;
using gl::avx2::Dot;
using gl::avx2::load;
using gl::avx2::store;
using gl::avx2::set1;
using gl::avx2::splat;
using gl::avx2::select_zero;
using gl::avx2::add;
using gl::avx2::sub;
using gl::avx2::mul;
using gl::avx2::halves;
using gl::avx2::pieces;

constexpr char NAME[] = "avx2";
constexpr size_t WIDTH = 4;
constexpr bool MANY_REGISTERS = false;

inline Pieces spread(const Weight& w) { return {{splat(w.part[0]), splat(w.part[1]), splat(w.part[2])}}; }
inline Weight weight(u64 v) { return {{v & ((1 << 22) - 1), (v >> 22) & ((1 << 22) - 1), v >> 44}}; }

}  // namespace
}  // namespace rows
}  // namespace dp

#include "goldilocks_rows_impl.h"

const dp::rows::Kernels dp::rows::AVX2_KERNELS = dp::rows::KERNELS;
