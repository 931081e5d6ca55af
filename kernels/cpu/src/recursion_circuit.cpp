#include "recursion_circuit.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "hash/poseidon2.h"

namespace dp {
namespace recursion {

namespace {

using gl::Ext;
using poseidon2::WIDTH;

constexpr size_t BITS = 64, HALF = BITS / 2;  // of a scalar
constexpr u32 MOST_LOG_LEAVES = 60;
constexpr size_t AHEAD = 12;  // relations whose wires are fetched before their turn

[[noreturn]] void refuse(const char* why) { throw std::invalid_argument(std::string("a circuit: ") + why); }

void need(bool holds, const char* why) {
  if (!holds) refuse(why);
}

bool all_canonical(const std::vector<u64>& words) {
  return std::all_of(words.begin(), words.end(), [](u64 word) { return word < gl::P; });
}

}  // namespace

// Finds the level of each operation: the most permutations that precede it on any path. Checks on the way that each wire
// is written once, and before it is read.
class Circuit::Scheduler {
 public:
  explicit Scheduler(Circuit& circuit) : circuit_(circuit), tables_(circuit.tables_), level_of_(circuit.wires_, NONE) {}

  void run() {
    const Tables& t = tables_;
    size_t next[KINDS] = {}, states = 0;
    const size_t sizes[KINDS] = {t.constants.size(), t.publics.size(),      t.givens.size(), t.joins.size(),
                                 t.relations.size(), t.bits.size(),         t.permutations.size(),
                                 t.steps.size(),     t.opened_trees.size(), t.opened_nodes.size()};
    need(t.constant_words.size() == WORDS * t.constants.size() && all_canonical(t.constant_words), "its constants");
    need(t.bases.size() == t.bits.size() && all_canonical(t.bases), "its powers");
    need(t.fixed_parts.size() == t.indices.size(), "its indices");
    for (size_t number = 0; number < t.kinds.size(); ++number) {
      const u8 kind = t.kinds[number];
      need(kind < KINDS && next[kind] < sizes[kind], "its kinds of operations");
      Operation operation{(u32)number, (u32)next[kind]++, 0, (Kind)kind};
      const u32 level = place(operation);
      const bool permutes = operation.kind == Kind::PERMUTATION || operation.kind == Kind::STEP;
      if (permutes) operation.state = (u32)states++;
      (permutes ? permutations_ : operations_).push_back({level, operation});
    }
    for (size_t kind = 0; kind < KINDS; ++kind) need(next[kind] == sizes[kind], "its kinds of operations");
    circuit_.operations_ = sorted(operations_);
    std::vector<Relation> relations;  // in the new order, so that they are read one after the other
    relations.reserve(t.relations.size());
    for (Operation& operation : circuit_.operations_) {
      if (operation.kind != Kind::RELATION) continue;
      relations.push_back(t.relations[operation.row]);
      operation.row = (u32)relations.size() - 1;
    }
    circuit_.tables_.relations = std::move(relations);
    circuit_.permutations_ = sorted(permutations_);
    circuit_.levels_.resize(levels_);
    for (const auto& [level, operation] : operations_) ++circuit_.levels_[level].operations;
    for (const auto& [level, operation] : permutations_) ++circuit_.levels_[level].permutations;
    Level end{0, 0};
    for (Level& level : circuit_.levels_)
      end = level = {end.operations + level.operations, end.permutations + level.permutations};
  }

 private:
  using Placed = std::pair<u32, Operation>;

  static std::vector<Operation> sorted(std::vector<Placed>& placed) {
    std::stable_sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) { return a.first < b.first; });
    std::vector<Operation> out;
    out.reserve(placed.size());
    for (const Placed& each : placed) out.push_back(each.second);
    return out;
  }

  void read(u32 wire) {
    need(wire < level_of_.size() && level_of_[wire] != NONE, "a wire that is read before it is written");
    level_ = std::max(level_, level_of_[wire]);
  }
  void read(u32 first, u64 count) {
    need(first + count <= level_of_.size(), "a wire beyond the last");
    for (u64 i = 0; i < count; ++i) read((u32)(first + i));
  }
  void read_leaf(u32 leaf) {
    need(leaf < tables_.indices.size() && tables_.indices[leaf].count <= MOST_LOG_LEAVES, "a leaf");
    read(tables_.indices[leaf].first, tables_.indices[leaf].count);
  }
  void read_tree(u32 tree) {
    need(tree < tree_levels_.size() && tree_levels_[tree] != NONE, "a tree that is read before it is opened");
    level_ = std::max(level_, tree_levels_[tree]);
  }
  void write(u32 first, u64 count, u32 later = 0) {
    need(first + count <= level_of_.size(), "a wire beyond the last");
    for (u64 i = 0; i < count; ++i) {
      need(level_of_[first + i] == NONE, "a wire that is written twice");
      level_of_[first + i] = level_ + later;
    }
  }
  void meet(u32 digest, u32 expected) {
    if (!expected) write(digest, 1, 1);
  }

  // The level of an operation, after those of its results are set.
  u32 place(const Operation& operation) {
    const u32 row = operation.row;
    level_ = 0;
    switch (operation.kind) {
      case Kind::CONSTANT: write(tables_.constants[row].out, 1); break;
      case Kind::PUBLIC: write(tables_.publics[row].out, 1); break;
      case Kind::GIVEN: given(tables_.givens[row]); break;
      case Kind::JOIN: {
        const Join& join = tables_.joins[row];
        need(join.count <= WORDS, "a join");
        for (u32 i = 0; i < join.count; ++i) read(join.parts[i]);
        write(join.out, 1);
        break;
      }
      case Kind::RELATION: {
        const Relation& relation = tables_.relations[row];
        need(relation.target <= Target::D, "the wire that a relation writes");
        need(relation.fault < circuit_.messages_ || relation.target >= Target::C, "a message");
        const u32 target = (u32)relation.target;  // 0 is no target: no relation writes its first wire
        for (u32 i = 0; i < 4; ++i)
          if (i == 0 || i != target) read(relation.wires[i]);
        if (target) write(relation.wires[target], 1);
        break;
      }
      case Kind::BITS: {
        const Bits& bits = tables_.bits[row];
        read(bits.of);
        write(bits.first, 2 + BITS);
        need(bits.exponent_bits < BITS, "an exponent");
        if (bits.power != NONE) write(bits.power, 1);
        break;
      }
      case Kind::PERMUTATION: {
        const Permutation& permutation = tables_.permutations[row];
        for (const u32 wire : permutation.state) read(wire);
        if (permutation.expected) read(permutation.digest);
        write(permutation.first, WIDTH, 1);
        if (permutation.digest != NONE) meet(permutation.digest, permutation.expected);
        break;
      }
      case Kind::STEP: {
        const Step& step = tables_.steps[row];
        read(step.child);
        read(step.position[0]);
        if (step.position[1] != NONE) read(step.position[1]);
        read_leaf(step.leaf);
        read_tree(step.tree);
        if (step.expected) read(step.out);
        meet(step.out, step.expected);
        break;
      }
      case Kind::OPENED_TREE: {
        const OpenedTree& opened = tables_.opened_trees[row];
        need((u64)opened.first_leaf + opened.leaves <= tables_.indices.size(), "the leaves of a tree");
        for (u32 i = 0; i < opened.leaves; ++i) read_leaf(opened.first_leaf + i);
        write(opened.first, (u64)opened.leaves * opened.width);
        need(opened.tree < tables_.opened_trees.size(), "the number of a tree");
        tree_levels_.resize(tables_.opened_trees.size(), NONE);
        need(tree_levels_[opened.tree] == NONE, "a tree that is opened twice");
        tree_levels_[opened.tree] = level_;
        break;
      }
      case Kind::OPENED_NODE: {
        const OpenedNode& opened = tables_.opened_nodes[row];
        read_leaf(opened.leaf);
        read_tree(opened.tree);
        need(opened.log_size <= MOST_LOG_LEAVES && opened.flipped < BITS, "a node of a tree");
        write(opened.first, WORDS);
        break;
      }
    }
    levels_ = std::max(levels_, level_ + 1);
    return level_;
  }

  void given(const Given& given) {
    need(given.count <= WORDS, "a given element");
    if (given.field == NONE) {
      read(given.first, given.count);
    } else {
      write(given.first, given.count);
      if (circuit_.field_sizes_.size() <= given.field) circuit_.field_sizes_.resize((size_t)given.field + 1, 0);
      u64& size = circuit_.field_sizes_[given.field];
      size = std::max(size, (u64)given.place + given.count);
    }
    if (given.out != NONE) write(given.out, 1);
  }

  Circuit& circuit_;
  const Tables& tables_;
  std::vector<u32> level_of_, tree_levels_;
  std::vector<Placed> operations_, permutations_;
  u32 level_ = 0, levels_ = 0;
};

class Circuit::Evaluation {
 public:
  Evaluation(const Circuit& circuit, const HashOps& hash, const Proof& proof, u64* values, u64* states)
      : circuit_(circuit), tables_(circuit.tables_), hash_(hash), proof_(proof), values_(values), states_(states) {
    need(proof.public_count == tables_.publics.size(), "another number of public values");
    need(proof.fields.size() >= circuit.field_sizes_.size(), "a field that the proof lacks");
    for (size_t i = 0; i < circuit.field_sizes_.size(); ++i)
      need(proof.fields[i] + circuit.field_sizes_[i] <= proof.given_count, "a field with more elements than the proof's");
    need(proof.trees.size() == tables_.opened_trees.size(), "another number of trees");
    for (const OpenedTree& opened : tables_.opened_trees)
      need(proof.trees[opened.tree].width == opened.width, "a tree with rows of another width");
    trees_.resize(proof.trees.size());
  }

  Found run() {
    size_t operation = 0, permutation = 0;
    for (const Level& level : circuit_.levels_) {
      for (; operation < level.operations; ++operation) apply(circuit_.operations_[operation]);
      permute(permutation, level.permutations);
      permutation = level.permutations;
    }
    const auto by_operation = [](const auto& a, const auto& b) { return a.operation < b.operation; };
    std::sort(faults_.begin(), faults_.end(), by_operation);
    std::sort(unfit_.begin(), unfit_.end(), by_operation);
    Found found{std::move(faults_), {}};
    for (const Unfit& each : unfit_) found.unfit.push_back(each.tree);
    return found;
  }

 private:
  struct Unfit {
    u32 operation, tree;
  };

  u64* words(u64 wire) const { return values_ + wire * WORDS; }
  u64 scalar(u64 wire) const { return words(wire)[0]; }
  Ext element(u32 wire) const {
    const u64* const w = words(wire);
    return {{w[0], w[1], w[2]}};
  }
  void put(u32 wire, const Ext& x) const { std::memcpy(words(wire), x.c, sizeof(x.c)); }
  void put_scalars(u64 first, const u64* from, size_t count) const {
    for (size_t i = 0; i < count; ++i) words(first + i)[0] = from[i];
  }

  u64 number_of(u32 leaf) const {
    const Index& index = tables_.indices[leaf];
    u64 number = tables_.fixed_parts[leaf];
    for (u32 i = 0; i < index.count; ++i) number += scalar((u64)index.first + i) << i;
    return number;
  }

  static bool is_scalar(const Ext& x) { return (x.c[1] | x.c[2]) == 0; }
  // Most factors are scalars.
  static Ext product(const Ext& a, const Ext& b) {
    if (is_scalar(b)) return gl::mul(a, b.c[0]);
    return is_scalar(a) ? gl::mul(b, a.c[0]) : gl::mul(a, b);
  }
  static bool equal(const u64* a, const u64* b) { return std::memcmp(a, b, WORDS * sizeof(u64)) == 0; }

  void apply(const Operation& operation) {
    const u32 row = operation.row;
    switch (operation.kind) {
      case Kind::RELATION:
        prefetch(row + AHEAD);
        relate(tables_.relations[row], operation.number);
        break;
      case Kind::CONSTANT:
        std::memcpy(words(tables_.constants[row].out), &tables_.constant_words[row * WORDS], WORDS * sizeof(u64));
        break;
      case Kind::PUBLIC: words(tables_.publics[row].out)[0] = proof_.publics[row]; break;
      case Kind::GIVEN: {
        const Given& given = tables_.givens[row];
        if (given.field != NONE)
          put_scalars(given.first, proof_.given + proof_.fields[given.field] + given.place, given.count);
        if (given.out != NONE)
          for (u32 i = 0; i < given.count; ++i) words(given.out)[i] = scalar((u64)given.first + i);
        break;
      }
      case Kind::JOIN: {
        const Join& join = tables_.joins[row];
        for (u32 i = 0; i < join.count; ++i) words(join.out)[i] = scalar(join.parts[i]);
        break;
      }
      case Kind::BITS: decompose(tables_.bits[row], tables_.bases[row]); break;
      case Kind::OPENED_TREE: open(tables_.opened_trees[row], operation.number); break;
      case Kind::OPENED_NODE: {
        const OpenedNode& opened = tables_.opened_nodes[row];
        const u64 number = number_of(opened.leaf) ^ (u64)1 << opened.flipped;
        if (const u64* const node = trees_[opened.tree].node(number, opened.log_size))
          put_scalars(opened.first, node, WORDS);
        break;
      }
      case Kind::PERMUTATION: case Kind::STEP: break;  // `permute`
    }
  }

  void prefetch(size_t row) const {
    if (row >= tables_.relations.size()) return;
    for (const u32 wire : tables_.relations[row].wires) __builtin_prefetch(words(wire));
  }

  void relate(const Relation& relation, u32 number) {
    const u32* const w = relation.wires;
    switch (relation.target) {
      case Target::D: put(w[3], gl::add(product(element(w[0]), element(w[1])), element(w[2]))); break;
      case Target::C: put(w[2], gl::sub(element(w[3]), product(element(w[0]), element(w[1])))); break;
      case Target::B: {
        const Ext a = element(w[0]);
        if (is_scalar(a) && a.c[0] == 0) faults_.push_back({number, relation.fault});
        else put(w[1], product(gl::sub(element(w[3]), element(w[2])), inverse(a)));
        break;
      }
      case Target::NOTHING: {
        const Ext sum = gl::add(product(element(w[0]), element(w[1])), element(w[2]));
        const u64 found[WORDS] = {sum.c[0], sum.c[1], sum.c[2], 0};
        if (!equal(found, words(w[3]))) faults_.push_back({number, relation.fault});
        break;
      }
    }
  }

  static Ext inverse(const Ext& a) { return is_scalar(a) ? gl::embed(gl::inverse(a.c[0])) : gl::inverse(a); }

  void decompose(const Bits& bits, u64 base) {
    const u64 x = scalar(bits.of), first = bits.first;
    words(first)[0] = (u32)x;
    words(first + 1)[0] = x >> HALF;
    for (size_t i = 0; i < BITS; ++i) words(first + 2 + i)[0] = x >> i & 1;
    if (bits.power != NONE) words(bits.power)[0] = gl::pow(base, x & (((u64)1 << bits.exponent_bits) - 1));
  }

  void open(const OpenedTree& opened, u32 number) {
    std::vector<u64> leaves(opened.leaves);
    for (u32 i = 0; i < opened.leaves; ++i) leaves[i] = number_of(opened.first_leaf + i);
    OpenedNodes& nodes = trees_[opened.tree];
    if (!nodes.open(hash_, proof_.trees[opened.tree], leaves)) unfit_.push_back({number, opened.tree});
    for (u32 i = 0; i < opened.leaves; ++i)
      if (const u64* const row = nodes.row(leaves[i]))
        put_scalars(opened.first + (u64)i * opened.width, row, opened.width);
  }

  // The permutations and steps of a level, from `begin` on.
  void permute(size_t begin, size_t end) {
    waiting_.clear();
    before_.resize((end - begin) * WIDTH);
    for (size_t i = begin; i < end; ++i) {
      const Operation& operation = circuit_.permutations_[i];
      u64* const state = states_ + operation.state * (size_t)WIDTH;
      if (operation.kind == Kind::STEP) {
        const Step& step = tables_.steps[operation.row];
        if (const u64* const digest = fill(step, state)) {
          meet(step.out, step.expected, digest, operation.number);
          continue;
        }
      } else {
        const u32* const wires = tables_.permutations[operation.row].state;
        // The words of a given root may be any.
        for (int k = 0; k < WIDTH; ++k) state[k] = gl::canonical(scalar(wires[k]));
      }
      std::memcpy(&before_[waiting_.size() * WIDTH], state, WIDTH * sizeof(u64));
      waiting_.push_back(operation);
    }
    after_.resize(before_.size());
    permute_states(hash_, before_.data(), waiting_.size(), after_.data());
    for (size_t i = 0; i < waiting_.size(); ++i) {
      const Operation& operation = waiting_[i];
      const u64 *const before = &before_[i * WIDTH], *const after = &after_[i * WIDTH];
      if (operation.kind == Kind::STEP) {
        const Step& step = tables_.steps[operation.row];
        u64 digest[WORDS];
        for (size_t k = 0; k < WORDS; ++k) digest[k] = gl::add(before[k], after[k]);
        meet(step.out, step.expected, digest, operation.number);
      } else {
        const Permutation& permutation = tables_.permutations[operation.row];
        put_scalars(permutation.first, after, WIDTH);
        if (permutation.digest != NONE) meet(permutation.digest, permutation.expected, after, operation.number);
      }
    }
  }

  // Writes the state of a node: its children, with the one on the path at its place. Returns the node's digest where it is
  // known from the opening, which has the same child; or null.
  const u64* fill(const Step& step, u64* state) const {
    const bool binary = step.position[1] == NONE;
    const size_t arity = binary ? 2 : 4;
    const OpenedNodes::Node node = trees_[step.tree].above(number_of(step.leaf), step.log_size, arity);
    std::fill(state, state + WIDTH, 0);
    if (node.children) std::memcpy(state, node.children, arity * WORDS * sizeof(u64));
    if (binary) state[2 * WORDS] = poseidon2::NODE_TAG;
    size_t at = scalar(step.position[0]) & 1;
    if (!binary) at |= (scalar(step.position[1]) & 1) << 1;
    u64* const child = state + at * WORDS;
    if (node.children && equal(child, words(step.child))) return node.digest;
    std::memcpy(child, words(step.child), WORDS * sizeof(u64));
    return nullptr;
  }

  // Writes a digest, or compares it with the expected one.
  void meet(u32 wire, u32 expected, const u64* digest, u32 number) {
    if (!expected) std::memcpy(words(wire), digest, WORDS * sizeof(u64));
    else if (!equal(words(wire), digest)) faults_.push_back({number, NONE});
  }

  const Circuit& circuit_;
  const Tables& tables_;
  const HashOps& hash_;
  const Proof& proof_;
  u64 *values_, *states_;
  std::vector<OpenedNodes> trees_;
  std::vector<Operation> waiting_;
  std::vector<u64> before_, after_;
  std::vector<Fault> faults_;
  std::vector<Unfit> unfit_;
};

Circuit::Circuit(u32 wires, u32 messages, Tables tables)
    : wires_(wires), messages_(messages), tables_(std::move(tables)) {
  Scheduler(*this).run();
}

Found Circuit::evaluate(const HashOps& hash, const Proof& proof, u64* values, u64* states) const {
  return Evaluation(*this, hash, proof, values, states).run();
}

}  // namespace recursion
}  // namespace dp
