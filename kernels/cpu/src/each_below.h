// A loop whose counter is a constant of each turn. In an unnamed namespace, because files include it that are built with
// options that not every CPU runs (goldilocks_ntt.h).
#pragma once
#include <utility>

namespace dp {
namespace {

template <int N>
using Constant = std::integral_constant<int, N>;

template <class Body, int... I>
__attribute__((always_inline)) inline void calls(Body body, std::integer_sequence<int, I...>) {
  (body(Constant<I>{}), ...);
}

// body(0) ... body(N - 1), numbers as types
template <int N, class Body>
__attribute__((always_inline)) inline void each_below(Body body) {
  calls(body, std::make_integer_sequence<int, N>{});
}

}  // namespace
}  // namespace dp
