// The multilinear engine's loops for CPUs with AVX-512 F and DQ: eight elements at a time. Compiled for these CPUs alone, so it must call no
// function that other files share.
#include "goldilocks_avx512.h"

namespace dp {
namespace rows {
namespace {

namespace isa = gl::avx512;
constexpr char NAME[] = "avx512";
constexpr size_t WIDTH = 8;

}  // namespace
}  // namespace rows
}  // namespace dp

#include "goldilocks_rows_vectors.h"

#include "multilinear_kernels_impl.h"

const dp::rows::MultilinearKernels dp::rows::AVX512_MULTILINEAR = dp::rows::MULTILINEAR;
