// Two vectors, whose operations are written one beside the other: a butterfly is a long chain, and the CPU does not look far
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

// `Arithmetic` with the butterflies that goldilocks_ntt.h wants, on two pairs side by side.
template <template <class> class Arithmetic, class Vector>
struct ButterfliesInTwos : Arithmetic<Vector> {
  static void joins(Vector& a, Vector& b, Vector w, Vector& c, Vector& d, Vector v) {
    pair(&Arithmetic<Two<Vector>>::join, a, b, w, c, d, v);
  }
  static void splits(Vector& a, Vector& b, Vector w, Vector& c, Vector& d, Vector v) {
    pair(&Arithmetic<Two<Vector>>::split, a, b, w, c, d, v);
  }

 private:
  template <class Butterfly>
  static void pair(Butterfly both, Vector& a, Vector& b, Vector w, Vector& c, Vector& d, Vector v) {
    Two<Vector> x{a, c}, y{b, d};
    both(x, y, {w, v});
    a = x.first, b = y.first, c = x.second, d = y.second;
  }
};

}  // namespace
}  // namespace dp
