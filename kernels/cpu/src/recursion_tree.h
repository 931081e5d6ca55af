// An opening of a Merkle tree under Poseidon2 as each query's own path: the nodes that several queries share are given or
// hashed once.
#pragma once
#include <vector>

#include "hash_ops.h"
#include "views.h"

namespace dp {
namespace recursion {

// The opened rows of a tree of one matrix in ascending order of their leaves, and the nodes of the path, level by level
// from the lowest up, in ascending order.
struct TreeOpening {
  std::vector<int> levels;  // log2 of the nodes of each level, from the leaves to the root
  std::vector<u64> header;  // what a leaf hashes before its row
  const u64* rows;
  size_t row_count, width;
  const u64* path;
  size_t path_count;
};

// Permutes n states of 16 words, one after the other. `out` may be `states`.
void permute_states(const HashOps& hash, const u64* states, size_t n, u64* out);

// States that were permuted, and what became of them. A circuit hashes the rows of its openings again, from its wires.
class Permuted {
 public:
  void keep(const u64* states, size_t n, const u64* outs);

  // What a state of 16 words becomes; null where it was not kept.
  const u64* find(const u64* state) const;

 private:
  size_t slot(const u64* state) const;
  void grow(size_t entries);

  std::vector<u64> words_;   // of each entry the state, and then what became of it
  std::vector<u32> places_;  // numbers of entries by their states' hash, from 1 on: a power of two of slots, half of them free
};

class OpenedNodes {
 public:
  // Opens the leaves of these numbers, modulo the tree's. Returns whether there are exactly the rows and nodes that this
  // takes, and nodes in their one encoding; the root is not compared. Without, no row and no node is known. What is hashed
  // on the way is kept in `permuted`.
  bool open(const HashOps& hash, const TreeOpening& tree, const std::vector<u64>& leaves, Permuted& permuted);

  // The row of a leaf; null where it is not known.
  const u64* row(u64 leaf) const;

  struct Node {
    const u64 *children, *digest;  // four words each
  };

  // The node of so many children above a leaf's ancestor at the level of 2^log_size nodes; null where it is not known.
  Node above(u64 leaf, u32 log_size, size_t arity) const;

  // The node at the level of 2^log_size nodes that a leaf of this number has for an ancestor; null where it is not known.
  const u64* node(u64 leaf, u32 log_size) const;

 private:
  struct Level {
    u32 below, above;
    std::vector<u64> parents;   // ascending
    std::vector<u64> children;  // of each parent
    std::vector<u64> digests;   // of the parents
  };

  bool rise(const HashOps& hash, const TreeOpening& tree, Permuted& permuted);

  std::vector<Level> levels_;
  std::vector<u64> leaves_;  // ascending
  u64 mask_ = 0;
  size_t width_ = 0;
  const u64* rows_ = nullptr;
};

}  // namespace recursion
}  // namespace dp
