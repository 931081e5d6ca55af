// Python bindings of the BabyBear kernels. Elements are canonical uint32; see kernels/cpu/babybear.py for the shapes.
#include "babybear_hash.h"
#include "babybear_matmul.h"
#include "babybear_ntt.h"
#include "babybear_sumcheck.h"
#include "babybear_terms.h"
#include "bindings.h"

namespace dp {

namespace {

using Out32 = Flat<u32>;
using Indices = Flat<const int64_t>;
using poseidon2_babybear::Constants;
using poseidon2_babybear::CONSTANTS;
using poseidon2_babybear::DIGEST;
using poseidon2_babybear::RATE;
using poseidon2_babybear::WIDTH;

constexpr size_t GRAIN = 1 << 12;  // products of a piece of work
constexpr size_t HASH_GRAIN = 64;  // permutations

// The constants of the permutation, then the diagonal of its internal layer; in Montgomery form from here on.
Constants constants_of(const In32& words) {
  expect(words, CONSTANTS + WIDTH, "constants");
  Constants found;
  for (int i = 0; i < CONSTANTS; ++i) found.round[i] = bb::to_montgomery(words.data()[i]);
  for (int i = 0; i < WIDTH; ++i) found.diagonal[i] = bb::to_montgomery(words.data()[CONSTANTS + i]);
  return found;
}

// out[i, j] = a[i, j] b[i, j] of outer x inner elements: a factor's step is 0 along an axis on which it stays the same.
template <size_t DEGREE, class Product>
void products(Pool& pool, In32 a, size_t a_outer, size_t a_inner, In32 b, size_t b_outer, size_t b_inner, size_t outer, Out32 out,
              const Product& product) {
  const size_t inner = outer ? count_of(out, outer * DEGREE, "out") : 0;
  if (outer == 0 || inner == 0) return;
  expect(a, ((outer - 1) * a_outer + (inner - 1) * a_inner + 1) * DEGREE, "a");
  expect(b, ((outer - 1) * b_outer + (inner - 1) * b_inner + 1) * DEGREE, "b");
  const u32 *pa = a.data(), *pb = b.data();
  u32* po = out.data();
  nb::gil_scoped_release release;
  pool.ranges(outer * inner, GRAIN, [&](size_t begin, size_t end) {
    for (size_t at = begin; at < end;) {
      const size_t i = at / inner, first = at % inner, last = std::min(inner, first + (end - at));
      const u32 *x = pa + i * a_outer * DEGREE, *y = pb + i * b_outer * DEGREE;
      for (size_t j = first; j < last; ++j)
        product(x + j * a_inner * DEGREE, y + j * b_inner * DEGREE, po + (i * inner + j) * DEGREE);
      at += last - first;
    }
  });
}

void mul(Pool& pool, In32 a, size_t a_outer, size_t a_inner, In32 b, size_t b_outer, size_t b_inner, size_t outer, Out32 out) {
  products<1>(pool, a, a_outer, a_inner, b, b_outer, b_inner, outer, out,
              [](const u32* x, const u32* y, u32* z) { *z = bb::mul(bb::to_montgomery(*x), *y); });
}

void ext_mul(Pool& pool, In32 a, size_t a_outer, size_t a_inner, In32 b, size_t b_outer, size_t b_inner, size_t outer, Out32 out) {
  products<4>(pool, a, a_outer, a_inner, b, b_outer, b_inner, outer, out,
              [](const u32* x, const u32* y, u32* z) { bb::ext_mul(x, y, z); });
}

// total[i] += a[i] by, for extension elements `total` and `by`, and base or extension elements a.
void add_scaled(Pool& pool, In32 a, In32 by, Out32 total) {
  const size_t n = count_of(total, 4, "total");
  expect(by, 4, "by");
  const bool extended = a.size() != n;
  if (extended) expect(a, 4 * n, "a");
  u32 factor[4], montgomery[4];
  for (int c = 0; c < 4; ++c) {
    factor[c] = by.data()[c];
    montgomery[c] = bb::to_montgomery(factor[c]);
  }
  const u32* pa = a.data();
  u32* po = total.data();
  nb::gil_scoped_release release;
  pool.ranges(n, GRAIN, [&](size_t begin, size_t end) {
    if (!extended) {
      for (size_t i = begin; i < end; ++i)
        for (int c = 0; c < 4; ++c) po[4 * i + c] = bb::add(po[4 * i + c], bb::mul(pa[i], montgomery[c]));
      return;
    }
    for (size_t i = begin; i < end; ++i) {
      u32 product[4];
      bb::ext_mul(factor, pa + 4 * i, product);
      for (int c = 0; c < 4; ++c) po[4 * i + c] = bb::add(po[4 * i + c], product[c]);
    }
  });
}

void matmul(Pool& pool, In32 a, In32 b, size_t rows, size_t inner, size_t columns, Out32 out) {
  expect(a, rows * inner, "a");
  expect(b, inner * columns, "b");
  expect(out, rows * columns, "out");
  if (inner >> 32) throw std::invalid_argument("inner: out of range");
  const u32 *pa = a.data(), *pb = b.data();
  u32* po = out.data();
  nb::gil_scoped_release release;
  babybear_matmul(pool, pa, pb, rows, inner, columns, po);
}

void fold(Pool& pool, In32 table, In32 at, Out32 out) {
  const size_t n = count_of(out, 4, "out");
  expect(table, 8 * n, "table");
  expect(at, 4, "at");
  const u32 *in = table.data(), *by = at.data();
  u32* to = out.data();
  nb::gil_scoped_release release;
  babybear_fold(pool, in, by, n, to);
}

void pair_round(Pool& pool, In32 a, In32 b, Out32 sums) {
  const size_t n = count_of(a, 8, "a");
  expect(b, 8 * n, "b");
  expect(sums, 8, "sums");
  const u32 *pa = a.data(), *pb = b.data();
  u32* to = sums.data();
  nb::gil_scoped_release release;
  babybear_pair_round(pool, pa, pb, n, to);
}

void layer_round(Pool& pool, In32 eq, In32 halves, In32 batch, Out32 sums) {
  const size_t n = count_of(eq, 8, "eq");
  expect(halves, 32 * n, "halves");
  expect(batch, 4, "batch");
  expect(sums, 12, "sums");
  const u32 *weights = eq.data(), *in = halves.data(), *by = batch.data();
  u32* to = sums.data();
  nb::gil_scoped_release release;
  babybear_layer_round(pool, weights, in, by, n, to);
}

void ntt(Pool& pool, Out32 data, int log_n, size_t inner, In32 roots) {
  if (log_n < 0 || log_n > bb::TWO_ADICITY) throw std::invalid_argument("log_n: out of range");
  if (inner == 0) throw std::invalid_argument("inner: zero");
  const size_t half = log_n ? (size_t)1 << (log_n - 1) : 0, batch = count_of(data, inner << log_n, "data");
  expect(roots, half, "roots");
  u32* values = data.data();
  const u32* given = roots.data();
  nb::gil_scoped_release release;
  std::vector<u32> montgomery(2 * half);
  for (size_t i = 0; i < half; ++i) montgomery[half + i] = bb::to_montgomery(given[i]);
  for (size_t i = half; i-- > 1;) montgomery[i] = montgomery[2 * i];
  babybear_ntt(pool, values, batch, log_n, inner, montgomery.data());
}

// out[i] = values[i] 2^32
void montgomery(In32 values, Out32 out) {
  expect(out, values.size(), "out");
  for (size_t i = 0; i < values.size(); ++i) out.data()[i] = bb::to_montgomery(values.data()[i]);
}

// The inverse: out[i] = values[i] / 2^32
void canonical(In32 values, Out32 out) {
  expect(out, values.size(), "out");
  for (size_t i = 0; i < values.size(); ++i) out.data()[i] = bb::from_montgomery(values.data()[i]);
}

// The same for sums of any size.
void canonical_sums(InWords sums, Out32 out) {
  expect(out, sums.size(), "out");
  for (size_t i = 0; i < sums.size(); ++i) out.data()[i] = bb::from_montgomery((u32)(sums.data()[i] % bb::P));
}

void ext_powers(In32 base, Out32 out) {
  expect(base, 4, "base");
  babybear_ext_powers(base.data(), count_of(out, 4, "out"), out.data());
}

void eq_of_places(In32 point, Indices starts, Indices log_rows, Out32 out) {
  const size_t k = count_of(point, 4, "point"), n = count_of(out, 4, "out");
  if (k > 63) throw std::invalid_argument("point: too long");
  expect(starts, n, "starts");
  expect(log_rows, n, "log_rows");
  const u32* coordinates = point.data();
  const int64_t *begins = starts.data(), *rows = log_rows.data();
  u32* to = out.data();
  nb::gil_scoped_release release;
  babybear_eq_of_places(coordinates, k, begins, rows, n, to);
}

// Adds the products to `out`.
void sum_products(In32 a, Indices at_a, In32 b, Indices at_b, Indices to, Out32 out) {
  const size_t n = to.size();
  const auto check = [n](const Indices& indices, size_t count, const char* what) {
    expect(indices, n, what);
    for (size_t i = 0; i < n; ++i)
      if ((u64)indices.data()[i] >= count) throw std::invalid_argument(std::string(what) + ": out of range");
  };
  check(at_a, count_of(a, 4, "a"), "at_a");
  check(at_b, count_of(b, 4, "b"), "at_b");
  check(to, count_of(out, 4, "out"), "to");
  const u32 *pa = a.data(), *pb = b.data();
  const int64_t *ia = at_a.data(), *ib = at_b.data(), *places = to.data();
  u32* sums = out.data();
  nb::gil_scoped_release release;
  babybear_sum_products(pa, ia, pb, ib, places, n, sums);
}

void permute(Pool& pool, In32 words, In32 states, Out32 out) {
  const Constants with = constants_of(words);
  const size_t n = count_of(states, WIDTH, "states");
  expect(out, states.size(), "out");
  const u32* in = states.data();
  u32* to = out.data();
  nb::gil_scoped_release release;
  pool.ranges(n, HASH_GRAIN, [&](size_t begin, size_t end) {
    babybear_permute(with, in + begin * WIDTH, end - begin, to + begin * WIDTH);
  });
}

// Returns the place of the next value in the state.
int absorb(In32 words, Out32 state, int at, In32 values) {
  const Constants with = constants_of(words);
  expect(state, WIDTH, "state");
  if (at < 0 || at >= RATE) throw std::invalid_argument("at: out of range");
  u32* own = state.data();
  const u32* in = values.data();
  const size_t n = values.size();
  nb::gil_scoped_release release;
  return babybear_absorb(with, own, at, in, n);
}

void hash_rows(Pool& pool, In32 words, In32 rows, Out32 out) {
  const Constants with = constants_of(words);
  const size_t n = count_of(out, DIGEST, "out");
  if (n == 0) return;
  const size_t columns = count_of(rows, n, "rows");
  const u32* in = rows.data();
  u32* to = out.data();
  nb::gil_scoped_release release;
  pool.ranges(n, HASH_GRAIN, [&](size_t begin, size_t end) {
    babybear_hash_rows(with, in + begin * columns, columns, end - begin, to + begin * DIGEST);
  });
}

// Parent i of digests i of `left` and `right`.
void compress(Pool& pool, In32 words, In32 left, In32 right, Out32 out) {
  const Constants with = constants_of(words);
  const size_t n = count_of(out, DIGEST, "out");
  expect(left, n * DIGEST, "left");
  expect(right, n * DIGEST, "right");
  const u32 *a = left.data(), *b = right.data();
  u32* to = out.data();
  nb::gil_scoped_release release;
  pool.ranges(n, HASH_GRAIN, [&](size_t begin, size_t end) {
    babybear_compress(with, a + begin * DIGEST, b + begin * DIGEST, DIGEST, end - begin, to + begin * DIGEST);
  });
}

// The least witness; p if there is none.
u32 grind(Pool& pool, In32 words, In32 state, int position, int bits) {
  const Constants with = constants_of(words);
  expect(state, WIDTH, "state");
  if (position < 0 || position >= RATE) throw std::invalid_argument("position: out of range");
  if (bits < 0 || bits > 30) throw std::invalid_argument("bits: out of range");
  const u32* begin = state.data();
  nb::gil_scoped_release release;
  return (u32)least_hit(pool, bb::P, 512, [&](u64 first, size_t n) {
    return babybear_grind(with, begin, position, (u32)first, n, bits);
  });
}

}  // namespace

void bind_babybear(nb::module_& m) {
  m.def("bb_mul", &mul);
  m.def("bb_ext_mul", &ext_mul);
  m.def("bb_add_scaled", &add_scaled);
  m.def("bb_matmul", &matmul);
  m.def("bb_fold", &fold);
  m.def("bb_pair_round", &pair_round);
  m.def("bb_layer_round", &layer_round);
  m.def("bb_ntt", &ntt);
  m.def("bb_montgomery", &montgomery);
  m.def("bb_canonical", &canonical);
  m.def("bb_canonical_sums", &canonical_sums);
  m.def("bb_ext_powers", &ext_powers);
  m.def("bb_eq_of_places", &eq_of_places);
  m.def("bb_sum_products", &sum_products);
  m.def("bb_permute", &permute);
  m.def("bb_absorb", &absorb);
  m.def("bb_hash_rows", &hash_rows);
  m.def("bb_compress", &compress);
  m.def("bb_grind", &grind);
}

}  // namespace dp
