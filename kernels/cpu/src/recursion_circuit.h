// A circuit of the recursion (distprove/stark/recursion/circuit.py) as tables, and the values of its wires from a proof.
//
// Layout: a table is an array of rows of 32-bit words, one for each operation of a kind, in the order of the circuit. A
// wire is four elements of F_p; values lie wire after wire.
// Order: operations are sorted by the number of permutations that precede them on any path. Permutations of one number
// do not depend on each other and run side by side in the lanes of HashOps::permute. Other operations keep their order.
// Threads: the children of a node have nothing in common but constants and public values until their results meet. So
// there is a part for each child, and one before and one after them.
// Bound: by the permutations, and by the loads of wires for relations, which are fetched ahead. The steps of a path mostly
// take their digest from the opened tree, whose nodes are hashed once for all queries.
#pragma once
#include <vector>

#include "hash_ops.h"
#include "recursion_tree.h"
#include "threads.h"
#include "views.h"

namespace dp {
namespace recursion {

constexpr u32 NONE = ~(u32)0;  // in place of a wire
constexpr size_t WORDS = 4;    // of a wire

enum class Kind : u8 { CONSTANT, PUBLIC, GIVEN, JOIN, RELATION, BITS, PERMUTATION, STEP, OPENED_TREE, OPENED_NODE };
constexpr size_t KINDS = 10;

enum class Target : u32 { NOTHING, B, C, D };  // the wire that a relation writes, by its number

struct Constant {
  u32 out;
};
struct Public {
  u32 out;
};
// Parts: consecutive scalars, from a field of the proof; of a row or node of a tree where there is no field.
struct Given {
  u32 first, count, out, field, place;
};
struct Join {
  u32 count, parts[WORDS], out;
};
struct Relation {
  u32 wires[4];
  Target target;
  u32 fault;
};
// Wires from `first` on: the halves and the bits. `power` may be NONE.
struct Bits {
  u32 of, first, exponent_bits, power;
};
struct Permutation {
  u32 state[16], first, digest, expected;
};
struct Step {
  u32 child, position[2], out, expected, tree, leaf, log_size;
};
// Leaves are rows of the table of indices.
struct OpenedTree {
  u32 tree, first_leaf, leaves, first, width;
};
struct OpenedNode {
  u32 tree, leaf, log_size, flipped, first;
};
// A leaf's number: that of consecutive bits, plus a fixed one.
struct Index {
  u32 first, count;
};

struct Tables {
  std::vector<u8> kinds;  // of the operations, each the next row of its kind's table
  std::vector<Constant> constants;
  std::vector<Public> publics;
  std::vector<Given> givens;
  std::vector<Join> joins;
  std::vector<Relation> relations;
  std::vector<Bits> bits;
  std::vector<Permutation> permutations;
  std::vector<Step> steps;
  std::vector<OpenedTree> opened_trees;
  std::vector<OpenedNode> opened_nodes;
  std::vector<Index> indices;
  std::vector<u64> constant_words;  // four of each
  std::vector<u64> bases;           // of the powers
  std::vector<u64> fixed_parts;     // of the indices
};

// What a proof gives. All elements are canonical.
struct Proof {
  const u64* publics;
  size_t public_count;
  const u64* given;
  size_t given_count;
  std::vector<u64> fields;  // where each begins in `given`
  std::vector<TreeOpening> trees;
};

struct Fault {
  u32 operation;
  u32 message;  // NONE: an opening that does not match its commitment
};

struct Found {
  std::vector<Fault> faults;  // in the order of the operations
  std::vector<u32> unfit;     // trees whose openings have other rows or nodes than the indices need, in the same order
};

class Circuit {
 public:
  // `messages`: the number of the faults that relations name. Throws std::invalid_argument for tables that are no circuit.
  Circuit(u32 wires, u32 messages, Tables tables);

  u32 wires() const { return wires_; }
  size_t publics() const { return tables_.publics.size(); }
  size_t fields() const { return field_sizes_.size(); }  // up to the last that is read
  size_t states() const { return tables_.permutations.size() + tables_.steps.size(); }
  size_t parts() const { return middle_.size(); }  // that may run at once

  // Computes `values`, four words of each wire, all zero before, and `states`, 16 words of each permutation and step in
  // the order of the operations. Throws std::invalid_argument for a proof with fewer elements or trees than the circuit
  // reads.
  Found evaluate(Pool& pool, const HashOps& hash, const Proof& proof, u64* values, u64* states) const;

 private:
  struct Operation {
    u32 number, row;  // of the circuit, of the kind's table
    u32 state;        // for a permutation or step
    Kind kind;
  };
  struct Level {
    u32 number;
    size_t operations, permutations;  // where they end
  };
  struct Part {
    std::vector<Operation> operations, permutations;
    std::vector<Level> levels;  // ascending; those without operations are left out
  };
  class Groups;
  class Scheduler;
  class Evaluation;

  void check(const Proof& proof) const;

  u32 wires_, messages_;
  Tables tables_;
  // Parts of the middle read nothing of each other, and nothing of the last part.
  Part first_, last_;
  std::vector<Part> middle_;
  std::vector<u64> field_sizes_;  // how many elements of each field are read
};

}  // namespace recursion
}  // namespace dp
