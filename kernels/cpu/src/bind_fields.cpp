// Python bindings of the field vectors, transforms and sparse products.
#include <cstring>
#include <cstdint>

#include "bindings.h"
#include "encoded_points.h"
#include "wire_runs.h"

namespace dp {

const FieldOps& field_ops(const std::string& name) {
  for (const FieldOps* ops : {&BN254_FR, &BN254_FQ, &BLS12381_FR, &BLS12381_FQ})
    if (name == ops->name) return *ops;
  throw std::invalid_argument("unknown field " + name);
}

namespace {

// An operation on vectors of one length.
template <auto FieldOps::*op, class... Operands>
void elementwise(Pool& pool, const std::string& field, Operands... operands, OutBytes out) {
  const FieldOps& ops = field_ops(field);
  const size_t n = count_of(out, ops.bytes, "out");
  (expect(operands, out.size(), "operand"), ...);
  nb::gil_scoped_release release;
  (ops.*op)(pool, operands.data()..., out.data(), n);
}

// Of points whose coordinates have `per` elements each.
size_t count_of_points(const FieldOps& ops, size_t per, InBytes points, const OutBytes& out) {
  if (per < 1 || per > MOST_PER_COORDINATE) throw std::invalid_argument("per: one element, or two");
  expect(points, out.size(), "points");
  return count_of(points, 2 * per * ops.bytes, "points");
}

void encode_points(Pool& pool, const std::string& field, InBytes points, size_t per, OutBytes out) {
  const FieldOps& ops = field_ops(field);
  const size_t n = count_of_points(ops, per, points, out);
  nb::gil_scoped_release release;
  ops.to_big_endian(pool, points.data(), n, per, out.data());
}

size_t decode_points(Pool& pool, const std::string& field, InBytes bytes, size_t per, int flags, OutBytes out) {
  const FieldOps& ops = field_ops(field);
  const size_t n = count_of_points(ops, per, bytes, out);
  nb::gil_scoped_release release;
  return ops.from_big_endian(pool, bytes.data(), n, per, (u8)flags, out.data());
}

void scale_powers(Pool& pool, const std::string& field, InBytes a, InBytes base, InBytes first, OutBytes out) {
  const FieldOps& ops = field_ops(field);
  const size_t n = count_of(out, ops.bytes, "out");
  expect(a, out.size(), "a");
  expect(base, ops.bytes, "base");
  expect(first, ops.bytes, "first");
  nb::gil_scoped_release release;
  ops.scale_powers(pool, a.data(), base.data(), first.data(), out.data(), n);
}

void evaluate_columns(const std::string& field, InBytes a, InBytes at, OutBytes out) {
  const FieldOps& ops = field_ops(field);
  const size_t columns = count_of(out, ops.bytes, "out");
  const size_t rows = columns == 0 ? 0 : count_of(a, columns * ops.bytes, "a");
  expect(a, rows * columns * ops.bytes, "a");
  expect(at, ops.bytes, "at");
  nb::gil_scoped_release release;
  ops.evaluate_columns(a.data(), rows, columns, at.data(), out.data());
}

void root_table(const std::string& field, InBytes root, int log_n, OutBytes out) {
  const FieldOps& ops = field_ops(field);
  expect(root, ops.bytes, "root");
  if (log_n < 1 || log_n > 40) throw std::invalid_argument("log_n: out of range");
  expect(out, ops.bytes << (log_n - 1), "out");
  nb::gil_scoped_release release;
  ops.root_table(root.data(), log_n, out.data());
}

void ntt(Pool& pool, const std::string& field, OutBytes data, int log_n, InBytes roots, InBytes root, InBytes base,
         InBytes first, bool scale_input, bool scale_output, bool bit_reversed_input, bool bit_reversed_output) {
  const FieldOps& ops = field_ops(field);
  if (log_n < 0 || log_n > 40) throw std::invalid_argument("log_n: out of range");
  expect(root, ops.bytes, "root");
  expect(base, ops.bytes, "base");
  expect(first, ops.bytes, "first");
  aligned(data, "data");
  NttCall call{};
  call.batch = count_of(data, ops.bytes << log_n, "data");
  call.log_n = log_n;
  const size_t entries = count_of(roots, ops.bytes, "roots");
  while (((size_t)2 << call.log_roots) <= entries) ++call.log_roots;
  if (entries != (size_t)1 << call.log_roots) throw std::invalid_argument("roots: not a power of two");
  call.roots = roots.data();
  call.root = root.data();
  call.base = base.data();
  call.first = first.data();
  call.scale_input = scale_input;
  call.scale_output = scale_output;
  call.bit_reversed_input = bit_reversed_input;
  call.bit_reversed_output = bit_reversed_output;
  nb::gil_scoped_release release;
  ops.ntt(pool, data.data(), call);
}

// A matrix that has been checked: every index within its bounds.
struct CheckedMatrix {
  InBytes row_ptr, columns, value_index, values;
  const FieldOps* ops;
  CsrView view;
};

CheckedMatrix check_matrix(const std::string& field, size_t cols, InBytes row_ptr, InBytes columns, InBytes value_index,
                           InBytes values) {
  const FieldOps& ops = field_ops(field);
  const CsrView v = csr_view(row_ptr, columns, value_index, values, ops.bytes, cols);
  const In<u32> rows(v.row_ptr), cols_of(v.columns), index(v.value_index);
  if (rows[0] != 0 || rows[v.rows] != v.nnz) throw std::invalid_argument("row_ptr: does not span the entries");
  for (size_t i = 0; i < v.rows; ++i)
    if (rows[i] > rows[i + 1]) throw std::invalid_argument("row_ptr: not ascending");
  for (size_t k = 0; k < v.nnz; ++k)
    if (cols_of[k] >= cols || index[k] >= v.distinct) throw std::invalid_argument("entry: index out of range");
  return {std::move(row_ptr), std::move(columns), std::move(value_index), std::move(values), &ops, v};
}

void spmv(Pool& pool, const CheckedMatrix& matrix, InBytes x, bool standard_form, OutBytes out) {
  expect(x, matrix.view.cols * matrix.ops->bytes, "x");
  expect(out, matrix.view.rows * matrix.ops->bytes, "out");
  nb::gil_scoped_release release;
  matrix.ops->spmv(pool, matrix.view, x.data(), standard_form, out.data());
}

void bits(Pool& pool, const std::string& field, InBytes a, size_t count, OutBytes out) {
  const FieldOps& ops = field_ops(field);
  const size_t n = count_of(a, ops.bytes, "a");
  if (count > 8 * ops.bytes) throw std::invalid_argument("count: more bits than an element has");
  expect(out, count * a.size(), "out");
  nb::gil_scoped_release release;
  ops.bits(pool, a.data(), out.data(), n, count);
}

// What an instance computes, checked: a wire depends on those before it alone.
struct CheckedProgram {
  enum class Kind { PRODUCTS, BITS, SHA256 };
  Kind kind;
  InBytes first, second, third, values;
  const FieldOps* ops;
  u32 inputs, own, shift;

  ProductsView combinations() const { return {own, first.data(), second.data(), third.data(), values.data()}; }
};

// Throws unless these are rows of combinations, of which the first `each` have inputs alone, the next `each` the first own
// wire too, and so on. The number of rows.
size_t check_combinations(const FieldOps& ops, u32 inputs, size_t each, const InBytes& row_ptr, const InBytes& columns,
                          const InBytes& value_index, const InBytes& values) {
  const size_t ends = count_of(row_ptr, sizeof(u32), "row_ptr");
  if (ends == 0) throw std::invalid_argument("row_ptr: empty");
  const size_t nnz = count_of(columns, sizeof(u32), "columns"), distinct = count_of(values, ops.bytes, "values");
  expect(value_index, columns.size(), "value_index");
  for (const InBytes* array : {&row_ptr, &columns, &value_index, &values}) aligned(*array, "a program");
  const In<u32> begin(row_ptr.data()), column(columns.data()), index(value_index.data());
  if (begin[0] != 0 || begin[ends - 1] != nnz) throw std::invalid_argument("row_ptr: does not span the entries");
  for (size_t row = 0; row + 1 < ends; ++row) {
    if (begin[row] > begin[row + 1] || begin[row + 1] > nnz) throw std::invalid_argument("row_ptr: not ascending");
    for (size_t k = begin[row]; k < begin[row + 1]; ++k)
      if (column[k] > inputs + row / each || index[k] >= distinct) throw std::invalid_argument("entry: out of range");
  }
  return ends - 1;
}

CheckedProgram check_products(const std::string& field, u32 inputs, InBytes row_ptr, InBytes columns,
                              InBytes value_index, InBytes values) {
  const FieldOps& ops = field_ops(field);
  const size_t rows = check_combinations(ops, inputs, 3, row_ptr, columns, value_index, values);
  if (rows % 3) throw std::invalid_argument("row_ptr: not three rows a wire");
  return {CheckedProgram::Kind::PRODUCTS,
          std::move(row_ptr), std::move(columns), std::move(value_index), std::move(values), &ops, inputs, (u32)(rows / 3), 0};
}

CheckedProgram check_bits(const std::string& field, u32 inputs, InBytes row_ptr, InBytes columns, InBytes value_index,
                          InBytes values, u32 shift, u32 own) {
  const FieldOps& ops = field_ops(field);
  if (check_combinations(ops, inputs, 1, row_ptr, columns, value_index, values) != 1)
    throw std::invalid_argument("row_ptr: not one row");
  if ((u64)shift + own > 8 * ops.bytes) throw std::invalid_argument("own: more bits than an element has");
  return {CheckedProgram::Kind::BITS,
          std::move(row_ptr), std::move(columns), std::move(value_index), std::move(values), &ops, inputs, own, shift};
}

CheckedProgram check_sha256(const std::string& field, u32 inputs, InBytes sources, InBytes bits) {
  expect(sources, 768 * sizeof(int), "sources");
  const size_t own = count_of(bits, sizeof(u32), "bits");
  aligned(sources, "sources");
  aligned(bits, "bits");
  for (size_t i = 0; i < 768; ++i) {
    const int source = In<int>(sources.data())[i];
    if (source < SHA256_ONE || source >= (int)inputs) throw std::invalid_argument("sources: out of range");
  }
  for (size_t i = 0; i < own; ++i) {
    const u32 bit = In<u32>(bits.data())[i];
    if (bit >> 8 >= SHA256_KEPT || (bit >> 1 & 127) > 63) throw std::invalid_argument("bits: out of range");
  }
  return {CheckedProgram::Kind::SHA256, sources, bits, bits, bits, &field_ops(field), inputs, (u32)own, 0};
}

// Compute the own wires of all instances; `runs` and `own_runs` as in synthesis.h.
void run_program(Pool& pool, const CheckedProgram& program, InBytes runs, InBytes own_runs, u32 lanes, u32 batch,
                 OutBytes wires) {
  const size_t placements = count_of(own_runs, 2 * sizeof(i64), "own_runs");
  expect(runs, placements * program.inputs * 2 * sizeof(i64), "runs");
  if (lanes == 0 || batch == 0) throw std::invalid_argument("no lanes");
  const i64 count = (i64)count_of(wires, (size_t)batch * program.ops->bytes, "wires");
  aligned(runs, "runs");
  aligned(own_runs, "own_runs");
  aligned(wires, "wires");
  const In<i64> run(runs.data()), own(own_runs.data());
  for (size_t i = 0; i < placements * program.inputs; ++i)
    if (!run_inside(run[2 * i], run[2 * i + 1], lanes, count)) throw std::invalid_argument("runs: out of range");
  for (size_t i = 0; i < placements; ++i)
    if (own[2 * i] < 1 || !lanes_inside(own[2 * i], own[2 * i + 1], program.own, lanes, count))
      throw std::invalid_argument("own_runs: out of range");
  const Instances where{reinterpret_cast<const i64*>(runs.data()), reinterpret_cast<const i64*>(own_runs.data()),
                        program.inputs, program.own, lanes, batch};
  const size_t instances = placements * lanes * batch;
  nb::gil_scoped_release release;
  switch (program.kind) {
    case CheckedProgram::Kind::PRODUCTS:
      program.ops->products(pool, program.combinations(), where, instances, wires.data());
      break;
    case CheckedProgram::Kind::BITS:
      program.ops->element_bits(pool, {program.combinations(), program.shift}, where, instances, wires.data());
      break;
    case CheckedProgram::Kind::SHA256: {
      const Sha256Wires block{reinterpret_cast<const int*>(program.first.data()),
                              reinterpret_cast<const u32*>(program.second.data())};
      program.ops->sha256(pool, block, where, instances, wires.data());
      break;
    }
  }
}

// Pieces of half a mebibyte, some 50 us each: handing one to a thread costs a tenth of that.
void copy(Pool& pool, InBytes source, OutBytes target) {
  expect(target, source.size(), "target");
  const u8* const from = source.data();
  u8* const to = target.data();
  nb::gil_scoped_release release;
  pool.ranges(source.size(), 512 << 10, [&](size_t begin, size_t end) { std::memcpy(to + begin, from + begin, end - begin); });
}

}  // namespace

void bind_fields(nb::module_& m) {
  nb::class_<Pool>(m, "Pool", "A pool of threads; the number counts the caller.")
      .def(nb::init<int>(), nb::arg("threads"))
      .def_prop_ro("threads", &Pool::threads)
      .def(
          "run",
          [](Pool& pool, size_t count, uintptr_t function, uintptr_t context) {
            const auto call = reinterpret_cast<void (*)(void*, size_t)>(function);
            nb::gil_scoped_release release;
            pool.run(count, [&](size_t task, int) { call(reinterpret_cast<void*>(context), task); });
          },
          nb::arg("count"), nb::arg("function"), nb::arg("context"),
          "function(context, task) for every task below count, by their addresses: code that another library holds.");
  m.def("copy", &copy);
  m.def("field_add", &elementwise<&FieldOps::add, InBytes, InBytes>);
  m.def("field_sub", &elementwise<&FieldOps::sub, InBytes, InBytes>);
  m.def("field_mul", &elementwise<&FieldOps::mul, InBytes, InBytes>);
  m.def("field_mul_sub", &elementwise<&FieldOps::mul_sub, InBytes, InBytes, InBytes>);
  m.def("scale_powers", &scale_powers);
  m.def("to_montgomery", &elementwise<&FieldOps::to_montgomery, InBytes>);
  m.def("from_montgomery", &elementwise<&FieldOps::from_montgomery, InBytes>);
  m.def("to_big_endian", &encode_points);
  m.def("from_big_endian", &decode_points);
  m.def("batch_inverse", &elementwise<&FieldOps::batch_inverse, InBytes>);
  m.def("evaluate_columns", &evaluate_columns);
  m.def("root_table", &root_table);
  m.def("ntt", &ntt);
  nb::class_<CheckedMatrix>(m, "Matrix", "A CSR matrix whose indices have been checked; keeps its arrays alive.")
      .def("__init__", [](CheckedMatrix* self, const std::string& field, size_t cols, InBytes row_ptr, InBytes columns,
                          InBytes value_index, InBytes values) {
        new (self) CheckedMatrix(check_matrix(field, cols, row_ptr, columns, value_index, values));
      });
  m.def("spmv", &spmv);
  m.def("bits", &bits);
  nb::class_<CheckedProgram>(m, "Program", "What an instance of a part of a circuit computes; keeps its arrays alive.");
  m.def("products_program", &check_products);
  m.def("bits_program", &check_bits);
  m.def("sha256_program", &check_sha256);
  m.def("run_program", &run_program);
}

}  // namespace dp
