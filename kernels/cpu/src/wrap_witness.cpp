// The wires of a wrap's circuit over BN254's scalar field from its inputs: a tape of operations.
//
// Layout: an operation is a row of eight 32-bit words. Combinations of wires are rows of terms (wire, step to the next lane,
// number of the coefficient); coefficients 0 and 1 are 1 and -1. Templates are programs of products (synthesis.h).
// Order: an operation's level is one more than those of the operations that set its wires. Levels with little work go one
// after the other on one thread; the operations of others, and all checks, go on several (batches.h).
// Bound: products of the field, of which a term takes one unless its wire is zero or one, as bits are; the transcript's
// permutations, each of which waits for the one before; and the memory of the wires.
// distprove/circuits/wrap/tape.py writes tapes, and says what each operation does.
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <type_traits>

#include "batches.h"
#include "bindings.h"
#include "curve/curves.h"
#include "hash/poseidon2_bn254.h"
#include "synthesis.h"
#include "wire_runs.h"

namespace dp {
namespace {

using Fr = Bn254::Fr;
using u128 = unsigned __int128;

constexpr u64 GOLDILOCKS = 0xFFFFFFFF00000001;
constexpr u32 WORD_BITS = 64, FIELD_BITS = 254;
constexpr size_t DIGITS = 3;

enum class Kind : u32 { MULTIPLY_ADD, INVERT, RATIO, BITS, DIVIDE, DIGITS, CHECK, PLACE };
constexpr u32 KINDS = 8;

struct Operation {
  u32 kind, lanes, first, a, b, c, count, more;
};
static_assert(sizeof(Operation) == 32, "eight words");

// Some lanes of an operation.
struct Item {
  u32 operation, lane, end;
};

// Work in units of some 5 ns, a term's: of an item that is not cut further, and of a level whose items go on one thread.
constexpr u64 PIECE = 2000, NARROW = 6000;
constexpr u64 INVERSION = 1500, DIVISION = 80, PRODUCT = 8;
constexpr size_t FINISHED = 1 << 13;  // wires that are brought to their form and place at a time

struct Integer {
  u64 w[4];
};

Integer integer_of(const Fr& x) {
  static_assert(sizeof(Fr) == sizeof(Integer), "four words");
  const Fr standard = x.from_montgomery();
  Integer n;
  std::memcpy(&n, &standard, sizeof n);
  return n;
}

Fr element_of(const Integer& n) {
  Fr x;
  std::memcpy(&x, &n, sizeof x);
  return x.to_montgomery();
}

Fr element_of(u64 word) { return element_of(Integer{{word, 0, 0, 0}}); }

bool bit(const Integer& n, u32 k) { return k < 256 && n.w[k / 64] >> (k % 64) & 1; }

// Divides n by Goldilocks' p in place, and returns the remainder.
u64 divide(Integer& n) {
  u64 rest = 0;
  for (int i = 3; i >= 0; --i) {
    const u128 both = (u128)rest << 64 | n.w[i];
    n.w[i] = (u64)(both / GOLDILOCKS);
    rest = (u64)(both % GOLDILOCKS);
  }
  return rest;
}

constexpr u32 PERMUTED = 3 * (2 * poseidon2_bn254::HALF_FULL * poseidon2_bn254::WIDTH + poseidon2_bn254::PARTIAL);

// The wires of a permutation of Poseidon2: of each power x^2, x^4 and x^5. The state is that of the first powers, with their
// constants.
void permute_onto(Fr (&s)[poseidon2_bn254::WIDTH], Fr* out) {
  using namespace poseidon2_bn254;
  const auto power = [&](Fr& x) {
    out[0] = x.sqr();
    out[1] = out[0].sqr();
    x = out[2] = out[1] * x;
    out += 3;
  };
  const auto full = [&](int round) {
    for (int i = 0; i < WIDTH; ++i) {
      if (round) s[i] = s[i] + montgomery(FULL_CONSTANTS + (round * WIDTH + i) * WORDS);
      power(s[i]);
    }
    external(s);
  };
  for (int r = 0; r < HALF_FULL; ++r) full(r);
  for (int r = 0; r < PARTIAL; ++r) {
    s[0] = s[0] + montgomery(PARTIAL_CONSTANTS + r * WORDS);
    power(s[0]);
    internal(s);
  }
  for (int r = HALF_FULL; r < 2 * HALF_FULL; ++r) full(r);
}

template <class T>
std::vector<T> copied(const InBytes& array, const char* what) {
  static_assert(std::is_trivially_copyable_v<T>, "bytes");
  std::vector<T> out(count_of(array, sizeof(T), what));
  if (!out.empty()) std::memcpy((void*)out.data(), array.data(), array.size());
  return out;
}

struct Template {
  static constexpr u32 NONE = ~0u;
  static constexpr u32 MOST_INPUTS = 1 << 20;  // a gadget has a few; what looks for permutations has an element for each

  u32 inputs, own;
  u32 permutation = NONE;  // the first own wire of a permutation that is among them
  std::vector<u32> row_ptr, columns, value_index;
  std::vector<Fr> values;

  Template(u32 inputs_, const InBytes& rows, const InBytes& wires, const InBytes& index, const InBytes& distinct)
      : inputs(inputs_),
        own(0),
        row_ptr(copied<u32>(rows, "row_ptr")),
        columns(copied<u32>(wires, "columns")),
        value_index(copied<u32>(index, "value_index")),
        values(copied<Fr>(distinct, "values")) {
    if (row_ptr.size() % 3 != 1 || row_ptr[0] != 0 || row_ptr.back() != columns.size() ||
        columns.size() != value_index.size())
      throw std::invalid_argument("a template: not three rows a wire");
    own = (u32)(row_ptr.size() / 3);
    if (own == 0 || inputs > MOST_INPUTS) throw std::invalid_argument("a template: no own wires, or too many inputs");
    for (size_t row = 0; row + 1 < row_ptr.size(); ++row) {
      if (row_ptr[row] > row_ptr[row + 1] || row_ptr[row + 1] > columns.size())
        throw std::invalid_argument("a template: rows not ascending");
      for (size_t k = row_ptr[row]; k < row_ptr[row + 1]; ++k)
        if (columns[k] > inputs + row / 3 || value_index[k] >= values.size())
          throw std::invalid_argument("a template: an entry out of range");
    }
    for (u32 first = 0; first < 2 && first + PERMUTED <= own; ++first)
      if (permutation == NONE && permutes_from(first)) permutation = first;
  }

  // Sets the own wires of an instance. Most terms of a circuit's permutations are of linear layers, which rows of products have
  // multiplied out: the permutation itself takes a tenth of the time.
  void run(Fr* wires, const Instance& at) const {
    if (permutation == NONE) return run_products(program(), own, wires, at);
    run_products(program(), permutation, wires, at);
    Fr state[poseidon2_bn254::WIDTH];
    for (u32 i = 0; i < poseidon2_bn254::WIDTH; ++i) state[i] = combination(program(), 3 * (permutation + 3 * i), wires, at);
    permute_onto(state, wires + at.own(permutation));
    for (u32 i = permutation + PERMUTED; i < own; ++i) {
      Fr made = combination(program(), 3 * i + 2, wires, at);
      if (row_ptr[3 * i] != row_ptr[3 * i + 1])
        made = made + combination(program(), 3 * i, wires, at) * combination(program(), 3 * i + 1, wires, at);
      wires[at.own(i)] = made;
    }
  }

 private:
  Products<Fr> program() const { return {row_ptr.data(), columns.data(), value_index.data(), values.data()}; }

  // Whether the own wires from this one on are a permutation's, for some inputs: each wire is a product of sums of those before
  // it, and rows of other sums have other values there.
  bool permutes_from(u32 first) const {
    std::vector<Fr> wires(1 + inputs + own), again;
    std::vector<i64> runs;
    wires[0] = Fr::one();
    for (u32 i = 1; i <= inputs; ++i) {
      wires[i] = element_of(Integer{{0x9E3779B97F4A7C15 * i, 0xBF58476D1CE4E5B9 * i, 0x94D049BB133111EB * i, i}});
      runs.insert(runs.end(), {i, 0});
    }
    const i64 own_runs[2] = {1 + (i64)inputs, own};
    const Instances where{runs.data(), own_runs, inputs, own, 1, 1};
    const Instance at(where, 0);
    run_products(program(), own, wires.data(), at);
    again = wires;
    Fr state[poseidon2_bn254::WIDTH];
    for (u32 i = 0; i < poseidon2_bn254::WIDTH; ++i) state[i] = combination(program(), 3 * (first + 3 * i), wires.data(), at);
    permute_onto(state, again.data() + at.own(first));
    return again == wires;
  }
};

class Tape {
 public:
  Tape(u32 wires, const InBytes& operations, const InBytes& rows, const InBytes& columns, const InBytes& strides,
       const InBytes& index, const InBytes& values, const InBytes& runs, nb::list templates)
      : wires_(wires),
        operations_(copied<Operation>(operations, "operations")),
        rows_(copied<u32>(rows, "rows")),
        columns_(copied<u32>(columns, "columns")),
        strides_(copied<int>(strides, "strides")),
        index_(copied<u32>(index, "index")),
        values_(copied<Fr>(values, "values")),
        runs_(copied<i64>(runs, "runs")) {
    for (nb::handle each : templates) {
      const nb::tuple t = nb::cast<nb::tuple>(each);
      templates_.emplace_back(nb::cast<u32>(t[0]), nb::cast<InBytes>(t[1]), nb::cast<InBytes>(t[2]),
                              nb::cast<InBytes>(t[3]), nb::cast<InBytes>(t[4]));
    }
    check();
    inverses_[0] = Fr::zero();
    for (size_t n = 1; n < inverses_.size(); ++n) inverses_[n] = element_of((u64)n).inverse();
    plan();
  }

  u32 wires() const { return wires_; }

  // Sets all wires that no input sets. Returns the operations whose condition does not hold, in order.
  std::vector<u32> run(Pool& pool, Fr* wires) const {
    std::vector<u32> broken;
    std::mutex found;
    batches_.run(pool, [&](size_t first, size_t last, int) {
      for (size_t i = first; i < last; ++i) {
        const Item& item = items_[i];
        bool holds = true;
        for (u32 lane = item.lane; lane < item.end; ++lane) holds &= run(operations_[item.operation], lane, wires);
        if (holds) continue;
        const std::lock_guard<std::mutex> lock(found);
        broken.push_back(item.operation);
      }
    });
    std::sort(broken.begin(), broken.end());
    broken.erase(std::unique(broken.begin(), broken.end()), broken.end());
    return broken;
  }

 private:
  // Sorts the operations into batches. Throws std::invalid_argument for an operation that sets a wire that was set, or
  // that one before it reads.
  void plan() {
    constexpr u32 READ = 1;  // by an operation before any that sets it: an input
    std::vector<u32> level(wires_, 0);  // READ + 1 + that of the operation that sets it
    std::vector<std::vector<u32>> levels;
    std::vector<u32> checks;
    for (size_t i = 0; i < operations_.size(); ++i) {
      const Operation& op = operations_[i];
      u32 own = 0;
      each_wire(op, [&](size_t wire) {
        level[wire] = std::max(level[wire], READ);
        own = std::max(own, level[wire] - READ);
      });
      if ((Kind)op.kind == Kind::CHECK) {
        checks.push_back((u32)i);
        continue;
      }
      if (own >= levels.size()) levels.resize(own + 1);
      levels[own].push_back((u32)i);
      for (size_t wire = op.first, end = wire + size_t(sets(op)) * op.lanes; wire < end; ++wire) {
        if (level[wire]) throw std::invalid_argument("operation: a wire that was set or read before");
        level[wire] = READ + 1 + own;
      }
    }
    std::vector<u32> narrow;
    for (const auto& own : levels) {
      u64 work = 0;
      for (const u32 i : own) work += work_of(operations_[i]) * operations_[i].lanes;
      if (work < NARROW) {
        narrow.insert(narrow.end(), own.begin(), own.end());
        continue;
      }
      add(narrow, ~u64(0));
      narrow.clear();
      add(own, PIECE);
    }
    add(narrow, ~u64(0));
    add(checks, PIECE);
  }

  // Adds a batch of these operations, in pieces of some work.
  void add(const std::vector<u32>& operations, u64 piece) {
    u64 work = 0;
    for (const u32 i : operations) {
      const Operation& op = operations_[i];
      const u64 own = work_of(op);
      for (u32 lane = 0; lane < op.lanes;) {
        const u32 lanes = (u32)std::min<u64>(op.lanes - lane, std::max<u64>(1, (piece - std::min(work, piece)) / own));
        items_.push_back({i, lane, lane + lanes});
        batches_.add_item();
        lane += lanes, work += own * lanes;
        if (work >= piece) batches_.end_piece(), work = 0;
      }
    }
    batches_.end_batch();
  }

  // The work of a lane.
  u64 work_of(const Operation& op) const {
    const auto terms = [&](u32 number) -> u64 { return rows_[number + 1] - rows_[number]; };
    switch ((Kind)op.kind) {
      case Kind::MULTIPLY_ADD:
        return PRODUCT + terms(op.a) + terms(op.b) + terms(op.c);
      case Kind::INVERT:
        return INVERSION + terms(op.a);
      case Kind::RATIO:
        return 2 * PRODUCT + terms(op.a) + terms(op.b);
      case Kind::BITS:
      case Kind::DIVIDE:
      case Kind::DIGITS:
        return DIVISION + terms(op.a) + op.count / 4;
      case Kind::CHECK:
        return PRODUCT + terms(op.a) + (op.a == op.b && op.a == op.c ? 0 : terms(op.b) + terms(op.c));
      case Kind::PLACE:
        return PRODUCT * (u64)templates_[op.a].own +
               (templates_[op.a].permutation == Template::NONE ? 4 * (u64)templates_[op.a].columns.size() : 0);
    }
    return 1;
  }

  // Calls back for each wire that an operation reads, of all lanes.
  template <class Call>
  void each_wire(const Operation& op, const Call& call) const {
    const auto run = [&](i64 first, i64 stride) {
      for (i64 lane = 0; lane < (stride ? (i64)op.lanes : 1); ++lane) call((size_t)(first + lane * stride));
    };
    const auto terms = [&](u32 number) {
      for (u32 k = rows_[number]; k < rows_[number + 1]; ++k) run(columns_[k], strides_[k]);
    };
    switch ((Kind)op.kind) {
      case Kind::MULTIPLY_ADD:
      case Kind::CHECK:
        terms(op.a);
        if (op.b != op.a) terms(op.b);
        if (op.c != op.a) terms(op.c);
        break;
      case Kind::RATIO:
        terms(op.a), terms(op.b);
        break;
      case Kind::INVERT:
      case Kind::BITS:
      case Kind::DIVIDE:
      case Kind::DIGITS:
        terms(op.a);
        break;
      case Kind::PLACE:
        for (u32 i = 0; i < templates_[op.a].inputs; ++i) run(runs_[2 * (op.b + i)], runs_[2 * (op.b + i) + 1]);
        break;
    }
  }

  Fr combination(u32 number, u32 lane, const Fr* wires) const {
    Fr sum = Fr::zero();
    const Fr one = Fr::one();
    for (u32 k = rows_[number]; k < rows_[number + 1]; ++k) {
      const Fr& x = wires[(i64)columns_[k] + (i64)lane * strides_[k]];
      if (x.is_zero()) continue;
      const u32 value = index_[k];
      if (value == 0) {
        sum = sum + x;
      } else if (value == 1) {
        sum = sum - x;
      } else {
        sum = sum + (x == one ? values_[value] : x * values_[value]);
      }
    }
    return sum;
  }

  // The inverse; of small integers, which ratios have as divisors, from a table.
  Fr inverse(const Fr& x) const {
    const Integer n = integer_of(x);
    return n.w[0] < inverses_.size() && !(n.w[1] | n.w[2] | n.w[3]) ? inverses_[n.w[0]] : x.inverse();
  }

  // Writes the bits 1 .. count - 1, bit k of this lane to the wire at + (k - 1) * lanes.
  static void put_bits(const Integer& n, u32 count, Fr* at, u32 lanes) {
    for (u32 k = 1; k < count; ++k) at[(size_t)(k - 1) * lanes] = bit(n, k) ? Fr::one() : Fr::zero();
  }

  bool run(const Operation& op, u32 lane, Fr* wires) const {
    Fr* const out = wires + op.first + lane;
    switch ((Kind)op.kind) {
      case Kind::MULTIPLY_ADD: {
        Fr made = combination(op.c, lane, wires);
        if (rows_[op.a] != rows_[op.a + 1]) made = made + combination(op.a, lane, wires) * combination(op.b, lane, wires);
        *out = made;
        return true;
      }
      case Kind::INVERT:
        *out = combination(op.a, lane, wires).inverse();
        return true;
      case Kind::RATIO: {
        const Fr total = combination(op.a, lane, wires);
        *out = total.is_zero() ? Fr::zero() : total * inverse(combination(op.b, lane, wires));
        return true;
      }
      case Kind::BITS:
        put_bits(integer_of(combination(op.a, lane, wires)), op.count, out, op.lanes);
        return true;
      case Kind::DIVIDE: {
        Integer n = integer_of(combination(op.a, lane, wires));
        const u64 rest = divide(n);
        *out = element_of(rest);
        put_bits(Integer{{rest, 0, 0, 0}}, WORD_BITS, out + op.lanes, op.lanes);
        put_bits(n, op.count, out + (size_t)WORD_BITS * op.lanes, op.lanes);
        return true;
      }
      case Kind::DIGITS: {
        Integer n = integer_of(combination(op.a, lane, wires));
        for (size_t k = 0; k < DIGITS; ++k) {
          const u64 digit = divide(n);
          out[k * op.lanes] = element_of(digit);
          put_bits(Integer{{digit, 0, 0, 0}}, WORD_BITS, out + (DIGITS + (WORD_BITS - 1) * k) * op.lanes, op.lanes);
        }
        return true;
      }
      case Kind::CHECK: {
        const Fr a = combination(op.a, lane, wires);
        if (op.a == op.b && op.a == op.c) return a.is_zero() || a == Fr::one();
        return a * combination(op.b, lane, wires) == combination(op.c, lane, wires);
      }
      case Kind::PLACE: {
        const Template& own = templates_[op.a];
        const i64 own_runs[2] = {op.first, own.own};
        const Instances where{runs_.data() + 2 * (size_t)op.b, own_runs, own.inputs, own.own, op.lanes, 1};
        own.run(wires, Instance(where, lane));
        return true;
      }
    }
    return false;
  }

  // Throws std::invalid_argument unless all that `run` reads and writes is there.
  void check() const {
    if (rows_.empty() || rows_[0] != 0 || rows_.back() != columns_.size() || strides_.size() != columns_.size() ||
        index_.size() != columns_.size())
      throw std::invalid_argument("combinations: arrays of other lengths");
    for (size_t row = 0; row + 1 < rows_.size(); ++row)
      if (rows_[row] > rows_[row + 1] || rows_[row + 1] > columns_.size())
        throw std::invalid_argument("combinations: not ascending");
    for (u32 value : index_)
      if (value >= values_.size()) throw std::invalid_argument("combinations: a coefficient out of range");
    for (const Operation& op : operations_) check(op);
  }

  void check(const Operation& op) const {
    if (op.kind >= KINDS || op.lanes == 0) throw std::invalid_argument("operation: of no kind");
    const i64 lanes = op.lanes;
    switch ((Kind)op.kind) {
      case Kind::MULTIPLY_ADD:
      case Kind::CHECK:
        check(op.a, lanes), check(op.b, lanes), check(op.c, lanes);
        break;
      case Kind::RATIO:
        check(op.a, lanes), check(op.b, lanes);
        break;
      case Kind::INVERT:
      case Kind::DIGITS:
        check(op.a, lanes);
        break;
      case Kind::BITS:
      case Kind::DIVIDE:
        check(op.a, lanes), check_bits(op.count);
        break;
      case Kind::PLACE: {
        if (op.a >= templates_.size()) throw std::invalid_argument("operation: no such template");
        const Template& own = templates_[op.a];
        if (2 * ((size_t)op.b + own.inputs) > runs_.size()) throw std::invalid_argument("operation: no such runs");
        for (u32 i = 0; i < own.inputs; ++i) check_run(runs_[2 * (op.b + i)], runs_[2 * (op.b + i) + 1], lanes);
        break;
      }
    }
    const i64 own = sets(op);
    if (op.first < (own > 0) || !block_inside(op.first, own, lanes, wires_))
      throw std::invalid_argument("operation: wires out of range");
  }

  // The wires that a lane of an operation sets.
  i64 sets(const Operation& op) const {
    switch ((Kind)op.kind) {
      case Kind::MULTIPLY_ADD:
      case Kind::INVERT:
      case Kind::RATIO:
        return 1;
      case Kind::BITS:
        return op.count - 1;
      case Kind::DIVIDE:
        return WORD_BITS + op.count - 1;
      case Kind::DIGITS:
        return DIGITS * WORD_BITS;
      case Kind::CHECK:
        return 0;
      case Kind::PLACE:
        return templates_[op.a].own;
    }
    return 0;
  }

  static void check_bits(u32 count) {
    if (count < 1 || count > FIELD_BITS) throw std::invalid_argument("operation: bits out of range");
  }

  void check(u32 number, i64 lanes) const {
    if ((size_t)number + 1 >= rows_.size()) throw std::invalid_argument("operation: no such combination");
    for (u32 k = rows_[number]; k < rows_[number + 1]; ++k) check_run(columns_[k], strides_[k], lanes);
  }

  void check_run(i64 first, i64 stride, i64 lanes) const {
    if (!run_inside(first, stride, lanes, wires_)) throw std::invalid_argument("operation: a wire out of range");
  }

  u32 wires_;
  std::vector<Operation> operations_;
  std::vector<u32> rows_, columns_;
  std::vector<int> strides_;
  std::vector<u32> index_;
  std::vector<Fr> values_;
  std::vector<i64> runs_;
  std::vector<Template> templates_;
  std::array<Fr, 64> inverses_;
  std::vector<Item> items_;
  Batches batches_;
};

std::vector<u32> run(const Tape& tape, Pool& pool, OutBytes wires) {
  expect(wires, (size_t)tape.wires() * sizeof(Fr), "wires");
  aligned(wires, "wires");
  nb::gil_scoped_release release;
  return tape.run(pool, reinterpret_cast<Fr*>(wires.data()));
}

// The wires as integers in the order of a witness: those with the numbers `leading`, ascending, then all others.
void finish(Pool& pool, InBytes wires, const std::vector<u32>& leading, OutBytes out) {
  const size_t count = count_of(wires, sizeof(Fr), "wires");
  expect(out, wires.size(), "out");
  aligned(wires, "wires"), aligned(out, "out");
  for (size_t i = 0; i < leading.size(); ++i)
    if (leading[i] >= count || (i && leading[i] <= leading[i - 1]))
      throw std::invalid_argument("leading: not the numbers of wires, ascending");
  const Fr* from = reinterpret_cast<const Fr*>(wires.data());
  Fr* to = reinterpret_cast<Fr*>(out.data());
  nb::gil_scoped_release release;
  pool.ranges(count, FINISHED, [&](size_t begin, size_t end) {
    size_t before = std::lower_bound(leading.begin(), leading.end(), begin) - leading.begin();
    for (size_t i = begin; i < end; ++i) {
      const bool leads = before < leading.size() && leading[before] == i;
      to[leads ? before : i - before + leading.size()] = from[i].from_montgomery();
      before += leads;
    }
  });
}

}  // namespace

void bind_wrap_witness(nb::module_& m) {
  nb::class_<Tape>(m, "WrapTape", "The witness program of a wrap's circuit, whose indices have been checked.")
      .def(nb::init<u32, const InBytes&, const InBytes&, const InBytes&, const InBytes&, const InBytes&, const InBytes&,
                    const InBytes&, nb::list>())
      .def_prop_ro("wires", &Tape::wires)
      .def("run", &run, "Sets all wires but inputs, (wires, 4) in Montgomery form; the operations that do not hold.");
  m.def("finish_wires", &finish, "The wires as integers, some first: (wires, 4) from Montgomery form.");
}

}  // namespace dp
