// Python bindings of the Goldilocks transforms and Keccak-256. kernels/cpu_goldilocks_transforms.py has checked shapes and
// types; the functions check lengths again, because they hold pointers.
#include <nanobind/stl/vector.h>

#include <vector>

#include "bindings.h"
#include "goldilocks_transforms.h"

namespace dp {

namespace {

using InWords = nb::ndarray<const u64, nb::c_contig, nb::device::cpu>;
using OutWords = nb::ndarray<u64, nb::c_contig, nb::device::cpu>;

void require(bool good, const char* what) {
  if (!good) throw std::invalid_argument(what);
}

template <class Op>
void elementwise(Pool& pool, InWords a, InWords b, OutWords out, const Op& op) {
  require(a.size() == out.size() && (b.size() == a.size() || b.size() == 1), "operands differ in size");
  const u64 *x = a.data(), *y = b.data();
  u64* z = out.data();
  const bool scalar = b.size() == 1;
  nb::gil_scoped_release release;
  pool.ranges(a.size(), 1 << 14, [&](size_t begin, size_t end) {
    if (scalar) {
      const u64 s = y[0];
      for (size_t i = begin; i < end; ++i) z[i] = op(x[i], s);
    } else {
      for (size_t i = begin; i < end; ++i) z[i] = op(x[i], y[i]);
    }
  });
}

void bind_lde(Pool& pool, InWords in, OutWords out, int log_n, int log_blowup, u64 coset) {
  require(log_n >= 0 && log_blowup >= 0 && log_n + log_blowup <= gl::TWO_ADICITY, "lde: no such sizes");
  require(in.size() % ((size_t)1 << log_n) == 0 && out.size() == in.size() << log_blowup, "lde: wrong length");
  require(coset != 0 && coset < gl::P, "lde: not a coset");
  nb::gil_scoped_release release;
  transforms::lde(pool, in.data(), out.data(), in.size() >> log_n, log_n, log_blowup, coset);
}

void bind_leaves(Pool& pool, const std::vector<InWords>& arrays, size_t cosets, size_t rows, size_t arity, OutWords out) {
  std::vector<transforms::LeafMatrix> matrices;
  const size_t height = cosets * rows * arity;
  require(height > 0 && out.size() == 4 * cosets * rows, "leaves: wrong length");
  for (const InWords& a : arrays) {
    require(a.size() % height == 0, "leaves: a matrix of another height");
    matrices.push_back({a.data(), a.size() / height});
  }
  nb::gil_scoped_release release;
  transforms::hash_leaves(pool, matrices, cosets, rows, arity, out.data());
}

void bind_level(Pool& pool, InWords below, std::vector<InWords> injected, OutWords out, size_t groups) {
  require(groups > 0 && below.size() % (8 * groups) == 0 && out.size() == below.size() / 2, "level: wrong length");
  require(injected.empty() || (injected.size() == 1 && injected[0].size() == out.size()), "level: wrong leaves");
  nb::gil_scoped_release release;
  transforms::hash_level(pool, below.data(), injected.empty() ? nullptr : injected[0].data(), out.data(), groups,
                         below.size() / (4 * groups));
}

void bind_rows_hash(Pool& pool, InBytes in, size_t size, OutBytes out) {
  require(out.size() % 32 == 0 && in.size() == out.size() / 32 * size, "keccak: wrong length");
  nb::gil_scoped_release release;
  transforms::hash_rows(pool, in.data(), out.size() / 32, size, out.data());
}

u64 bind_grind(Pool& pool, InBytes seed, int bits) {
  require(seed.size() == 32 && bits >= 0 && bits <= 63, "grind: 32 bytes of seed, at most 63 bits");
  nb::gil_scoped_release release;
  return transforms::grind(pool, seed.data(), bits);
}

}  // namespace

void bind_goldilocks(nb::module_& m) {
  m.def("gl_add", [](Pool& p, InWords a, InWords b, OutWords out) {
    elementwise(p, a, b, out, [](u64 x, u64 y) { return gl::add(x, y); });
  });
  m.def("gl_sub", [](Pool& p, InWords a, InWords b, OutWords out) {
    elementwise(p, a, b, out, [](u64 x, u64 y) { return gl::sub(x, y); });
  });
  m.def("gl_mul", [](Pool& p, InWords a, InWords b, OutWords out) {
    elementwise(p, a, b, out, [](u64 x, u64 y) { return gl::mul(x, y); });
  });
  m.def("gl_lde", &bind_lde);
  m.def("gl_leaves", &bind_leaves);
  m.def("gl_level", &bind_level);
  m.def("keccak_rows", &bind_rows_hash);
  m.def("gl_grind", &bind_grind);
}

}  // namespace dp
