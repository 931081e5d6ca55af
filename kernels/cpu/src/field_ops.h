// The table of one field's operations.
#pragma once
#include "encoded_points.h"
#include "ntt.h"
#include "ops.h"
#include "spmv.h"
#include "synthesis_ops.h"
#include "vectors.h"

namespace dp {

template <class F>
FieldOps make_field_ops(const char* name) {
  FieldOps ops{};
  ops.name = name;
  ops.bytes = sizeof(F);
  ops.add = [](Pool& p, const u8* a, const u8* b, u8* out, size_t n) {
    map2<F>(p, a, b, out, n, [](F x, F y) { return x + y; });
  };
  ops.sub = [](Pool& p, const u8* a, const u8* b, u8* out, size_t n) {
    map2<F>(p, a, b, out, n, [](F x, F y) { return x - y; });
  };
  ops.mul = [](Pool& p, const u8* a, const u8* b, u8* out, size_t n) {
    map2<F>(p, a, b, out, n, [](F x, F y) { return x * y; });
  };
  ops.mul_sub = [](Pool& p, const u8* a, const u8* b, const u8* c, u8* out, size_t n) {
    map3<F>(p, a, b, c, out, n, [](F x, F y, F z) { return x * y - z; });
  };
  ops.scale_powers = [](Pool& p, const u8* a, const u8* base, const u8* first, u8* out, size_t n) {
    scale_powers<F>(p, a, In<F>(base)[0], In<F>(first)[0], out, n, false);
  };
  ops.to_montgomery = [](Pool& p, const u8* a, u8* out, size_t n) {
    map1<F>(p, a, out, n, [](F x) { return x.to_montgomery(); });
  };
  ops.from_montgomery = [](Pool& p, const u8* a, u8* out, size_t n) {
    map1<F>(p, a, out, n, [](F x) { return x.from_montgomery(); });
  };
  ops.to_big_endian = [](Pool& p, const u8* points, size_t n, size_t per, u8* out) {
    to_big_endian<F>(p, points, n, per, out);
  };
  ops.from_big_endian = [](Pool& p, const u8* bytes, size_t n, size_t per, u8 flags, u8* out) {
    return from_big_endian<F>(p, bytes, n, per, flags, out);
  };
  ops.batch_inverse = [](Pool& p, const u8* a, u8* out, size_t n) { batch_inverse<F>(p, a, out, n); };
  ops.evaluate_columns = [](const u8* a, size_t rows, size_t columns, const u8* at, u8* out) {
    evaluate_columns<F>(a, rows, columns, In<F>(at)[0], out);
  };
  ops.root_table = [](const u8* root, int log_n, u8* out) { root_table<F>(In<F>(root)[0], log_n, out); };
  ops.ntt = [](Pool& p, u8* data, const NttCall& call) { ntt<F>(p, data, call); };
  ops.spmv = [](Pool& p, const CsrView& m, const u8* x, bool standard, u8* out) { spmv<F>(p, m, x, standard, out); };
  ops.bits = [](Pool& p, const u8* a, u8* out, size_t n, size_t count) { bits<F>(p, a, out, n, count); };
  ops.products = [](Pool& p, const ProductsView& program, const Instances& where, size_t instances, u8* wires) {
    products<F>(p, program, where, instances, wires);
  };
  ops.element_bits = [](Pool& p, const BitsView& program, const Instances& where, size_t instances, u8* wires) {
    element_bits<F>(p, program, where, instances, wires);
  };
  ops.sha256 = [](Pool& p, const Sha256Wires& block, const Instances& where, size_t instances, u8* wires) {
    sha256_blocks<F>(p, block, where, instances, wires);
  };
  return ops;
}

}  // namespace dp
