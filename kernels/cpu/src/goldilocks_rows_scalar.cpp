// The row kernels for any CPU: one element at a time.
#include "goldilocks_branchless.h"
#include "goldilocks_rows_kernels.h"

namespace dp {
namespace rows {
namespace {

constexpr char NAME[] = "scalar";
constexpr size_t WIDTH = 1;
constexpr bool MANY_REGISTERS = false;

using u128 = unsigned __int128;
using V = u64;

using gl::branchless::add;
using gl::branchless::mul;
using gl::branchless::sub;

inline V load(const u64* p) { return *p; }
inline void store(u64* p, V v) { *p = v; }
inline V set1(u64 v) { return v; }
inline V select_zero(V v, V a, V b) { return v == 0 ? a : b; }

using Halves = u64;
using Pieces = u64;
inline Halves halves(V v) { return v; }
inline Pieces pieces(V v) { return v; }
inline Pieces spread(const Weight& w) { return w.part[0]; }
inline Weight weight(u64 v) { return {{v, 0, 0}}; }

// A sum of products below 2^192
struct Dot {
  u128 low = 0;
  u64 high = 0;
  void add(Halves a, Pieces b) {
    const u128 product = (u128)a * b;
    low += product;
    high += low < product;
  }
  V reduce() const {  // 2^128 = -2^32 (mod p)
    return gl::branchless::sub(gl::branchless::reduce128((u64)(low >> 64), (u64)low), high << 32);
  }
};

struct Lazy : Dot {
  Lazy(Halves a, Halves b) { add(a, b); }
};

}  // namespace
}  // namespace rows
}  // namespace dp

#include "goldilocks_rows_impl.h"

const dp::rows::Kernels dp::rows::SCALAR_KERNELS = dp::rows::KERNELS;
