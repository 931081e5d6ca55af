// The row kernels for CPUs with AVX2: four elements at a time. Compiled for these CPUs alone, so it must call no function
// that other files share.
#include "goldilocks_avx2.h"

namespace dp {
namespace rows {
namespace {

namespace isa = gl::avx2;
constexpr char NAME[] = "avx2";
constexpr size_t WIDTH = 4;
constexpr bool MANY_REGISTERS = false;

}  // namespace
}  // namespace rows
}  // namespace dp

#include "goldilocks_rows_vectors.h"

#include "goldilocks_rows_impl.h"

const dp::rows::Kernels dp::rows::AVX2_KERNELS = dp::rows::KERNELS;
