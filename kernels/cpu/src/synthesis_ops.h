// Witnesses of parts of a circuit that are placed many times (synthesis.h), an instance to a task.
#pragma once
#include "ops.h"

namespace dp {

template <class F>
void bits(Pool& pool, const u8* a, u8* out, size_t n, size_t count) {
  pool.ranges(n, 16, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const F x = In<F>(a)[i].from_montgomery();
      for (size_t k = 0; k < count; ++k) Out<F>(out).put(k * n + i, bit_of(x, (u32)k) ? F::one() : F::zero());
    }
  });
}

// The arrays are aligned: they are not a mapped file's.
template <class F>
Products<F> products_of(const ProductsView& view) {
  const auto words = [](const u8* p) { return reinterpret_cast<const u32*>(p); };
  return {words(view.row_ptr), words(view.columns), words(view.value_index), reinterpret_cast<const F*>(view.values)};
}

template <class F>
void element_bits(Pool& pool, const BitsView& view, const Instances& where, size_t instances, u8* wires) {
  const BitsOf<F> program{products_of<F>(view.value), view.shift};
  pool.ranges(instances, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      run_bits(program, where.own, reinterpret_cast<F*>(wires), Instance(where, i));
  });
}

template <class F>
void products(Pool& pool, const ProductsView& view, const Instances& where, size_t instances, u8* wires) {
  const Products<F> program = products_of<F>(view);
  pool.ranges(instances, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      run_products(program, view.own, reinterpret_cast<F*>(wires), Instance(where, i));
  });
}

template <class F>
void sha256_blocks(Pool& pool, const Sha256Wires& block, const Instances& where, size_t instances, u8* wires) {
  F* const all = reinterpret_cast<F*>(wires);
  pool.ranges(instances, 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const Instance at(where, i);
      u32 words[24];
      u64 kept[SHA256_KEPT];
      for (int word = 0; word < 24; ++word) words[word] = sha256_word(block, word, all, at);
      sha256_compress(words, kept);
      for (u32 k = 0; k < where.own; ++k) all[at.own(k)] = sha256_bit(kept, block.bits[k]) ? F::one() : F::zero();
    }
  });
}

}  // namespace dp
