// The operations of each field and group as tables of functions over plain bytes. The arithmetic is instantiated once per
// field and group, in a translation unit of its own; the bindings look a table up by name.
#pragma once
#include <cstddef>
#include <string>

#include "synthesis.h"
#include "threads.h"
#include "views.h"

namespace dp {

struct NttCall {
  size_t batch;
  int log_n;
  const u8* roots;  // roots of unity in bit-reversed order; see ntt.h
  int log_roots;    // their number, as a power of two
  bool bit_reversed_input, bit_reversed_output;
  const u8* root;   // primitive 2^log_n-th root of unity
  const u8* base;   // powers of this scale the input (forward) or the output (inverse)
  const u8* first;  // and so does this factor
  bool scale_input, scale_output;
};

struct CsrView {
  size_t rows, cols, nnz, distinct;
  const u8 *row_ptr, *columns, *value_index, *values;  // u32, u32, u32, elements
};

struct ProductsView {
  u32 own;
  const u8 *row_ptr, *columns, *value_index, *values;  // u32, u32, u32, elements
};

struct BitsView {
  ProductsView value;  // its row 0
  u32 shift;
};

struct FieldOps {
  const char* name;
  size_t bytes;
  void (*add)(Pool&, const u8* a, const u8* b, u8* out, size_t n);
  void (*sub)(Pool&, const u8* a, const u8* b, u8* out, size_t n);
  void (*mul)(Pool&, const u8* a, const u8* b, u8* out, size_t n);
  void (*mul_sub)(Pool&, const u8* a, const u8* b, const u8* c, u8* out, size_t n);
  void (*scale_powers)(Pool&, const u8* a, const u8* base, const u8* first, u8* out, size_t n);
  void (*to_montgomery)(Pool&, const u8* a, u8* out, size_t n);
  void (*from_montgomery)(Pool&, const u8* a, u8* out, size_t n);
  // Between coordinates in memory, `per` elements in Montgomery form each, and their bytes, big-endian with the last element
  // first. `from_big_endian` returns the first of n points, two coordinates each, that has a bit of `flags` in its first byte,
  // is all zero, or has an element that is not below the modulus; n if none has. It reads each byte once.
  void (*to_big_endian)(Pool&, const u8* points, size_t n, size_t per, u8* out);
  size_t (*from_big_endian)(Pool&, const u8* bytes, size_t n, size_t per, u8 flags, u8* out);
  void (*batch_inverse)(Pool&, const u8* a, u8* out, size_t n);
  void (*evaluate_columns)(const u8* a, size_t rows, size_t columns, const u8* at, u8* out);
  void (*root_table)(const u8* root, int log_n, u8* out);
  void (*ntt)(Pool&, u8* data, const NttCall& call);
  void (*spmv)(Pool&, const CsrView& matrix, const u8* x, bool standard_form, u8* out);
  // row k of out is bit k of the n integers that `a` stands for
  void (*bits)(Pool&, const u8* a, u8* out, size_t n, size_t count);
  void (*products)(Pool&, const ProductsView& program, const Instances& where, size_t instances, u8* wires);
  void (*element_bits)(Pool&, const BitsView& program, const Instances& where, size_t instances, u8* wires);
  void (*sha256)(Pool&, const Sha256Wires& block, const Instances& where, size_t instances, u8* wires);
};

struct GroupOps {
  const char *curve, *group;
  size_t point_bytes, scalar_bytes;
  // computes in `scratch`, and beyond its size in memory of its own
  void (*msm)(Pool&, const u8* points, const u8* scalars, size_t n, u8* scratch, size_t scratch_bytes, u8* out);
  // bytes of scratch that an msm of n scalars of full length takes
  size_t (*msm_scratch)(size_t n);
  void (*fixed_base)(Pool&, const u8* base, const u8* scalars, size_t n, u8* out);
  // index of the first point that is not canonical, not on the curve or (if asked) not in the subgroup; n if there is none
  size_t (*first_invalid)(Pool&, const u8* points, size_t n, bool subgroup);
  void (*add)(const u8* a, const u8* b, u8* out);
  void (*neg)(const u8* a, u8* out);
  // the sum of n XYZZ sums in `words`, each named by its first word and the exponent of its weight 2^exponent; they ascend
  void (*join)(const u64* words, const u32* terms, size_t n, u8* out);
  void (*mul)(const u8* a, const u8* k, size_t words, u8* out);
  // the sum of few points
  void (*sum)(const u8* points, size_t n, u8* out);
  // the multiples d 256^w P, for each value d of each byte w of a scalar, in this order
  void (*byte_multiples)(Pool&, const u8* point, u8* out);
  // point + scalar P by the multiples of P
  void (*add_multiple)(const u8* point, const u8* table, const u8* scalar, u8* out);
};

// Throw std::invalid_argument for an unknown name.
const FieldOps& field_ops(const std::string& name);
const GroupOps& group_ops(const std::string& curve, const std::string& group);

extern const FieldOps BN254_FR, BN254_FQ, BLS12381_FR, BLS12381_FQ;
extern const GroupOps BN254_G1, BN254_G2, BLS12381_G1, BLS12381_G2;

}  // namespace dp
