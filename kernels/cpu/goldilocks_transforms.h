// Low-degree extensions over Goldilocks and Keccak-256 trees on the CPU. Layouts are those of kernels/goldilocks.py.
#pragma once
#include <cstddef>
#include <vector>

#include "field/goldilocks.h"
#include "threads.h"

namespace dp {
namespace transforms {

// (width, n) values on shift_in * <w_n>, natural order, to (width, 2^log_blowup, n).
void lde(Pool& pool, const u64* in, u64* out, size_t width, int log_n, int log_blowup, u64 coset);

// Rows of a (width, cosets, arity * rows) matrix as a tree's leaves see them; see `commit` in kernels/goldilocks.py.
struct LeafMatrix {
  const u64* data;
  size_t width;
};

// digests (cosets, rows, 32 bytes) of the leaves over matrices of one height.
void hash_leaves(Pool& pool, const std::vector<LeafMatrix>& matrices, size_t cosets, size_t rows, size_t arity, u64* digests);

// One level up: `below` holds `groups` runs of `below_rows` digests, and node j of a run has the children j and
// j + below_rows / 2. `injected`, if any, are leaf digests that enter here, one per node.
void hash_level(Pool& pool, const u64* below, const u64* injected, u64* out, size_t groups, size_t below_rows);

// Keccak-256 of each of `count` messages of `size` bytes.
void hash_rows(Pool& pool, const unsigned char* in, size_t count, size_t size, unsigned char* out);

// The least nonce whose digest begins with `bits` zero bits.
u64 grind(Pool& pool, const unsigned char* seed, int bits);

}  // namespace transforms
}  // namespace dp
