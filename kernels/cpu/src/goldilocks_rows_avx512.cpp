// The row kernels for CPUs with AVX-512 F and DQ: eight elements at a time. Compiled for these CPUs alone, so it must
// call no function that other files share.
#include "goldilocks_avx512.h"

namespace dp {
namespace rows {
namespace {

namespace isa = gl::avx512;
constexpr char NAME[] = "avx512";
constexpr size_t WIDTH = 8;
constexpr bool MANY_REGISTERS = true;

}  // namespace
}  // namespace rows
}  // namespace dp

#include "goldilocks_rows_vectors.h"

#include "goldilocks_rows_impl.h"

const dp::rows::Kernels dp::rows::AVX512_KERNELS = dp::rows::KERNELS;
