// Two vectors, whose operations are written one beside the other: a product is a long chain, and the CPU does not look far
// enough ahead to begin the next one before it ends. All is in an unnamed namespace, because files include it that are built
// with options that not every CPU runs (goldilocks_ntt.h).
#pragma once

namespace dp {
namespace {

template <class Vector>
struct Two {
  Vector first, second;
};

// x in the one vector, or both, of the second argument's type
template <class Vector>
Vector fill(Vector x, Vector) {
  return x;
}
template <class Vector>
Two<Vector> fill(Vector x, Two<Vector>) {
  return {x, x};
}

template <class Op, class Vector, class... More>
Vector each(Op op, Vector a, More... more) {
  return op(a, more...);
}
template <class Op, class Vector, class... More>
Two<Vector> each(Op op, Two<Vector> a, More... more) {
  return {op(a.first, more.first...), op(a.second, more.second...)};
}

// `Arithmetic` with two products side by side.
template <template <class> class Arithmetic, class Vector>
struct ProductsInTwos : Arithmetic<Vector> {
  static void products(Vector& a, Vector w, Vector& b, Vector v) {
    const Two<Vector> x = Arithmetic<Two<Vector>>::product({a, b}, {w, v});
    a = x.first, b = x.second;
  }
};

}  // namespace
}  // namespace dp
