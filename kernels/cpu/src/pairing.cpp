// Python bindings of the pairing: they take arrays of affine points and return verdicts and points. kernels/cpu/pairing.py
// checks shapes and describes the arrays.
#include "curve/pairing.h"

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings.h"
#include "curve/glv.h"
#include "curve/linear_combination.h"
#include "towers.h"

namespace dp {
namespace {

using Rows = Array<const u64, nb::ndim<2>>;
using OutRows = Array<u64, nb::ndim<2>>;

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

bool pairing_product_is_one(const std::string& curve, const Rows& g1, const Rows& g2) {
  return with_tower(curve, [&](auto tower) {
    using Tower = decltype(tower);
    auto p = load<Affine<typename Tower::Fq>>(g1);
    auto q = load<Affine<typename Tower::Fq2>>(g2);
    if (p.size() != q.size()) throw std::invalid_argument("as many G1 as G2 points are needed");
    Miller<Tower> miller;
    for (size_t i = 0; i < p.size(); ++i) miller.push(p[i], q[i]);
    return final_exponentiation(miller.run()).is_one();
  });
}

// out: (1, point_limbs), sum(points, scalars, n)
template <class F, class Sum>
void combine(const Rows& points, const Rows& scalars, const OutRows& out, const Sum& sum) {
  auto p = load<Affine<F>>(points);
  auto k = load<Words<4>>(scalars);
  if (p.size() != k.size()) throw std::invalid_argument("as many scalars as points are needed");
  store(std::vector<Affine<F>>{sum(p.data(), k.data(), p.size()).to_affine()}, out);
}

// sum_i scalars[i] points[i]
void combine_g1(const std::string& curve, const Rows& points, const Rows& scalars, const OutRows& out) {
  with_tower(curve, [&](auto tower) {
    using F = typename decltype(tower)::Fq;
    combine<F>(points, scalars, out, LinearCombination<F, 4>::sum);
  });
}

// The same for points of order r and scalars below r
void combine_members_g1(const std::string& curve, const Rows& points, const Rows& scalars, const OutRows& out) {
  with_tower(curve, [&](auto tower) {
    using Tower = decltype(tower);
    using F = typename Tower::Fq::Inner;  // products inlined, as these sums are what proofs wait for
    combine<F>(points, scalars, out, sum_by_halves<Tower, F>);
  });
}

}  // namespace

void bind_pairing(nb::module_& m) {
  using namespace nb::literals;
  using Unlocked = nb::call_guard<nb::gil_scoped_release>;
  m.def("pairing_product_is_one", &pairing_product_is_one, "curve"_a, "g1"_a, "g2"_a, Unlocked());
  m.def("combine_g1", &combine_g1, "curve"_a, "points"_a, "scalars"_a, "out"_a, Unlocked());
  m.def("combine_members_g1", &combine_members_g1, "curve"_a, "points"_a, "scalars"_a, "out"_a, Unlocked());
}

}  // namespace dp
