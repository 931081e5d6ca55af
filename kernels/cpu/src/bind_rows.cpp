// Python bindings of the row-by-row operations over Goldilocks. kernels/cpu/goldilocks/rows.py has checked shapes and
// types; the functions check lengths again, because they hold pointers.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>

#include "bindings.h"
#include "goldilocks_rows.h"

namespace dp {

namespace {

using rows::Ext;
using rows::Matrix;
using rows::RowCode;

using InArray = Array<const u64>;
using OutArray = Array<u64>;
using Code = Array<const std::int32_t, nb::ndim<2>>;

constexpr int MAX_LOG = gl::TWO_ADICITY;

void require(bool good, const char* what) {
  if (!good) throw std::invalid_argument(what);
}

int log2_of(size_t n, const char* what) {
  int log = 0;
  while (log < MAX_LOG && (size_t)1 << log < n) ++log;
  require(n == (size_t)1 << log, what);
  return log;
}

Ext ext(const InArray& a, const char* what) {
  require(a.size() == 3, what);
  const Ext e = {{a.data()[0], a.data()[1], a.data()[2]}};
  for (u64 c : e.c) require(c < gl::P, what);
  return e;
}

std::vector<Matrix> matrices_of(const std::vector<InArray>& arrays) {
  std::vector<Matrix> all;
  for (const InArray& a : arrays) {
    require(a.ndim() == 3, "matrix: not (width, cosets, n)");
    all.push_back({a.data(), a.shape(0), a.shape(1), a.shape(2)});
  }
  return all;
}

// What the object holds by reference is kept alive by the binding.
struct Rows {
  Rows(Pool& pool, const std::string& name) : ops(pool, rows::kernels_named(name.c_str())) {}
  rows::RowOps ops;
};

RowCode make_code(const std::vector<u32>& widths, Code code, const std::vector<u64>& constants, size_t scalars,
                  const std::vector<u32>& outputs, std::optional<size_t> fold) {
  require(code.shape(1) == 4, "code: not (instructions, 4)");
  nb::gil_scoped_release release;
  return RowCode({widths, code.data(), code.shape(0), constants, scalars, outputs, fold.has_value(), fold.value_or(0)});
}

void evaluate(const Rows& self, const RowCode& code, const std::vector<InArray>& inputs, InArray scalars,
              std::optional<InArray> factors, OutArray out) {
  require(out.ndim() == 3 && out.shape(0) == code.output_columns(), "out: wrong shape");
  const size_t cosets = out.shape(1), n = out.shape(2);
  log2_of(n, "out: the height is not a power of two");
  require(cosets > 0, "out: no cosets");
  const std::vector<Matrix> matrices = matrices_of(inputs);
  require(matrices.size() == code.widths().size(), "inputs: wrong number");
  for (size_t i = 0; i < matrices.size(); ++i) {
    require(matrices[i].width == code.widths()[i], "inputs: wrong width");
    require(matrices[i].width == 0 || (matrices[i].n == n && matrices[i].cosets % cosets == 0 && matrices[i].cosets > 0),
            "inputs: wrong shape");
  }
  require(scalars.size() == 3 * code.scalars(), "scalars: wrong length");
  std::vector<Ext> values(code.scalars());
  std::copy_n(scalars.data(), scalars.size(), values.empty() ? nullptr : values[0].c);
  if (factors) require(factors->size() == cosets, "factors: wrong length");
  nb::gil_scoped_release release;
  self.ops.evaluate(code, matrices, values.data(), cosets, n, factors ? factors->data() : nullptr, out.data());
}

void divide(const Rows& self, InArray a, InArray b, OutArray out) {
  require(out.ndim() == 2 && out.shape(0) % 3 == 0, "out: not (3 m, n)");
  log2_of(out.shape(1), "out: the height is not a power of two");
  require(a.size() == out.size() && b.size() == out.size(), "operands: wrong length");
  nb::gil_scoped_release release;
  self.ops.divide(a.data(), b.data(), out.data(), out.shape(0) / 3, out.shape(1));
}

void selectors(const Rows& self, int log_n, int log_blowup, int log_cosets, OutArray out) {
  require(0 <= log_n && 0 <= log_blowup && log_n <= MAX_LOG && log_blowup <= MAX_LOG - log_n && 0 <= log_cosets &&
              log_cosets <= log_blowup,
          "selectors: out of range");
  require(out.size() == (size_t)3 << (log_n + log_cosets), "out: wrong length");
  nb::gil_scoped_release release;
  self.ops.selectors(log_n, log_blowup, log_cosets, out.data());
}

void running_sum(const Rows& self, InArray terms, OutArray sums, OutArray total) {
  require(terms.ndim() == 2 && terms.shape(0) % 3 == 0, "terms: not (3 m, n)");
  const size_t n = terms.shape(1);
  log2_of(n, "terms: the height is not a power of two");
  require(sums.size() == 3 * n && total.size() == 3, "out: wrong length");
  nb::gil_scoped_release release;
  const Ext sum = self.ops.running_sum(terms.data(), terms.shape(0) / 3, n, sums.data());
  std::copy_n(sum.c, 3, total.data());
}

void evaluate_at(const Rows& self, const std::vector<InArray>& arrays, InArray point, bool next_row, OutArray out) {
  const std::vector<Matrix> matrices = matrices_of(arrays);
  size_t columns = 0;
  for (const Matrix& m : matrices) {
    require(m.n == matrices[0].n && m.cosets > 0, "matrices: of different heights");
    columns += m.width;
  }
  if (!matrices.empty()) log2_of(matrices[0].n, "matrices: the height is not a power of two");
  require(out.size() == columns * (next_row ? 6 : 3), "out: wrong length");
  const Ext at = ext(point, "point: not an extension element");
  nb::gil_scoped_release release;
  self.ops.evaluate_at(matrices, at, next_row, out.data());
}

void combine(const Rows& self, const std::vector<InArray>& arrays, InArray weights, OutArray out) {
  require(out.ndim() == 2 && out.shape(0) == 3, "out: not (3, n)");
  const size_t n = out.shape(1);
  log2_of(n, "out: the height is not a power of two");
  const std::vector<Matrix> matrices = matrices_of(arrays);
  size_t columns = 0;
  for (const Matrix& m : matrices) {
    require(m.n == n && m.cosets > 0, "matrices: wrong shape");
    columns += m.width;
  }
  require(weights.size() == 3 * columns, "weights: wrong length");
  nb::gil_scoped_release release;
  self.ops.combine(matrices, weights.data(), n, out.data());
}

// openings: (index of a group, point, weights, value)
using OpeningArgs = std::tuple<size_t, InArray, InArray, InArray>;

void deep(const Rows& self, const std::vector<std::vector<InArray>>& groups, const std::vector<OpeningArgs>& openings,
          OutArray out) {
  require(out.ndim() == 3 && out.shape(0) == 3, "out: not (3, B, n)");
  const size_t blowup = out.shape(1), n = out.shape(2);
  require(log2_of(n, "out: the height is not a power of two") + log2_of(blowup, "out: the blow-up is not a power of two") <=
              MAX_LOG,
          "out: too large");
  std::vector<std::vector<Matrix>> matrices;
  std::vector<size_t> widths;
  for (const std::vector<InArray>& group : groups) {
    matrices.push_back(matrices_of(group));
    widths.push_back(0);
    for (const Matrix& m : matrices.back()) {
      require((m.cosets == blowup || blowup == 1) && m.n == n, "matrices: wrong shape");  // or of coset 0 alone
      widths.back() += m.width;
    }
  }
  std::vector<rows::RowOps::Opening> points;
  for (const auto& [group, point, weights, value] : openings) {
    require(group < groups.size() && weights.size() == 3 * widths[group], "weights: wrong length");
    points.push_back({ext(point, "point: not an extension element"), ext(value, "value: not an extension element"), group,
                      weights.data()});
  }
  nb::gil_scoped_release release;
  self.ops.deep(matrices, points, blowup, n, out.data());
}

void fold(const Rows& self, InArray codeword, int log_arity, InArray beta, std::optional<InArray> add, OutArray out) {
  require(codeword.ndim() == 3 && codeword.shape(0) == 3, "codeword: not (3, B, n)");
  const int log_blowup = log2_of(codeword.shape(1), "codeword: the blow-up is not a power of two");
  const int log_n = log2_of(codeword.shape(2), "codeword: the height is not a power of two");
  require(log_blowup + log_n <= MAX_LOG, "codeword: too large");
  require(0 <= log_arity && log_arity <= rows::MAX_LOG_ARITY && log_arity <= log_n, "arity: out of range");
  require(out.size() == codeword.size() >> log_arity, "out: wrong length");
  if (add) require(add->size() == out.size(), "add: wrong length");
  const Ext at = ext(beta, "beta: not an extension element");
  nb::gil_scoped_release release;
  self.ops.fold(codeword.data(), log_blowup, log_n, log_arity, at, add ? add->data() : nullptr, out.data());
}

}  // namespace

void bind_rows(nb::module_& m) {
  nb::class_<RowCode>(m, "RowCode", "A row program ready to run.")
      .def("__init__",
           [](RowCode* self, const std::vector<u32>& widths, Code code, const std::vector<u64>& constants, size_t scalars,
              const std::vector<u32>& outputs, std::optional<size_t> fold) {
             new (self) RowCode(make_code(widths, code, constants, scalars, outputs, fold));
           },
           nb::arg("widths"), nb::arg("code"), nb::arg("constants"), nb::arg("scalars"), nb::arg("outputs"),
           nb::arg("fold").none())
      .def_prop_ro("slots", &RowCode::slots)
      .def_prop_ro("steps", [](const RowCode& self) { return self.steps().size(); });
  nb::class_<Rows>(m, "Rows", "What is computed row by row, on a pool's threads, with the kernels of a name.")
      .def(nb::init<Pool&, const std::string&>(), nb::arg("pool"), nb::arg("kernels"), nb::keep_alive<1, 2>())
      .def("evaluate", &evaluate, nb::arg("code"), nb::arg("inputs"), nb::arg("scalars"), nb::arg("factors").none(),
           nb::arg("out"))
      .def("divide", &divide)
      .def("selectors", &selectors)
      .def("running_sum", &running_sum)
      .def("evaluate_at", &evaluate_at)
      .def("combine", &combine)
      .def("deep", &deep)
      .def("fold", &fold, nb::arg("codeword"), nb::arg("log_arity"), nb::arg("beta"), nb::arg("add").none(), nb::arg("out"));
  m.def("row_kernels", [] {
    std::vector<std::string> names;
    for (const rows::Kernels* kernels : rows::all_kernels()) names.push_back(kernels->name);
    return names;
  });
}

}  // namespace dp
