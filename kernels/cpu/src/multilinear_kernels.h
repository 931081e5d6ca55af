// The inner loops of the multilinear engine's steps, each over some neighbouring items. They exist once per instruction set with
// vectors (multilinear_avx2.cpp, multilinear_avx512.cpp), behind this table; multilinear_lanes.cpp cuts the steps of
// multilinear_steps.h into such loops. Elements are canonical, counts are multiples of `lanes`.
//
// A vector of F lies coordinate by coordinate, `pitch` apart. Elements of a table, `low`, lie side by side. Sums are kept by lane:
// (3, lanes) words, which a loop adds to.
#pragma once
#include "goldilocks_rows_kernels.h"

namespace dp {
namespace rows {

struct Vectors {
  const u64* at;
  size_t pitch;
};
struct Out {
  u64* at;
  size_t pitch;
  Vectors in() const { return {at, pitch}; }
};

// The rows of a layer: p_0, p_1, q_0, q_1, vectors `apart` from each other.
struct LayerRows {
  u64* at;
  size_t pitch, apart;
  Out operator[](size_t k) const { return {at + k * apart, pitch}; }
};

struct MultilinearKernels {
  const char* name;
  size_t lanes;
  // out[j] = low[j] factor, or added to it
  void (*tabulate)(const u64* low, const Ext& factor, size_t count, bool add_to, Out out);
  // out[j] = in[j] factor; `out` may be `in`
  void (*scale)(Vectors in, const Ext& factor, size_t count, Out out);
  // target[j] += in[j] factor
  void (*add_scaled)(Vectors in, const Ext& factor, size_t count, Out target);
  // out[j] = sum over k of in[k][j] factors[k], vectors `apart` from each other
  void (*combine)(Vectors in, size_t apart, const Ext* factors, size_t vectors, size_t count, Out out);
  // sums += factor times the sum of low[j] in[j]
  void (*weigh)(Vectors in, const u64* low, const Ext& factor, size_t count, u64* sums);
  // sums[a] += factor times the sum over runs x of low[x] in[size x + a], for a < size; a multiple of `lanes`. sums (3, size)
  void (*weigh_runs)(Vectors in, const u64* low, const Ext& factor, size_t runs, size_t size, u64* sums);
  // out[j] = in[2 j] + in[2 j + 1] r
  void (*fold)(Vectors in, const Ext& r, size_t count, Out out);
  // out[j] = in[2 j] + (in[2 j + 1] - in[2 j]) r
  void (*between)(Vectors in, const Ext& r, size_t count, Out out);
  // even[j] = in[2 j], odd[j] = in[2 j + 1]
  void (*unzip)(Vectors in, size_t count, Out even, Out odd);
  // Of pairs of coefficients v and weights u: sums[0] += v_even u_odd + v_odd u_even, sums[1] += v_odd u_odd
  void (*pair_sums)(Vectors v, Vectors u, size_t count, u64* sums);
  // The fractions above pairs of p / q
  void (*layer)(Vectors p, Vectors q, size_t count, Out above_p, Out above_q);
  // Of pairs of rows, with low[j] factor: sums[0] += p_0 q_1 + p_1 q_0 of the even one, sums[1] += the same of their difference
  void (*layer_sums)(LayerRows rows, const u64* low, const Ext& factor, size_t count, u64* sums);
  // out[k][j] = in[2 j] + (in[2 j + 1] - in[2 j]) at[k], of base elements; out[k] are `apart`
  void (*between_base)(const u64* in, const u64* at, size_t points, size_t count, u64* out, size_t apart);
  // out[i] = sum over a < size of in[size i + a] weights[3 a ..], for `count` runs; `size` a multiple of `lanes`, at most MAX_TERMS
  void (*bind_runs)(const u64* in, size_t count, size_t size, const Weight* weights, Out out);
  // sums[c][a] += sum over i < count of weights[c][i] in[size i + a], for a < size; weights[c] are `pitch` apart, of three coordinates
  // c; size a multiple of `lanes`, count at most MAX_TERMS
  void (*sum_runs)(const u64* in, size_t count, size_t size, const u64* weights, size_t pitch, u64* sums);
  // out[size i + a] = moved[size i + (a + 1 modulo size)] + last[a] (in[size (i + 1)] - in[size i]) for `count` runs; `size` is a
  // multiple of `lanes`, at most MAX_RUN
  void (*next_runs)(const u64* in, const u64* moved, const u64* last, size_t count, size_t size, u64* out);
  // cuts `count` elements into weights
  void (*split)(const u64* elements, size_t count, Weight* out);
};

constexpr size_t MAX_RUN = 64;

#if defined(__x86_64__)
extern const MultilinearKernels AVX2_MULTILINEAR;
extern const MultilinearKernels AVX512_MULTILINEAR;
#endif

}  // namespace rows
}  // namespace dp
