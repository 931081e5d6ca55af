// Python bindings of inner products of points and of the target group. kernels/cpu/inner_products.py and target_group.py
// check shapes and describe the arrays.
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <vector>

#include "bindings.h"
#include "curve/linear_combination.h"
#include "curve/target_group.h"
#include "field/root.h"
#include "towers.h"

namespace dp {
namespace {

constexpr size_t PAIRS = 32;    // most of one Miller loop, which share its squarings
constexpr size_t POINTS = 32;   // most that share an inversion
constexpr size_t ELEMENTS = 8;  // of the target group, likewise

// How many of n items are done together: at most so many, and fewer where threads would be idle.
size_t together(size_t n, size_t most, const Pool& pool) {
  return pool.threads() == 1 ? most : std::clamp<size_t>(n / (2 * pool.threads()), 1, most);
}

// out: for each product its element of Fp12. Product k is of the pairs from ends[k - 1] to ends[k].
void pairing_products(Pool& pool, const std::string& curve, InBytes g1, InBytes g2, const std::vector<size_t>& ends,
                      OutBytes out) {
  with_tower(curve, [&](auto tower) {
    using Tower = decltype(tower);
    using P = Affine<typename Tower::Fq>;
    using Q = Affine<typename Tower::Fq2>;
    using F12 = Fp12<Tower>;
    const size_t n = count_of(g1, sizeof(P), "g1");
    expect(g2, n * sizeof(Q), "g2");
    expect(out, ends.size() * sizeof(F12), "out");
    struct Chunk {
      size_t product, begin, end;
    };
    std::vector<Chunk> chunks;
    const size_t pairs = together(n, PAIRS, pool);
    for (size_t k = 0, begin = 0; k < ends.size(); ++k) {
      if (ends[k] < begin || ends[k] > n) throw std::invalid_argument("ends: not ascending, or beyond the pairs");
      for (; begin < ends[k]; begin = chunks.back().end) chunks.push_back({k, begin, std::min(begin + pairs, ends[k])});
    }
    const u8 *ps = g1.data(), *qs = g2.data();
    u8* to = out.data();
    nb::gil_scoped_release release;
    std::vector<F12> values(chunks.size());
    pool.run(chunks.size(), [&](size_t i, int) {
      Miller<Tower> miller;
      for (size_t j = chunks[i].begin; j < chunks[i].end; ++j) miller.push(In<P>(ps)[j], In<Q>(qs)[j]);
      values[i] = miller.run();
    });
    pool.run(ends.size(), [&](size_t k, int) {
      F12 f = F12::one();
      for (size_t i = 0; i < chunks.size(); ++i)
        if (chunks[i].product == k) f = f * values[i];
      Out<F12>(to).put(k, final_exponentiation(f));
    });
  });
}

// out: the final exponentiation of each value of Miller loops
void final_exponentiations(Pool& pool, const std::string& curve, InBytes values, OutBytes out) {
  with_tower(curve, [&](auto tower) {
    using F12 = Fp12<decltype(tower)>;
    const size_t n = count_of(values, sizeof(F12), "values");
    expect(out, n * sizeof(F12), "out");
    const u8* from = values.data();
    u8* to = out.data();
    nb::gil_scoped_release release;
    pool.run(n, [&](size_t i, int) { Out<F12>(to).put(i, final_exponentiation(In<F12>(from)[i])); });
  });
}

// The struct Constants of cuda/src/miller.cu
nb::bytes miller_constants(const std::string& curve) {
  return with_tower(curve, [](auto tower) {
    using Tower = decltype(tower);
    struct {
      typename Tower::Fq2 b3, psi_x, psi_y;
      LoopDigits digits;
      u32 padding[2];
    } const all{Miller<Tower>::b3(), Psi<Tower>::get().x, Psi<Tower>::get().y, Miller<Tower>::DIGITS, {}};
    return nb::bytes(reinterpret_cast<const char*>(&all), sizeof all);
  });
}

// out: addends[i] + scalars[i] points[i]. No addends are zeros; one scalar is that of all.
template <class F>
void multiply_add(Pool& pool, InBytes addends, InBytes points, InBytes scalars, OutBytes out) {
  using P = Affine<F>;
  const size_t n = count_of(points, sizeof(P), "points"), given = count_of(scalars, sizeof(Words<4>), "scalars");
  if (given != 1) expect(scalars, n * sizeof(Words<4>), "scalars");
  if (addends.size()) expect(addends, n * sizeof(P), "addends");
  expect(out, n * sizeof(P), "out");
  const bool adds = addends.size() != 0;
  const u8 *as = addends.data(), *ps = points.data(), *ks = scalars.data();
  u8* to = out.data();
  nb::gil_scoped_release release;
  const size_t each = together(n, POINTS, pool);
  pool.run((n + each - 1) / each, [&](size_t block, int) {
    const size_t first = block * each, count = std::min(each, n - first);
    std::vector<XYZZ<F>> sums(count);
    for (size_t i = 0; i < count; ++i) {
      const P p = In<P>(ps)[first + i];
      const Words<4> k = In<Words<4>>(ks)[given == 1 ? 0 : first + i];
      sums[i] = LinearCombination<F, 4>::sum(&p, &k, 1);
      if (adds) sums[i] = sums[i].add(In<P>(as)[first + i]);
    }
    std::vector<P> affine;
    normalize(sums, affine);
    for (size_t i = 0; i < count; ++i) Out<P>(to).put(first + i, affine[i]);
  });
}

void points_multiply_add(Pool& pool, const std::string& curve, const std::string& group, InBytes addends, InBytes points,
                         InBytes scalars, OutBytes out) {
  with_tower(curve, [&](auto tower) {
    using Tower = decltype(tower);
    if (group == "g1") return multiply_add<typename Tower::Fq>(pool, addends, points, scalars, out);
    if (group == "g2") return multiply_add<typename Tower::Fq2>(pool, addends, points, scalars, out);
    throw std::invalid_argument("unknown group " + group);
  });
}

// out: for each abscissa a point of the curve. Returns the index of the first that has none, or their number.
template <class F, class Called>
size_t lift(InBytes xs, const Called& b, OutBytes out) {
  const size_t n = count_of(xs, sizeof(F), "xs");
  expect(out, n * sizeof(Affine<F>), "out");
  for (size_t i = 0; i < n; ++i) {
    Affine<F> p;
    p.x = In<F>(xs.data())[i];
    if (!square_root(p.x.sqr() * p.x + b.e, p.y)) return i;
    Out<Affine<F>>(out.data()).put(i, p);
  }
  return n;
}

size_t points_lift(const std::string& curve, const std::string& group, InBytes xs, OutBytes out) {
  return with_tower(curve, [&](auto tower) {
    using Tower = decltype(tower);
    if (group == "g1") return lift<typename Tower::Fq::Inner>(xs, Tower::b1(), out);
    if (group == "g2") return lift<typename Tower::Fq2::Inner>(xs, Tower::b2(), out);
    throw std::invalid_argument("unknown group " + group);
  });
}

// out: one element, prod_i values[i]^scalars[i]
void target_product_of_powers(Pool& pool, const std::string& curve, InBytes values, InBytes scalars, OutBytes out) {
  with_tower(curve, [&](auto tower) {
    using F12 = Fp12<decltype(tower)>;
    const size_t n = count_of(values, sizeof(F12), "values");
    expect(scalars, n * sizeof(Words<4>), "scalars");
    expect(out, sizeof(F12), "out");
    std::vector<F12> f(n);
    std::vector<Words<4>> k(n);
    for (size_t i = 0; i < n; ++i) {
      f[i] = In<F12>(values.data())[i];
      k[i] = In<Words<4>>(scalars.data())[i];
    }
    u8* to = out.data();
    nb::gil_scoped_release release;
    ProductOfPowers<decltype(tower)> product(f.data(), k.data(), n);
    pool.run(product.windows(), [&](size_t window, int) { product.sum(window); });
    Out<F12>(to).put(0, product.product());
  });
}

// out: an element of Fp6 for each value. Returns the index of the first value that has none, or their number.
size_t target_compress(const std::string& curve, InBytes values, OutBytes out) {
  return with_tower(curve, [&](auto tower) {
    using Tower = decltype(tower);
    const size_t n = count_of(values, sizeof(Fp12<Tower>), "values");
    expect(out, n * sizeof(Fp6<Tower>), "out");
    std::vector<Fp12<Tower>> f(n);
    for (size_t i = 0; i < n; ++i) {
      f[i] = In<Fp12<Tower>>(values.data())[i];
      if (f[i].c1.is_zero()) return i;
    }
    std::vector<Fp6<Tower>> forms(n);
    compress(f.data(), forms.data(), n);
    for (size_t i = 0; i < n; ++i) Out<Fp6<Tower>>(out.data()).put(i, forms[i]);
    return n;
  });
}

// out: an element of the target group for each of `compressed`, canonical elements of Fp6. Returns the index of the first
// that stands for none, or their number.
size_t target_decompress(Pool& pool, const std::string& curve, InBytes compressed, OutBytes out) {
  return with_tower(curve, [&](auto tower) {
    using Tower = decltype(tower);
    const size_t n = count_of(compressed, sizeof(Fp6<Tower>), "compressed");
    expect(out, n * sizeof(Fp12<Tower>), "out");
    const u8* from = compressed.data();
    u8* to = out.data();
    nb::gil_scoped_release release;
    std::vector<u8> good(n);
    const size_t each = together(n, ELEMENTS, pool);
    pool.run((n + each - 1) / each, [&](size_t block, int) {
      const size_t first = block * each, count = std::min(each, n - first);
      std::vector<Fp6<Tower>> forms(count);
      std::vector<Fp12<Tower>> f(count);
      for (size_t i = 0; i < count; ++i) forms[i] = In<Fp6<Tower>>(from)[first + i];
      decompress(forms.data(), f.data(), count);
      for (size_t i = 0; i < count; ++i) {
        good[first + i] = in_target_group(f[i]);
        Out<Fp12<Tower>>(to).put(first + i, f[i]);
      }
    });
    return (size_t)(std::find(good.begin(), good.end(), 0) - good.begin());
  });
}

}  // namespace

void bind_inner_products(nb::module_& m) {
  m.def("pairing_products", &pairing_products);
  m.def("final_exponentiations", &final_exponentiations);
  m.def("miller_constants", &miller_constants);
  m.def("points_multiply_add", &points_multiply_add);
  m.def("points_lift", &points_lift);
  m.def("target_product_of_powers", &target_product_of_powers);
  m.def("target_compress", &target_compress);
  m.def("target_decompress", &target_decompress);
}

}  // namespace dp
