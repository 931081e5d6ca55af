// The product of a sparse matrix and points, for every group, and its Python binding.
#include "sparse_points.h"

#include "bindings.h"
#include "curve/curves.h"

namespace dp {

namespace {

using SparsePoints = void (*)(Pool&, const CsrView&, const u8*, u8*);

SparsePoints find(const std::string& curve, const std::string& group) {
  const bool g2 = group == "g2";
  if (curve == BN254_G1.curve) return g2 ? &sparse_points<Fp2<Bn254::Fq>, Bn254::Fr> : &sparse_points<Bn254::Fq, Bn254::Fr>;
  return g2 ? &sparse_points<Fp2<Bls12381::Fq>, Bls12381::Fr> : &sparse_points<Bls12381::Fq, Bls12381::Fr>;
}

void bound(Pool& pool, const std::string& curve, const std::string& group, InBytes row_ptr, InBytes columns,
           InBytes value_index, InBytes values, InBytes points, OutBytes out) {
  const GroupOps& ops = group_ops(curve, group);
  const size_t cols = count_of(points, ops.point_bytes, "points");
  const CsrView m = csr_view(row_ptr, columns, value_index, values, ops.scalar_bytes, cols);
  expect(out, m.rows * ops.point_bytes, "out");
  nb::gil_scoped_release release;
  find(curve, group)(pool, m, points.data(), out.data());
}

}  // namespace

void bind_sparse_points(nb::module_& m) { m.def("sparse_points", &bound); }

}  // namespace dp
