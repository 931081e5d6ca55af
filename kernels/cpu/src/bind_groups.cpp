// Python bindings of the group operations.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "bindings.h"
#include "grouped_sum.h"

namespace dp {

const GroupOps& group_ops(const std::string& curve, const std::string& group) {
  for (const GroupOps* ops : {&BN254_G1, &BN254_G2, &BLS12381_G1, &BLS12381_G2})
    if (curve == ops->curve && group == ops->group) return *ops;
  throw std::invalid_argument("unknown group " + curve + " " + group);
}

namespace {

void msm(Pool& pool, const std::string& curve, const std::string& group, InBytes points, InBytes scalars, OutBytes scratch,
         OutBytes out) {
  const GroupOps& ops = group_ops(curve, group);
  const size_t n = count_of(points, ops.point_bytes, "points");
  if (n >= MAX_ENTRY_POINTS) throw std::invalid_argument("points: too many");
  expect(scalars, n * ops.scalar_bytes, "scalars");
  expect(out, ops.point_bytes, "out");
  nb::gil_scoped_release release;
  ops.msm(pool, points.data(), scalars.data(), n, scratch.data(), scratch.size(), out.data());
}

size_t msm_scratch(const std::string& curve, const std::string& group, size_t n) {
  return group_ops(curve, group).msm_scratch(n);
}

void fixed_base(Pool& pool, const std::string& curve, const std::string& group, InBytes base, InBytes scalars,
                OutBytes out) {
  const GroupOps& ops = group_ops(curve, group);
  const size_t n = count_of(scalars, ops.scalar_bytes, "scalars");
  expect(base, ops.point_bytes, "base");
  expect(out, n * ops.point_bytes, "out");
  nb::gil_scoped_release release;
  ops.fixed_base(pool, base.data(), scalars.data(), n, out.data());
}

std::optional<size_t> first_invalid(Pool& pool, const std::string& curve, const std::string& group, InBytes points,
                                    bool subgroup) {
  const GroupOps& ops = group_ops(curve, group);
  const size_t n = count_of(points, ops.point_bytes, "points");
  nb::gil_scoped_release release;
  const size_t found = ops.first_invalid(pool, points.data(), n, subgroup);
  return found == n ? std::nullopt : std::optional<size_t>(found);
}

void point_add(const std::string& curve, const std::string& group, InBytes a, InBytes b, OutBytes out) {
  const GroupOps& ops = group_ops(curve, group);
  expect(a, ops.point_bytes, "a");
  expect(b, ops.point_bytes, "b");
  expect(out, ops.point_bytes, "out");
  ops.add(a.data(), b.data(), out.data());
}

void join_sums(const std::string& curve, const std::string& group, InBytes sums, const std::vector<u32>& exponents,
               OutBytes out) {
  const GroupOps& ops = group_ops(curve, group);
  expect(sums, 2 * ops.point_bytes * exponents.size(), "sums");
  expect(out, ops.point_bytes, "out");
  if (!std::is_sorted(exponents.begin(), exponents.end())) throw std::invalid_argument("exponents: not ascending");
  nb::gil_scoped_release release;
  ops.join(sums.data(), exponents.data(), exponents.size(), out.data());
}

void point_neg(const std::string& curve, const std::string& group, InBytes a, OutBytes out) {
  const GroupOps& ops = group_ops(curve, group);
  expect(a, ops.point_bytes, "a");
  expect(out, ops.point_bytes, "out");
  ops.neg(a.data(), out.data());
}

void point_mul(const std::string& curve, const std::string& group, InBytes a, InBytes k, OutBytes out) {
  const GroupOps& ops = group_ops(curve, group);
  expect(a, ops.point_bytes, "a");
  expect(out, ops.point_bytes, "out");
  const size_t words = count_of(k, sizeof(u64), "k");
  nb::gil_scoped_release release;
  ops.mul(a.data(), k.data(), words, out.data());
}

// out: a point for each row of points, of which all have as many
void point_sums(Pool& pool, const std::string& curve, const std::string& group, InBytes points, OutBytes out) {
  const GroupOps& ops = group_ops(curve, group);
  const size_t n = count_of(points, ops.point_bytes, "points"), rows = count_of(out, ops.point_bytes, "out");
  if (n >= MAX_ENTRY_POINTS) throw std::invalid_argument("points: too many");
  if (rows == 0 || n % rows) throw std::invalid_argument("points: not as many in each row");
  nb::gil_scoped_release release;
  ops.sums(pool, points.data(), n / rows, rows, out.data());
}

}  // namespace

void bind_groups(nb::module_& m) {
  m.def("msm", &msm);
  m.def("msm_scratch", &msm_scratch);
  m.def("fixed_base", &fixed_base);
  m.def("first_invalid", &first_invalid);
  m.def("point_add", &point_add);
  m.def("join_sums", &join_sums);
  m.def("point_neg", &point_neg);
  m.def("point_mul", &point_mul);
  m.def("point_sums", &point_sums);
}

}  // namespace dp
