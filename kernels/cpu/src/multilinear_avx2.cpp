// The multilinear engine's loops for CPUs with AVX2: four elements at a time. Compiled for these CPUs alone, so it must call no
// function that other files share.
#include "goldilocks_avx2.h"

namespace dp {
namespace rows {
namespace {

namespace isa = gl::avx2;
constexpr char NAME[] = "avx2";
constexpr size_t WIDTH = 4;

}  // namespace
}  // namespace rows
}  // namespace dp

#include "goldilocks_rows_vectors.h"

#include "multilinear_kernels_impl.h"

const dp::rows::MultilinearKernels dp::rows::AVX2_MULTILINEAR = dp::rows::MULTILINEAR;
