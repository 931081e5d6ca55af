// Python bindings of the circuits of the recursion; distprove/stark/recursion/evaluation.py is their face.
#include <nanobind/stl/vector.h>

#include <cstring>
#include <tuple>

#include "bindings.h"
#include "goldilocks_ops.h"
#include "hash/poseidon2.h"
#include "recursion_circuit.h"

namespace dp {

namespace {

using namespace recursion;

const HashOps& poseidon2_of(const std::string& name) {
  for (const GoldilocksOps* ops : goldilocks_ops())
    if (name == ops->name) return *ops->poseidon2;
  throw std::invalid_argument("unknown instruction set " + name);
}

// A table's rows, to be copied without the interpreter's lock: a circuit's take tens of megabytes.
template <class Row>
struct Rows {
  In32 array;
  std::vector<Row>& to;
  size_t count;

  Rows(const nb::dict& tables, const char* name, std::vector<Row>& to)
      : array(nb::cast<In32>(tables[name])), to(to), count(count_of(array, sizeof(Row) / sizeof(u32), name)) {
    static_assert(std::is_trivially_copyable_v<Row> && sizeof(Row) % sizeof(u32) == 0, "a row is words");
  }

  void copy() const {
    to.resize(count);
    if (count) std::memcpy((void*)to.data(), array.data(), count * sizeof(Row));
  }
};

std::vector<u64> words_of(const InWords& array) { return {array.data(), array.data() + array.size()}; }

void make(Circuit* self, u32 wires, u32 messages, InBytes kinds, nb::dict tables, nb::dict words) {
  Tables made;
  const std::tuple rows{
      Rows(tables, "constants", made.constants),       Rows(tables, "publics", made.publics),
      Rows(tables, "givens", made.givens),             Rows(tables, "joins", made.joins),
      Rows(tables, "relations", made.relations),       Rows(tables, "bits", made.bits),
      Rows(tables, "permutations", made.permutations), Rows(tables, "steps", made.steps),
      Rows(tables, "opened_trees", made.opened_trees), Rows(tables, "opened_nodes", made.opened_nodes),
      Rows(tables, "indices", made.indices),
  };
  made.constant_words = words_of(nb::cast<InWords>(words["constant_words"]));
  made.bases = words_of(nb::cast<InWords>(words["bases"]));
  made.fixed_parts = words_of(nb::cast<InWords>(words["fixed_parts"]));
  nb::gil_scoped_release release;
  made.kinds.assign(kinds.data(), kinds.data() + kinds.size());
  std::apply([](const auto&... each) { (each.copy(), ...); }, rows);
  new (self) Circuit(wires, messages, std::move(made));
}

// Levels, header, rows, width, path. The arrays are the caller's, and must be taken as they are: a copy would not live on.
TreeOpening opening_of(const nb::tuple& given) {
  const auto words = [&](size_t place) { return nb::cast<InWords>(given[place]); };
  const InWords header = words(1), rows = words(2), path = words(4);
  const size_t width = nb::cast<size_t>(given[3]);
  return {nb::cast<std::vector<int>>(given[0]), words_of(header), rows.data(), count_of(rows, width, "rows"), width,
          path.data(), count_of(path, poseidon2::DIGEST, "path")};
}

// Messages of the faults, and unfit trees.
nb::tuple evaluate(const Circuit& circuit, Pool& pool, const std::string& set, InWords publics, InWords given,
                   const std::vector<u64>& fields, const nb::list& trees, OutWords values, OutWords states) {
  Proof proof{publics.data(), publics.size(), given.data(), given.size(), fields, {}};
  for (const nb::handle tree : trees) proof.trees.push_back(opening_of(nb::cast<nb::tuple>(tree)));
  expect(values, circuit.wires() * WORDS, "values");
  expect(states, circuit.states() * poseidon2::WIDTH, "states");
  const HashOps& hash = poseidon2_of(set);
  u64 *const to = values.data(), *const permuted = states.data();
  Found found;
  {
    nb::gil_scoped_release release;
    found = circuit.evaluate(pool, hash, proof, to, permuted);
  }
  nb::list faults, unfit;
  for (const Fault& fault : found.faults) faults.append(fault.message);
  for (const u32 tree : found.unfit) unfit.append(tree);
  return nb::make_tuple(faults, unfit);
}

}  // namespace

void bind_recursion(nb::module_& m) {
  nb::class_<Circuit>(m, "RecursionCircuit", "A circuit of the recursion (docs/recursion.md).")
      .def("__init__", &make, nb::arg("wires"), nb::arg("messages"), nb::arg("kinds"), nb::arg("tables"), nb::arg("words"))
      .def_prop_ro("states", &Circuit::states)
      .def_prop_ro("publics", &Circuit::publics)
      .def_prop_ro("fields", &Circuit::fields)
      .def_prop_ro("parts", &Circuit::parts)
      .def("evaluate", &evaluate);
}

}  // namespace dp
