// Transforms over Goldilocks on vectors of V::LANES elements, on one thread.
//
// forward: coefficients in the order that `inverse` leaves to values in natural order, by decimation in time.
// inverse: values in natural order to coefficients, by the same network backwards, with the inverse roots: neither permutes,
//          and one undoes the other but for the factor n.
//
// A pass joins R = 2^D blocks of h elements (D = 1 to 4): the block at place k is multiplied by v^rev(k), where rev reverses D
// bits, and then the R elements at each position j < h are transformed in registers. For values on s <w_n> v is
// s^(n / Rh) w_Rh^j: the coset costs no multiplication of its own. Within a pass all roots of unity are powers of two
// (w_16 = 2^156, and 2^192 = 1), so products with them are shifts: three stages take 7 products for 8 elements, where
// butterflies of two elements take 12.
//
// The factors of a pass begin at roots[h], R - 1 vectors side by side for each vector of positions. The vectors of a block are
// h apart, in one set of the first-level cache, and 8 of them leave no room there for factors that are h apart as well.
//
// The innermost pass, h = 1, works on 8 vectors transposed, so that its factors are the same for all lanes. The transposition is
// made on the side of the values only: within each group of 8 * LANES elements the coefficients lie as this pass leaves and
// wants them. Blocks of 2^LOG_BASE elements, 32 KiB, fill the first-level cache; above, the recursion finishes an eighth before
// it begins the next, so that each lies in the second-level cache for as many passes as it can.
//
// V: T, LANES, load, store, broadcast, transpose, and
//   canonical(a)            any word to below p
//   second(a), ready(c)     any word a, or a canonical c, as the second operand of a butterfly
//   product(a, w)           the product of any words as a second operand; products: two of them, side by side
//   shifted<S>(a)           a 2^S, S a multiple of 6 from 6 to 90, as a second operand
//   plain(b)                a second operand as a canonical word
//   butterfly(a, b)         (a, b) -> (a + b, a - b), any words, for a second operand b
// V must have internal linkage where it is built with options that not every CPU runs: then so does all that is
// instantiated here, and none of it can be called from elsewhere.
#pragma once
#include <algorithm>
#include <cstddef>

#include "each_below.h"
#include "platform.h"

namespace dp {

// The passes of a transform of 2^log_n elements, from the innermost one. All but the second join 8 blocks, so the
// transform of an eighth has the same passes without the last one. The second takes what is left over: it joins 4 blocks,
// or 16.
struct NttPasses {
  explicit NttPasses(int log_n) : log_n(log_n), second(log_n < 6 ? log_n - 3 : 2 + (log_n - 2) % 3) {}

  int count() const { return log_n <= 3 ? (log_n + 2) / 3 : 2 + (log_n - 3 - second) / 3; }
  // log2 of the blocks that pass i joins.
  int digit(int i) const { return i == 0 ? std::min(log_n, 3) : i == 1 ? second : 3; }
  // log2 of the size of these blocks.
  int log_block(int i) const { return i < 2 ? 3 * i : 3 * i + second - 3; }

  static constexpr int LOG_ROOT = 156;  // of w_16

  int log_n, second;
};

template <class V>
struct GoldilocksNtt {
  using T = typename V::T;
  static constexpr size_t LANES = V::LANES;
  static constexpr int LOG_BASE = 12;
  static constexpr int LOG_ROOT_64 = 39;  // of w_64

  static void forward(const u64* in, u64* out, int log_n, const u64* roots, bool last) {
    const size_t n = (size_t)1 << log_n;
    if (n == 1) return put(out, V::load(in), last);  // on one lane
    if (log_n > LOG_BASE) {
      const size_t eighth = n / 8;
      for (size_t i = 0; i < 8; ++i) forward(in + i * eighth, out + i * eighth, log_n - 3, roots, false);
      return forward_pass(out, eighth, 0, eighth, roots, last);
    }
    const NttPasses passes(log_n);
    for (int i = 0; i < passes.count(); ++i, in = out) {
      const bool ends = last && i == passes.count() - 1;
      const size_t h = (size_t)1 << passes.log_block(i);
      if (n >= 8 && i == 0)
        ends ? inner_forward<true>(in, out, n, roots) : inner_forward<false>(in, out, n, roots);
      else
        with_digit(passes.digit(i), [&](auto digit) {
          ends ? pass_forward<digit, true>(in, out, n, h, 0, h, roots)
               : pass_forward<digit, false>(in, out, n, h, 0, h, roots);
        });
    }
  }

  // `in` is canonical. The coefficients come out multiplied by `scale`, and canonical.
  static void inverse(const u64* in, u64* out, int log_n, const u64* roots, u64 scale) {
    const size_t n = (size_t)1 << log_n;
    if (log_n > LOG_BASE) {
      const size_t eighth = n / 8;
      inverse_pass(in, out, eighth, 0, eighth, roots);
      for (size_t i = 0; i < 8; ++i) inverse(out + i * eighth, out + i * eighth, log_n - 3, roots, scale);
      return;
    }
    const NttPasses passes(log_n);
    for (int i = passes.count() - 1; i >= (n >= 8 ? 1 : 0); --i, in = out)
      with_digit(passes.digit(i), [&](auto digit) {
        pass_inverse<digit>(in, out, n, (size_t)1 << passes.log_block(i), 0, (size_t)1 << passes.log_block(i), roots);
      });
    if (n >= 8) return inner_inverse(in, out, n, roots, scale);
    for (size_t i = 0; i < n; ++i) V::store(out + i, V::plain(V::product(V::load(in + i), V::broadcast(scale))));
  }

  // Interpolates runs of 2^log_run neighbours, from 8 elements to 32, in place: values in natural order to coefficients, by the
  // one pass that joins the blocks of one element, on as many runs as there are lanes. `scale` is the inverse of 2^log_run.
  static void interpolate(u64* data, size_t runs, int log_run, u64 scale) {
    with_run(log_run, [&](auto digit) { interpolate_all<digit>(data, runs, scale); });
  }

  // Moves runs of 2^log_run neighbours, from 8 elements to 32, from values over the powers of w to values over `shift` times these.
  // factors[k] is shift^rev(k) / 2^log_run.
  static void move(const u64* in, u64* out, size_t runs, int log_run, const u64* factors) {
    with_run(log_run, [&](auto digit) { move_all<digit>(in, out, runs, factors); });
  }

  // The outermost pass of 8 `eighth` elements, at positions [begin, end) of each block.
  static void forward_pass(u64* data, size_t eighth, size_t begin, size_t end, const u64* roots, bool last) {
    last ? pass_forward<3, true>(data, data, 8 * eighth, eighth, begin, end, roots)
         : pass_forward<3, false>(data, data, 8 * eighth, eighth, begin, end, roots);
  }
  static void inverse_pass(const u64* in, u64* out, size_t eighth, size_t begin, size_t end, const u64* roots) {
    pass_inverse<3>(in, out, 8 * eighth, eighth, begin, end, roots);
  }

 private:
  template <class Body>
  static void with_digit(int digit, Body body) {
    if (digit == 1) body(Constant<1>{});
    else if (digit == 2) body(Constant<2>{});
    else if (digit == 3) body(Constant<3>{});
    else body(Constant<4>{});
  }

  template <class Body>
  static void with_run(int log_run, Body body) {
    if (log_run == 3) body(Constant<3>{});
    else if (log_run == 4) body(Constant<4>{});
    else body(Constant<5>{});
  }

  static void put(u64* p, T x, bool last) { V::store(p, last ? V::canonical(x) : x); }

  // log2 of w^j for w of order 2^level, or of its inverse, modulo 192.
  template <bool INVERSE>
  static constexpr int exponent(int level, int j) {
    const int forward = LOG_ROOT_64 * (64 >> level) * j % 192;
    return INVERSE ? (192 - forward) % 192 : forward;
  }

  // The butterflies of one stage, each of two elements that are 2^(LEVEL - 1) apart. Before the second of them is used, or
  // either in the inverse, it takes the root that it is still to be multiplied by.
  template <int D, int LEVEL>
  __attribute__((always_inline)) static void forward_stage(T* x) {
    each_below<(1 << (D - 1))>([&](auto t) __attribute__((always_inline)) {
      constexpr int half = 1 << (LEVEL - 1), j = t % half, a = t / half * 2 * half + j, b = a + half;
      constexpr int e = exponent<false>(LEVEL, j);
      butterfly<e>(x[a], x[b], LEVEL == 1 ? x[b] : second<e>(x[b]));  // at first they are products
    });
  }
  template <int D, int LEVEL>
  __attribute__((always_inline)) static void inverse_stage(T* x) {
    constexpr auto pending = [](int i) {
      return LEVEL < D && i >> LEVEL & 1 ? exponent<true>(LEVEL + 1, i % (1 << LEVEL)) : 0;
    };
    each_below<(1 << (D - 1))>([&](auto t) __attribute__((always_inline)) {
      constexpr int half = 1 << (LEVEL - 1), a = t / half * 2 * half + t % half, b = a + half;
      constexpr int e = pending(a), f = pending(b);
      if constexpr (e != 0) x[a] = first<e>(x[a]);
      butterfly<f>(x[a], x[b], LEVEL == D ? V::ready(x[b]) : second<f>(x[b]));
    });
  }

  template <int EXPONENT>
  __attribute__((always_inline)) static T first(T x) {
    T zero = V::broadcast(0), y = V::template shifted<EXPONENT % 96>(x);
    if constexpr (EXPONENT < 96) return V::plain(y);
    V::butterfly(zero, y);  // its negative
    return y;
  }
  template <int EXPONENT>
  __attribute__((always_inline)) static T second(T x) {
    if constexpr (EXPONENT == 0) return V::second(x);
    else return V::template shifted<EXPONENT % 96>(x);
  }
  // (a + b, a - b), or the reverse where 2^EXPONENT is -2^(EXPONENT - 96)
  template <int EXPONENT>
  __attribute__((always_inline)) static void butterfly(T& a, T& b, T ready) {
    T x = a, y = ready;
    V::butterfly(x, y);
    a = EXPONENT < 96 ? x : y;
    b = EXPONENT < 96 ? y : x;
  }

  // x[k] f[k] for k from 1 on, as second operands.
  template <int D>
  __attribute__((always_inline)) static void multiply(T* x, const T* f) {
    x[1] = V::product(x[1], f[1]);
    for (int k = 2; k < 1 << D; k += 2) V::products(x[k], f[k], x[k + 1], f[k + 1]);
  }
  // Multiplied by `f`, to values.
  template <int D>
  __attribute__((always_inline)) static void forward_all(T* x, const T* f) {
    multiply<D>(x, f);
    for (int k = 2; k < 1 << D; k += 2) x[k] = V::plain(x[k]);  // the first operands of the first stage
    each_below<D>([&](auto stage) __attribute__((always_inline)) { forward_stage<D, stage + 1>(x); });
  }
  // From canonical values to any words.
  template <int D>
  __attribute__((always_inline)) static void inverse_all(T* x) {
    each_below<D>([&](auto stage) __attribute__((always_inline)) { inverse_stage<D, D - stage>(x); });
  }

  // body(x, f, at) for the elements x at each vector of positions, from `at` on, and their factors f.
  template <int D, class Body>
  __attribute__((always_inline)) static void pass(const u64* in, size_t n, size_t h, size_t begin, size_t end,
                                                  const u64* roots, const Body& body) {
    constexpr size_t R = (size_t)1 << D;
    for (size_t j = begin; j < end; j += LANES) {
      T f[R], x[R];
      for (size_t k = 1; k < R; ++k) f[k] = V::load(roots + h + j * (R - 1) + (k - 1) * LANES);
      for (size_t at = j; at < n; at += R * h) {
        for (size_t k = 0; k < R; ++k) x[k] = V::load(in + at + k * h);
        body(x, f, at);
      }
    }
  }
  template <int D, bool LAST>
  static void pass_forward(const u64* in, u64* out, size_t n, size_t h, size_t begin, size_t end, const u64* roots) {
    pass<D>(in, n, h, begin, end, roots, [&](T* x, const T* f, size_t at) __attribute__((always_inline)) {
      forward_all<D>(x, f);
      for (size_t k = 0; k < 1 << D; ++k) put(out + at + k * h, x[k], LAST);
    });
  }
  template <int D>
  static void pass_inverse(const u64* in, u64* out, size_t n, size_t h, size_t begin, size_t end, const u64* roots) {
    pass<D>(in, n, h, begin, end, roots, [&](T* x, const T* f, size_t at) __attribute__((always_inline)) {
      inverse_all<D>(x);
      multiply<D>(x, f);
      V::store(out + at, V::canonical(x[0]));
      for (size_t k = 1; k < 1 << D; ++k) V::store(out + at + k * h, V::plain(x[k]));
    });
  }

  static constexpr size_t reversed(size_t i, int bits) {
    size_t out = 0;
    for (; bits > 0; --bits, i >>= 1) out = out << 1 | (i & 1);
    return out;
  }
  // Replaces the elements x of as many runs as there are lanes by body(x).
  template <int D, class Body>
  __attribute__((always_inline)) static void each_runs(const u64* in, u64* out, size_t runs, const Body& body) {
    constexpr size_t R = (size_t)1 << D;
    T x[R], y[8];
    for (size_t at = 0; at < runs * R; at += LANES * R) {
      // Vectors of 8 positions are transposed together, as in the innermost pass.
      const auto vector = [&](size_t half, size_t i) { return at + i % LANES * R + i / LANES * LANES + 8 * half; };
      for (size_t half = 0; half < R / 8; ++half) {
        for (size_t i = 0; i < 8; ++i) y[i] = V::load(in + vector(half, i));
        V::transpose(y);
        for (size_t i = 0; i < 8; ++i) x[8 * half + i] = y[i];
      }
      body(x);
      for (size_t half = 0; half < R / 8; ++half) {
        for (size_t i = 0; i < 8; ++i) y[i] = x[8 * half + i];
        V::transpose(y);
        for (size_t i = 0; i < 8; ++i) V::store(out + vector(half, i), y[i]);
      }
    }
  }
  template <int D>
  static void interpolate_all(u64* data, size_t runs, u64 scale) {
    constexpr size_t R = (size_t)1 << D;
    const T factor = V::broadcast(scale);
    each_runs<D>(data, data, runs, [&](T* x) __attribute__((always_inline)) {
      T y[R];
      inverse_all<D>(x);
      for (size_t i = 0; i < R; i += 2) V::products(x[i], factor, x[i + 1], factor);
      each_below<R>([&](auto i) __attribute__((always_inline)) { y[i] = V::plain(x[reversed(i, D)]); });
      for (size_t i = 0; i < R; ++i) x[i] = y[i];
    });
  }
  template <int D>
  static void move_all(const u64* in, u64* out, size_t runs, const u64* factors) {
    constexpr size_t R = (size_t)1 << D;
    T f[R];
    for (size_t k = 0; k < R; ++k) f[k] = V::broadcast(factors[k]);
    each_runs<D>(in, out, runs, [&](T* x) __attribute__((always_inline)) {
      inverse_all<D>(x);
      x[0] = V::plain(V::product(x[0], f[0]));
      forward_all<D>(x, f);
      for (size_t i = 0; i < R; ++i) x[i] = V::canonical(x[i]);
    });
  }

  // Transposed, vector i holds position i of as many blocks of 8 as there are lanes. A block is 8 / LANES vectors; their
  // first ones are transposed together, then their second ones, and so on.
  static constexpr size_t place(size_t i) { return i % LANES * 8 + i / LANES * LANES; }
  template <bool LAST>
  static void inner_forward(const u64* in, u64* out, size_t n, const u64* roots) {
    T f[8], x[8];
    for (size_t i = 1; i < 8; ++i) f[i] = V::broadcast(roots[i]);
    for (size_t at = 0; at < n; at += 8 * LANES) {
      for (size_t i = 0; i < 8; ++i) x[i] = V::load(in + at + i * LANES);
      forward_all<3>(x, f);
      V::transpose(x);
      for (size_t i = 0; i < 8; ++i) put(out + at + place(i), x[i], LAST);
    }
  }
  static void inner_inverse(const u64* in, u64* out, size_t n, const u64* roots, u64 scale) {
    T f[8], x[8];
    f[0] = V::broadcast(scale);
    for (size_t i = 1; i < 8; ++i) f[i] = V::plain(V::product(V::broadcast(roots[i]), f[0]));
    for (size_t at = 0; at < n; at += 8 * LANES) {
      for (size_t i = 0; i < 8; ++i) x[i] = V::load(in + at + place(i));
      V::transpose(x);
      inverse_all<3>(x);
      for (size_t i = 0; i < 8; i += 2) V::products(x[i], f[i], x[i + 1], f[i + 1]);
      for (size_t i = 0; i < 8; ++i) V::store(out + at + i * LANES, V::plain(x[i]));
    }
  }
};

template <class V>
struct GoldilocksVectors {
  static void add(const u64* a, const u64* b, size_t step, u64* out, size_t n) {
    map(a, b, step, out, n, [](typename V::T x, typename V::T y) { return V::canonical(V::add(x, y)); });
  }
  static void sub(const u64* a, const u64* b, size_t step, u64* out, size_t n) {
    map(a, b, step, out, n, [](typename V::T x, typename V::T y) { return V::canonical(V::sub(x, y)); });
  }
  static void mul(const u64* a, const u64* b, size_t step, u64* out, size_t n) {
    map(a, b, step, out, n, [](typename V::T x, typename V::T y) { return V::plain(V::product(x, y)); });
  }

 private:
  template <class Op>
  static void map(const u64* a, const u64* b, size_t step, u64* out, size_t n, Op op) {
    const auto same = V::broadcast(n ? b[0] : 0);
    for (size_t i = 0; i < n; i += V::LANES) V::store(out + i, op(V::load(a + i), step ? V::load(b + i) : same));
  }
};

}  // namespace dp
