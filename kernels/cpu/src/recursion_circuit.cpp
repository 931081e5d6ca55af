#include "recursion_circuit.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>

#include "hash/poseidon2.h"

namespace dp {
namespace recursion {

namespace {

using gl::Ext;
using poseidon2::WIDTH;

constexpr size_t BITS = 64, HALF = BITS / 2;  // of a scalar
constexpr u32 MOST_LOG_LEAVES = 60;
constexpr u64 UNKNOWN = ~(u64)0;  // in place of a leaf's number
constexpr size_t AHEAD = 12;  // relations whose wires are fetched before their turn
// Groups of more than this share of all operations stay apart: a child's has some quarter, and what it absorbs far less.
constexpr size_t APART = 64;

[[noreturn]] void refuse(const char* why) { throw std::invalid_argument(std::string("a circuit: ") + why); }

void need(bool holds, const char* why) {
  if (!holds) refuse(why);
}

bool all_canonical(const std::vector<u64>& words) {
  return std::all_of(words.begin(), words.end(), [](u64 word) { return word < gl::P; });
}

}  // namespace

// Groups of operations that read each other's wires. An operation that would join two large groups, or reads from one
// that did, is in none: it comes after all groups.
class Circuit::Groups {
 public:
  static constexpr u32 SHARED = NONE, LAST = NONE - 1;  // what all may read; what comes after all groups

  explicit Groups(size_t operations) : large_(operations / APART) {}

  // The group of an operation that reads from both, of which it is the next one. `SHARED` stands for no group.
  u32 joined(u32 a, u32 b) {
    if (a == LAST || b == LAST) return LAST;
    if (a == SHARED || b == SHARED) return a == SHARED ? b : a;
    a = whole(a), b = whole(b);
    if (a == b) return a;
    if (sizes_[a] < sizes_[b]) std::swap(a, b);
    if (sizes_[b] > large_) return LAST;
    above_[b] = a;
    sizes_[a] += sizes_[b];
    return a;
  }

  u32 fresh() {
    above_.push_back((u32)above_.size());
    sizes_.push_back(0);
    return above_.back();
  }

  void count(u32 group) {
    if (group < LAST) ++sizes_[whole(group)];
  }

  // The group that a group has become a part of.
  u32 whole(u32 group) {
    if (group >= LAST) return group;
    while (above_[group] != group) group = above_[group] = above_[above_[group]];
    return group;
  }

  bool is_large(u32 group) const { return group < LAST && sizes_[group] > large_; }

 private:
  size_t large_;
  std::vector<u32> above_;
  std::vector<size_t> sizes_;
};

// Finds the level of each operation: the most permutations that precede it on any path; and its part. Checks on the way
// that each wire is written once, and before it is read.
class Circuit::Scheduler {
 public:
  explicit Scheduler(Circuit& circuit)
      : circuit_(circuit),
        tables_(circuit.tables_),
        groups_(circuit.tables_.kinds.size()),
        level_of_(circuit.wires_, NONE),
        group_of_(circuit.wires_, Groups::SHARED) {}

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
      (permutes ? permutations_ : operations_).push_back({level, group_, operation});
    }
    for (size_t kind = 0; kind < KINDS; ++kind) need(next[kind] == sizes[kind], "its kinds of operations");
    share_out();
    std::vector<Relation> relations;  // in the new order, so that they are read one after the other
    relations.reserve(t.relations.size());
    for (Part* const part : parts_)
      for (Operation& operation : part->operations) {
        if (operation.kind != Kind::RELATION) continue;
        relations.push_back(t.relations[operation.row]);
        operation.row = (u32)relations.size() - 1;
      }
    circuit_.tables_.relations = std::move(relations);
  }

 private:
  struct Placed {
    u32 level, group;
    Operation operation;
  };

  // Gives each large group a part of its own. Small ones need nothing but what all may read, and go before them.
  void share_out() {
    const auto by_level = [](const Placed& a, const Placed& b) { return a.level < b.level; };
    std::stable_sort(operations_.begin(), operations_.end(), by_level);
    std::stable_sort(permutations_.begin(), permutations_.end(), by_level);
    std::map<u32, size_t> places;  // of the large groups, in the middle
    for (std::vector<Placed>* const all : {&operations_, &permutations_})
      for (Placed& each : *all) {
        each.group = groups_.whole(each.group);
        if (groups_.is_large(each.group)) places.emplace(each.group, 0);
      }
    size_t count = 0;
    for (auto& [group, place] : places) place = count++;
    circuit_.middle_.resize(count);
    parts_ = {&circuit_.first_};
    for (Part& part : circuit_.middle_) parts_.push_back(&part);
    parts_.push_back(&circuit_.last_);
    const auto part_of = [&](u32 group) -> Part& {
      if (group == Groups::LAST) return circuit_.last_;
      const auto found = places.find(group);
      return found == places.end() ? circuit_.first_ : circuit_.middle_[found->second];
    };
    size_t operation = 0, permutation = 0;
    for (u32 level = 0; level < levels_; ++level) {
      for (; operation < operations_.size() && operations_[operation].level == level; ++operation)
        part_of(operations_[operation].group).operations.push_back(operations_[operation].operation);
      for (; permutation < permutations_.size() && permutations_[permutation].level == level; ++permutation)
        part_of(permutations_[permutation].group).permutations.push_back(permutations_[permutation].operation);
      for (Part* const part : parts_) {
        const Level before = part->levels.empty() ? Level{0, 0, 0} : part->levels.back();
        const size_t operations = part->operations.size(), permutations = part->permutations.size();
        if (operations > before.operations || permutations > before.permutations)
          part->levels.push_back({level, operations, permutations});
      }
    }
  }

  void read(u32 wire) {
    need(wire < level_of_.size() && level_of_[wire] != NONE, "a wire that is read before it is written");
    level_ = std::max(level_, level_of_[wire]);
    group_ = groups_.joined(group_, group_of_[wire]);
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
    group_ = groups_.joined(group_, tree_groups_[tree]);
  }
  void write(u32 first, u64 count, u32 later = 0) {
    need(first + count <= level_of_.size(), "a wire beyond the last");
    if (group_ == Groups::SHARED && !shared_) group_ = groups_.fresh();
    for (u64 i = 0; i < count; ++i) {
      need(level_of_[first + i] == NONE, "a wire that is written twice");
      level_of_[first + i] = level_ + later;
      group_of_[first + i] = group_;
    }
  }
  void meet(u32 digest, u32 expected) {
    if (!expected) write(digest, 1, 1);
  }

  // The level of an operation, after those of its results are set. Its group is `group_`.
  u32 place(const Operation& operation) {
    const u32 row = operation.row;
    level_ = 0;
    group_ = Groups::SHARED;
    shared_ = operation.kind == Kind::CONSTANT || operation.kind == Kind::PUBLIC;
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
        tree_groups_.resize(tables_.opened_trees.size(), Groups::SHARED);
        need(tree_levels_[opened.tree] == NONE, "a tree that is opened twice");
        tree_levels_[opened.tree] = level_;
        tree_groups_[opened.tree] = group_;
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
    groups_.count(group_);
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
  Groups groups_;
  std::vector<u32> level_of_, tree_levels_, group_of_, tree_groups_;
  std::vector<Placed> operations_, permutations_;
  std::vector<Part*> parts_;
  u32 level_ = 0, levels_ = 0, group_ = Groups::SHARED;
  bool shared_ = false;
};

// Evaluates some parts, on one thread. Several may be at work, on parts of the middle.
class Circuit::Evaluation {
 public:
  // `trees`: of the whole circuit, to be opened.
  Evaluation(const Circuit& circuit, const HashOps& hash, const Proof& proof, std::vector<OpenedNodes>& trees, u64* values,
             u64* states)
      : tables_(circuit.tables_),
        hash_(hash),
        proof_(proof),
        values_(values),
        states_(states),
        trees_(trees),
        numbers_(circuit.tables_.indices.size(), UNKNOWN) {}

  // Level by level, with the permutations of all these parts side by side.
  void run(const std::vector<const Part*>& parts) {
    std::vector<size_t> next(parts.size(), 0);  // level of each part
    for (;;) {
      u32 number = NONE;
      for (size_t i = 0; i < parts.size(); ++i)
        if (next[i] < parts[i]->levels.size()) number = std::min(number, parts[i]->levels[next[i]].number);
      if (number == NONE) return;
      waiting_.clear();
      before_.clear();
      for (size_t i = 0; i < parts.size(); ++i) {
        const Part& part = *parts[i];
        if (next[i] == part.levels.size() || part.levels[next[i]].number != number) continue;
        const Level begin = next[i] ? part.levels[next[i] - 1] : Level{0, 0, 0}, end = part.levels[next[i]++];
        for (size_t k = begin.operations; k < end.operations; ++k) apply(part.operations[k]);
        for (size_t k = begin.permutations; k < end.permutations; ++k) prepare(part.permutations[k]);
      }
      permute();
    }
  }

  struct Unfit {
    u32 operation, tree;
  };
  std::vector<Fault> faults;
  std::vector<Unfit> unfit;

 private:
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

  // Each step of a leaf's path asks for its number again.
  u64 number_of(u32 leaf) {
    u64& number = numbers_[leaf];
    if (number != UNKNOWN) return number;
    const Index& index = tables_.indices[leaf];
    number = tables_.fixed_parts[leaf];
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
        if (is_scalar(a) && a.c[0] == 0) faults.push_back({number, relation.fault});
        else put(w[1], product(gl::sub(element(w[3]), element(w[2])), inverse(a)));
        break;
      }
      case Target::NOTHING: {
        const Ext sum = gl::add(product(element(w[0]), element(w[1])), element(w[2]));
        const u64 found[WORDS] = {sum.c[0], sum.c[1], sum.c[2], 0};
        if (!equal(found, words(w[3]))) faults.push_back({number, relation.fault});
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
    if (!nodes.open(hash_, proof_.trees[opened.tree], leaves, permuted_)) unfit.push_back({number, opened.tree});
    for (u32 i = 0; i < opened.leaves; ++i)
      if (const u64* const row = nodes.row(leaves[i]))
        put_scalars(opened.first + (u64)i * opened.width, row, opened.width);
  }

  // Writes the state of a permutation or step, and lets it wait for `permute` unless its result is known.
  void prepare(const Operation& operation) {
    u64* const state = states_ + operation.state * (size_t)WIDTH;
    if (operation.kind == Kind::STEP) {
      const Step& step = tables_.steps[operation.row];
      if (const u64* const digest = fill(step, state)) {
        meet(step.out, step.expected, digest, operation.number);
        return;
      }
    } else {
      const u32* const wires = tables_.permutations[operation.row].state;
      // The words of a given root may be any.
      for (int k = 0; k < WIDTH; ++k) state[k] = gl::canonical(scalar(wires[k]));
      if (const u64* const after = permuted_.find(state)) {
        finish(tables_.permutations[operation.row], after, operation.number);
        return;
      }
    }
    before_.insert(before_.end(), state, state + WIDTH);
    waiting_.push_back(operation);
  }

  // What waits, side by side.
  void permute() {
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
        finish(tables_.permutations[operation.row], after, operation.number);
      }
    }
  }

  // Writes what a permutation gives.
  void finish(const Permutation& permutation, const u64* after, u32 number) {
    put_scalars(permutation.first, after, WIDTH);
    if (permutation.digest != NONE) meet(permutation.digest, permutation.expected, after, number);
  }

  // Writes the state of a node: its children, with the one on the path at its place. Returns the node's digest where it is
  // known from the opening, which has the same child; or null.
  const u64* fill(const Step& step, u64* state) {
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
    else if (!equal(words(wire), digest)) faults.push_back({number, NONE});
  }

  const Tables& tables_;
  const HashOps& hash_;
  const Proof& proof_;
  u64 *values_, *states_;
  std::vector<OpenedNodes>& trees_;
  std::vector<u64> numbers_;  // of the leaves, by the rows of the table of indices; or UNKNOWN
  Permuted permuted_;         // by the openings of trees
  std::vector<Operation> waiting_;
  std::vector<u64> before_, after_;
};

Circuit::Circuit(u32 wires, u32 messages, Tables tables)
    : wires_(wires), messages_(messages), tables_(std::move(tables)) {
  Scheduler(*this).run();
}

void Circuit::check(const Proof& proof) const {
  need(proof.public_count == tables_.publics.size(), "another number of public values");
  need(proof.fields.size() >= field_sizes_.size(), "a field that the proof lacks");
  for (size_t i = 0; i < field_sizes_.size(); ++i)
    need(proof.fields[i] + field_sizes_[i] <= proof.given_count, "a field with more elements than the proof's");
  need(proof.trees.size() == tables_.opened_trees.size(), "another number of trees");
  for (const OpenedTree& opened : tables_.opened_trees)
    need(proof.trees[opened.tree].width == opened.width, "a tree with rows of another width");
}

Found Circuit::evaluate(Pool& pool, const HashOps& hash, const Proof& proof, u64* values, u64* states) const {
  check(proof);
  std::vector<OpenedNodes> trees(proof.trees.size());
  std::vector<std::vector<const Part*>> shares(std::min(middle_.size(), (size_t)pool.threads()));
  for (size_t i = 0; i < middle_.size(); ++i) shares[i % shares.size()].push_back(&middle_[i]);
  std::vector<Evaluation> evaluations(shares.size() + 1, {*this, hash, proof, trees, values, states});
  Evaluation& own = evaluations.back();
  own.run({&first_});
  pool.run(shares.size(), [&](size_t i, int) { evaluations[i].run(shares[i]); });
  own.run({&last_});

  Found found;
  std::vector<Evaluation::Unfit> unfit;
  for (const Evaluation& each : evaluations) {
    found.faults.insert(found.faults.end(), each.faults.begin(), each.faults.end());
    unfit.insert(unfit.end(), each.unfit.begin(), each.unfit.end());
  }
  const auto by_operation = [](const auto& a, const auto& b) { return a.operation < b.operation; };
  std::sort(found.faults.begin(), found.faults.end(), by_operation);
  std::sort(unfit.begin(), unfit.end(), by_operation);
  for (const Evaluation::Unfit& each : unfit) found.unfit.push_back(each.tree);
  return found;
}

}  // namespace recursion
}  // namespace dp
