// Transforms over Goldilocks on vectors of V::LANES elements, on one thread.
//
// forward: coefficients in bit-reversed order to values in natural order, decimation in time: (a, b) -> (a + w b, a - w b).
// inverse: values in natural order to coefficients in bit-reversed order, by the same network backwards, (a, b) ->
//          (a + b, (a - b) w), with the inverse roots: neither permutes, and one undoes the other but for the factor n.
// The stage that joins two blocks of h takes its factor for position j < h from roots[h + j]. For values on s <w_n> it is
// s^(n / 2h) w_2h^j: the coset costs no multiplication of its own.
//
// The three innermost stages run on 8 vectors transposed, so that their factors are the same for all lanes. The transposition
// is made on the side of the values only: within each group of 8 * LANES the coefficients lie as these stages leave and want
// them. The other stages run two at a time. Blocks of 2^LOG_BASE elements, 32 KiB, fill the first-level cache; above, the recursion
// finishes a quarter before it begins the next, so that each lies in the second-level cache for as many stages as it can.
//
// V: T, LANES, load, store, broadcast, transpose; mul (any u64s to any), canonical (any to below p), add and sub (any and
// canonical to any); Butterflies: join, which is (a + b w, a - b w), split, which is (a + b, (a - b) w), and either on two
// pairs, (a, b) with w and (c, d) with v. V must have internal linkage where it is built with options that not every CPU
// runs: then so does all that is instantiated here, and none of it can be called from elsewhere.
#pragma once
#include <cstddef>

#include "platform.h"

namespace dp {

template <class V>
struct PlainButterflies {
  using T = typename V::T;
  static void join(T& a, T& b, T w) {
    const T t = V::canonical(V::mul(b, w)), sum = V::add(a, t);
    b = V::sub(a, t);
    a = sum;
  }
  static void split(T& a, T& b, T w) {
    const T t = V::canonical(b), sum = V::add(a, t);
    b = V::mul(V::sub(a, t), w);
    a = sum;
  }
  static void joins(T& a, T& b, T w, T& c, T& d, T v) {
    join(a, b, w);
    join(c, d, v);
  }
  static void splits(T& a, T& b, T w, T& c, T& d, T v) {
    split(a, b, w);
    split(c, d, v);
  }
};

template <class V>
struct GoldilocksNtt {
  using T = typename V::T;
  using B = typename V::Butterflies;
  static constexpr size_t LANES = V::LANES;
  static constexpr int LOG_BASE = 12;

  static void forward(const u64* in, u64* out, int log_n, const u64* roots, bool last) {
    if (log_n <= 2) return tiny_forward(in, out, (size_t)1 << log_n, roots);
    if (log_n > LOG_BASE) {
      const size_t quarter = (size_t)1 << (log_n - 2);
      for (size_t i = 0; i < 4; ++i) forward(in + i * quarter, out + i * quarter, log_n - 2, roots, false);
      return forward_pass(out, quarter, 0, quarter, roots, last);
    }
    const size_t n = (size_t)1 << log_n;
    size_t h = 8;
    n == h && last ? inner_forward<true>(in, out, n, roots) : inner_forward<false>(in, out, n, roots);
    if (log_n % 2 == 0) {
      n == 2 * h && last ? double_forward<true>(out, n, h, roots) : double_forward<false>(out, n, h, roots);
      h *= 2;
    }
    for (; h < n; h *= 4)
      4 * h == n && last ? quad_forward<true>(out, n, h, 0, h, roots) : quad_forward<false>(out, n, h, 0, h, roots);
  }

  // The coefficients come out multiplied by `scale`.
  static void inverse(const u64* in, u64* out, int log_n, const u64* roots, u64 scale) {
    if (log_n <= 2) return tiny_inverse(in, out, (size_t)1 << log_n, roots, scale);
    const size_t n = (size_t)1 << log_n;
    if (log_n > LOG_BASE) {
      const size_t quarter = n / 4;
      inverse_pass(in, out, quarter, 0, quarter, roots);
      for (size_t i = 0; i < 4; ++i) inverse(out + i * quarter, out + i * quarter, log_n - 2, roots, scale);
      return;
    }
    size_t h = n / 4;
    for (; h >= 8; h /= 4, in = out) quad_inverse(in, out, n, h, 0, h, roots);
    if (h == 4) {  // one stage is left above the innermost three
      double_inverse(in, out, n, 8, roots);
      in = out;
    }
    inner_inverse(in, out, n, roots, scale);
  }

  static void forward_pass(u64* data, size_t quarter, size_t begin, size_t end, const u64* roots, bool last) {
    last ? quad_forward<true>(data, 4 * quarter, quarter, begin, end, roots)
         : quad_forward<false>(data, 4 * quarter, quarter, begin, end, roots);
  }
  static void inverse_pass(const u64* in, u64* out, size_t quarter, size_t begin, size_t end, const u64* roots) {
    quad_inverse(in, out, 4 * quarter, quarter, begin, end, roots);
  }

 private:
  template <bool LAST>
  static void put(u64* p, T x) {
    V::store(p, LAST ? V::canonical(x) : x);
  }

  // Stages h and 2h of all blocks of 4h within n, at positions [begin, end) of h. The second stage of four vectors is written
  // after the first one of the next four, because the CPU does not look far enough ahead to begin these while it waits.
  template <bool LAST>
  static void quad_forward(u64* data, size_t n, size_t h, size_t begin, size_t end, const u64* roots) {
    T x[4];
    u64* before = nullptr;
    const u64* before_roots = roots;
    const auto second = [&] {
      const T v0 = V::load(before_roots + 2 * h), v1 = V::load(before_roots + 3 * h);
      B::joins(x[0], x[2], v0, x[1], x[3], v1);
      for (size_t i = 0; i < 4; ++i) put<LAST>(before + i * h, x[i]);
    };
    for (size_t j = begin; j < end; j += LANES) {
      const T w = V::load(roots + h + j);
      for (u64* a = data + j; a < data + n; a += 4 * h) {
        T y[4] = {V::load(a), V::load(a + h), V::load(a + 2 * h), V::load(a + 3 * h)};
        B::joins(y[0], y[1], w, y[2], y[3], w);
        if (before) second();
        before = a;
        before_roots = roots + j;
        for (size_t i = 0; i < 4; ++i) x[i] = y[i];
      }
    }
    if (before) second();
  }
  static void quad_inverse(const u64* in, u64* out, size_t n, size_t h, size_t begin, size_t end, const u64* roots) {
    T x[4];
    u64* before = nullptr;
    const u64* before_roots = roots;
    const auto second = [&] {
      const T w = V::load(before_roots);
      B::splits(x[0], x[1], w, x[2], x[3], w);
      for (size_t i = 0; i < 4; ++i) V::store(before + i * h, x[i]);
    };
    for (size_t j = begin; j < end; j += LANES) {
      const T v0 = V::load(roots + 2 * h + j), v1 = V::load(roots + 3 * h + j);
      for (size_t at = j; at < n; at += 4 * h) {
        const u64* a = in + at;
        T y[4] = {V::load(a), V::load(a + h), V::load(a + 2 * h), V::load(a + 3 * h)};
        B::splits(y[0], y[2], v0, y[1], y[3], v1);
        if (before) second();
        before = out + at;
        before_roots = roots + h + j;
        for (size_t i = 0; i < 4; ++i) x[i] = y[i];
      }
    }
    if (before) second();
  }
  template <bool LAST>
  static void double_forward(u64* data, size_t n, size_t h, const u64* roots) {
    for (size_t j = 0; j < h; j += LANES) {
      const T w = V::load(roots + h + j);
      for (u64* a = data + j; a < data + n; a += 2 * h) {
        T x0 = V::load(a), x1 = V::load(a + h);
        B::join(x0, x1, w);
        put<LAST>(a, x0);
        put<LAST>(a + h, x1);
      }
    }
  }
  static void double_inverse(const u64* in, u64* out, size_t n, size_t h, const u64* roots) {
    for (size_t j = 0; j < h; j += LANES) {
      const T w = V::load(roots + h + j);
      for (size_t at = j; at < n; at += 2 * h) {
        T x0 = V::load(in + at), x1 = V::load(in + at + h);
        B::split(x0, x1, w);
        V::store(out + at, x0);
        V::store(out + at + h, x1);
      }
    }
  }

  // Stages 1, 2 and 4. Transposed, vector i holds position i of as many blocks of 8 as there are lanes. A block is
  // 8 / LANES vectors; their first ones are transposed together, then their second ones, and so on.
  static constexpr size_t place(size_t i) { return i % LANES * 8 + i / LANES * LANES; }
  template <bool LAST>
  static void inner_forward(const u64* in, u64* out, size_t n, const u64* roots) {
    T w[8], x[8];
    for (size_t i = 1; i < 8; ++i) w[i] = V::broadcast(roots[i]);
    for (size_t at = 0; at < n; at += 8 * LANES) {
      for (size_t i = 0; i < 8; ++i) x[i] = V::load(in + at + i * LANES);
      for (size_t i = 0; i < 8; i += 4) B::joins(x[i], x[i + 1], w[1], x[i + 2], x[i + 3], w[1]);
      for (size_t i = 0; i < 8; i += 4) B::joins(x[i], x[i + 2], w[2], x[i + 1], x[i + 3], w[3]);
      for (size_t i = 0; i < 4; i += 2) B::joins(x[i], x[i + 4], w[4 + i], x[i + 1], x[i + 5], w[5 + i]);
      V::transpose(x);
      for (size_t i = 0; i < 8; ++i) put<LAST>(out + at + place(i), x[i]);
    }
  }
  static void inner_inverse(const u64* in, u64* out, size_t n, const u64* roots, u64 scale) {
    T w[8], x[8];
    const T s = V::broadcast(scale);
    for (size_t i = 1; i < 8; ++i) w[i] = V::broadcast(roots[i]);
    w[1] = V::mul(w[1], s);  // scales the odd ones
    for (size_t at = 0; at < n; at += 8 * LANES) {
      for (size_t i = 0; i < 8; ++i) x[i] = V::load(in + at + place(i));
      V::transpose(x);
      for (size_t i = 0; i < 4; i += 2) B::splits(x[i], x[i + 4], w[4 + i], x[i + 1], x[i + 5], w[5 + i]);
      for (size_t i = 0; i < 8; i += 4) B::splits(x[i], x[i + 2], w[2], x[i + 1], x[i + 3], w[3]);
      for (size_t i = 0; i < 8; i += 4) B::splits(x[i], x[i + 1], w[1], x[i + 2], x[i + 3], w[1]);
      for (size_t i = 0; i < 8; ++i) V::store(out + at + i * LANES, i % 2 ? x[i] : V::mul(x[i], s));
    }
  }

  // One, two or four elements; for one lane only.
  static void tiny_forward(const u64* in, u64* out, size_t n, const u64* roots) {
    T x[4];
    for (size_t i = 0; i < n; ++i) x[i] = V::load(in + i);
    for (size_t h = 1; h < n; h *= 2)
      for (size_t i = 0; i < n; ++i)
        if (!(i & h)) B::join(x[i], x[i + h], V::load(roots + h + (i & (h - 1))));
    for (size_t i = 0; i < n; ++i) put<true>(out + i, x[i]);
  }
  static void tiny_inverse(const u64* in, u64* out, size_t n, const u64* roots, u64 scale) {
    T x[4];
    for (size_t i = 0; i < n; ++i) x[i] = V::load(in + i);
    for (size_t h = n / 2; h >= 1; h /= 2)
      for (size_t i = 0; i < n; ++i)
        if (!(i & h)) B::split(x[i], x[i + h], V::load(roots + h + (i & (h - 1))));
    for (size_t i = 0; i < n; ++i) V::store(out + i, V::mul(x[i], V::broadcast(scale)));
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
    map(a, b, step, out, n, [](typename V::T x, typename V::T y) { return V::canonical(V::mul(x, y)); });
  }

 private:
  template <class Op>
  static void map(const u64* a, const u64* b, size_t step, u64* out, size_t n, Op op) {
    const auto same = V::broadcast(n ? b[0] : 0);
    for (size_t i = 0; i < n; i += V::LANES) V::store(out + i, op(V::load(a + i), step ? V::load(b + i) : same));
  }
};

}  // namespace dp
