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
  ops.join = [](const u64* words, const u32* terms, size_t n, u8* out) {
    XYZZ<F> r = XYZZ<F>::infinity();
    for (size_t i = n; i-- > 0;) {
      r = r.add(In<XYZZ<F>>(reinterpret_cast<const u8*>(words + terms[2 * i]))[0]);
      for (u32 k = terms[2 * i + 1] - (i ? terms[2 * i - 1] : 0); k > 0; --k) r = r.dbl();
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
  ops.sum = [](const u8* points, size_t n, u8* out) {
    XYZZ<F> r = XYZZ<F>::infinity();
    for (size_t i = 0; i < n; ++i) r = r.add(In<Point>(points)[i]);
    Out<Point>(out).put(0, r.to_affine());
  };
  ops.add_multiple = [](const u8* point, const u8* table, const u8* scalar, u8* out) {
    XYZZ<F> r = XYZZ<F>::from_affine(In<Point>(point)[0]);
    for (size_t w = 0; w < sizeof(Fr); ++w)
      if (scalar[w]) r = r.add(In<Point>(table)[256 * w + scalar[w]]);
    Out<Point>(out).put(0, r.to_affine());
  };
  ops.byte_multiples = [](Pool& pool, const u8* point, u8* out) {
    const std::vector<Point> table = FixedBase<Fr, F>::multiples(pool, In<Point>(point)[0], 8, sizeof(Fr));
    for (size_t i = 0; i < table.size(); ++i) Out<Point>(out).put(i, table[i]);
  };
  return ops;
}

}  // namespace dp
