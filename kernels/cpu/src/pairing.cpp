// Python bindings of the pairing: they take arrays of affine points and return verdicts and points. kernels/cpu/pairing.py
// checks shapes and describes the arrays.
#include "curve/pairing.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "curve/glv.h"
#include "curve/linear_combination.h"
#include "towers.h"

namespace nb = nanobind;

namespace dp {
namespace {

using Rows = nb::ndarray<const u64, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutRows = nb::ndarray<u64, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T, class Array>
std::vector<T> load(const Array& rows) {
  if (rows.shape(1) * sizeof(u64) != sizeof(T)) throw std::invalid_argument("rows of the wrong length");
  std::vector<T> out(rows.shape(0));
  if (!out.empty()) std::memcpy(static_cast<void*>(out.data()), rows.data(), out.size() * sizeof(T));
  return out;
}

template <class T>
void store(const std::vector<T>& values, const OutRows& rows) {
  if (rows.shape(0) != values.size() || rows.shape(1) * sizeof(u64) != sizeof(T)) {
    throw std::invalid_argument("output of the wrong shape");
  }
  if (!values.empty()) std::memcpy(rows.data(), static_cast<const void*>(values.data()), values.size() * sizeof(T));
}

template <class Tower>
Fp12<Tower> product_of_pairings(const Rows& g1, const Rows& g2) {
  auto p = load<Affine<typename Tower::Fq>>(g1);
  auto q = load<Affine<typename Tower::Fq2>>(g2);
  if (p.size() != q.size()) throw std::invalid_argument("as many G1 as G2 points are needed");
  Miller<Tower> miller;
  for (size_t i = 0; i < p.size(); ++i) miller.push(p[i], q[i]);
  return final_exponentiation(miller.run());
}

bool pairing_product_is_one(const std::string& curve, const Rows& g1, const Rows& g2) {
  return with_tower(curve, [&](auto tower) { return product_of_pairings<decltype(tower)>(g1, g2).is_one(); });
}

// out: (12, limbs), the coefficients of 1, v, v^2, w, v w, v^2 w, each c0, c1
void pairing_product(const std::string& curve, const Rows& g1, const Rows& g2, const OutRows& out) {
  with_tower(curve, [&](auto tower) {
    using Tower = decltype(tower);
    Fp12<Tower> value = product_of_pairings<Tower>(g1, g2);
    std::vector<typename Tower::Fq> coefficients(12);
    static_assert(sizeof(value) == 12 * sizeof(typename Tower::Fq));
    std::memcpy(static_cast<void*>(coefficients.data()), &value, sizeof(value));
    store(coefficients, out);
  });
}

// out: (1, point_limbs), sum_i scalars[i] points[i]
void combine_g1(const std::string& curve, const Rows& points, const Rows& scalars, const OutRows& out) {
  with_tower(curve, [&](auto tower) {
    using F = typename decltype(tower)::Fq;
    auto p = load<Affine<F>>(points);
    auto k = load<Words<4>>(scalars);
    if (p.size() != k.size()) throw std::invalid_argument("as many scalars as points are needed");
    store(std::vector<Affine<F>>{LinearCombination<F, 4>::sum(p.data(), k.data(), p.size()).to_affine()}, out);
  });
}

// out: (1, point_limbs), sum_i scalars[i] points[i] for points of order r and scalars below r
void combine_members_g1(const std::string& curve, const Rows& points, const Rows& scalars, const OutRows& out) {
  with_tower(curve, [&](auto tower) {
    using Tower = decltype(tower);
    using F = typename Tower::Fq::Inner;  // products inlined, as these sums are what proofs wait for
    auto p = load<Affine<F>>(points);
    auto k = load<Words<4>>(scalars);
    if (p.size() != k.size()) throw std::invalid_argument("as many scalars as points are needed");
    store(std::vector<Affine<F>>{sum_by_halves<Tower>(p.data(), k.data(), p.size()).to_affine()}, out);
  });
}

// out: (n, point_limbs), scalars[i] points[i], scalars of 128 bits
void scale_g1(const std::string& curve, const Rows& points, const Rows& scalars, const OutRows& out) {
  with_tower(curve, [&](auto tower) {
    using F = typename decltype(tower)::Fq;
    auto p = load<Affine<F>>(points);
    auto k = load<Words<2>>(scalars);
    if (p.size() != k.size()) throw std::invalid_argument("as many scalars as points are needed");
    std::vector<XYZZ<F>> products(p.size());
    for (size_t i = 0; i < p.size(); ++i) products[i] = LinearCombination<F, 2>::sum(&p[i], &k[i], 1);
    std::vector<Affine<F>> affine;
    normalize(products, affine);
    store(affine, out);
  });
}

}  // namespace

void bind_pairing(nb::module_& m) {
  using namespace nb::literals;
  using Unlocked = nb::call_guard<nb::gil_scoped_release>;
  m.def("pairing_product_is_one", &pairing_product_is_one, "curve"_a, "g1"_a, "g2"_a, Unlocked());
  m.def("pairing_product", &pairing_product, "curve"_a, "g1"_a, "g2"_a, "out"_a, Unlocked());
  m.def("combine_g1", &combine_g1, "curve"_a, "points"_a, "scalars"_a, "out"_a, Unlocked());
  m.def("combine_members_g1", &combine_members_g1, "curve"_a, "points"_a, "scalars"_a, "out"_a, Unlocked());
  m.def("scale_g1", &scale_g1, "curve"_a, "points"_a, "scalars"_a, "out"_a, Unlocked());
}

}  // namespace dp
