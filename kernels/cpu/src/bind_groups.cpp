// Python bindings of the group operations.
#include <nanobind/stl/optional.h>

#include <optional>

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

// The program says of each point its group (0 or 1), the number of its terms and their words and exponents, as `join` has
// them. The points lie behind each other in `out`.
void join_sums(const std::string& curve, InWords words, In32 program, OutWords out) {
  const GroupOps* groups[] = {&group_ops(curve, "g1"), &group_ops(curve, "g2")};
  size_t used = 0;
  for (size_t at = 0; at < program.size();) {  // checked as a whole before anything is computed
    if (at + 2 > program.size() || program.data()[at] > 1) throw std::invalid_argument("program: not a point");
    const GroupOps& ops = *groups[program.data()[at]];
    const u32 *terms = program.data() + at + 2, n = terms[-1];
    if ((program.size() - at - 2) / 2 < n) throw std::invalid_argument("program: too short");
    for (u32 i = 0; i < n; ++i) {
      if (terms[2 * i] + 2 * ops.point_bytes / sizeof(u64) > words.size()) throw std::invalid_argument("words: too few");
      if (i && terms[2 * i + 1] < terms[2 * i - 1]) throw std::invalid_argument("exponents: not ascending");
    }
    used += ops.point_bytes / sizeof(u64);
    at += 2 + 2 * (size_t)n;
  }
  if (out.size() != used) throw std::invalid_argument("out: wrong length");
  nb::gil_scoped_release release;
  u64* point = out.data();
  for (size_t at = 0; at < program.size();) {
    const GroupOps& ops = *groups[program.data()[at]];
    const u32 n = program.data()[at + 1];
    ops.join(words.data(), program.data() + at + 2, n, reinterpret_cast<u8*>(point));
    point += ops.point_bytes / sizeof(u64);
    at += 2 + 2 * (size_t)n;
  }
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

// Of few points, in some microseconds: keeps the interpreter's lock, which another thread might hold for longer.
void point_sum(const std::string& curve, const std::string& group, InBytes points, OutBytes out) {
  const GroupOps& ops = group_ops(curve, group);
  const size_t n = count_of(points, ops.point_bytes, "points");
  expect(out, ops.point_bytes, "out");
  ops.sum(points.data(), n, out.data());
}

void byte_multiples(const std::string& curve, const std::string& group, InBytes point, OutBytes out) {
  const GroupOps& ops = group_ops(curve, group);
  expect(point, ops.point_bytes, "point");
  expect(out, 256 * ops.scalar_bytes * ops.point_bytes, "out");
  nb::gil_scoped_release release;
  Pool pool(1);
  ops.byte_multiples(pool, point.data(), out.data());
}

void add_multiple(const std::string& curve, const std::string& group, InBytes point, InBytes table, InBytes scalar,
                  OutBytes out) {
  const GroupOps& ops = group_ops(curve, group);
  expect(point, ops.point_bytes, "point");
  expect(scalar, ops.scalar_bytes, "scalar");
  expect(table, 256 * ops.scalar_bytes * ops.point_bytes, "table");
  expect(out, ops.point_bytes, "out");
  nb::gil_scoped_release release;
  ops.add_multiple(point.data(), table.data(), scalar.data(), out.data());
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
  m.def("point_sum", &point_sum);
  m.def("byte_multiples", &byte_multiples);
  m.def("add_multiple", &add_multiple);
}

}  // namespace dp
