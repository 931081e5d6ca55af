// The table of one group's operations.
#pragma once
#include "checks.h"
#include "fixed_base.h"
#include "msm.h"
#include "ops.h"

namespace dp {

// F: the coordinates' field; Called: the same by the tower's type, whose operations are calls, for the point checks
template <class Tower, class F, class Called>
GroupOps make_group_ops(const char* curve, const char* group) {
  using Fr = typename Tower::Fr;
  using Point = Affine<F>;
  GroupOps ops{};
  ops.curve = curve;
  ops.group = group;
  ops.point_bytes = sizeof(Point);
  ops.scalar_bytes = sizeof(Fr);
  ops.msm = [](Pool& pool, const u8* points, const u8* scalars, size_t n, u8* scratch, size_t scratch_bytes, u8* out) {
    Out<Point>(out).put(0, Msm<Fr, F>(pool, points, scalars, scratch, scratch_bytes).run(n).to_affine());
  };
  ops.msm_scratch = [](size_t n) { return Msm<Fr, F>::scratch_bytes(n); };
  ops.fixed_base = [](Pool& pool, const u8* base, const u8* scalars, size_t n, u8* out) {
    FixedBase<Fr, F>(pool, In<Point>(base)[0], n).run(scalars, n, out);
  };
  ops.first_invalid = [](Pool& pool, const u8* points, size_t n, bool subgroup) {
    return first_invalid<Tower, Called>(pool, points, n, subgroup);
  };
  ops.add = [](const u8* a, const u8* b, u8* out) {
    Out<Point>(out).put(0, XYZZ<F>::from_affine(In<Point>(a)[0]).add(In<Point>(b)[0]).to_affine());
  };
  ops.neg = [](const u8* a, u8* out) { Out<Point>(out).put(0, In<Point>(a)[0].neg()); };
  ops.join = [](const u8* sums, const u32* exponents, size_t n, u8* out) {
    const In<XYZZ<F>> in(sums);
    XYZZ<F> r = XYZZ<F>::infinity();
    for (size_t i = n; i-- > 0;) {
      r = r.add(in[i]);
      for (u32 k = exponents[i] - (i ? exponents[i - 1] : 0); k > 0; --k) r = r.dbl();
    }
    Out<Point>(out).put(0, r.to_affine());
  };
  ops.mul = [](const u8* a, const u8* k, size_t words, u8* out) {
    const XYZZ<F> p = XYZZ<F>::from_affine(In<Point>(a)[0]);
    XYZZ<F> r = XYZZ<F>::infinity();
    for (size_t i = words; i-- > 0;) {
      const u64 word = In<u64>(k)[i];
      for (int bit = 63; bit >= 0; --bit) {
        r = r.dbl();
        if ((word >> bit) & 1) r = r.add(p);
      }
    }
    Out<Point>(out).put(0, r.to_affine());
  };
  ops.sums = [](Pool& pool, const u8* points, size_t n, size_t rows, u8* out) {
    std::vector<u32> entries(n * rows);
    for (size_t i = 0; i < entries.size(); ++i) entries[i] = make_entry(i, false);
    std::vector<size_t> offsets(rows + 1);
    for (size_t i = 0; i <= rows; ++i) offsets[i] = n * i;
    std::vector<Point> totals(rows);
    GroupedSum<F>(pool).run(In<Point>(points), entries.data(), offsets.data(), rows, totals.data());
    for (size_t i = 0; i < rows; ++i) Out<Point>(out).put(i, totals[i]);
  };
  return ops;
}

}  // namespace dp
