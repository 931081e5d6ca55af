// The steps of the multilinear engine's prover, one text for CPU and GPU: what each does with one item, as a struct of its
// arguments. Items are independent of each other; a step with SUMS adds up what its items give, by classes of equal index
// modulo a power of two. kernels/interface/multilinear.py has the same structs as NumPy records.
//
// Vectors of F lie coordinate by coordinate, so that element j of one of n is at j, n + j and 2 n + j. The fractions 0/1 that
// pad a scope are not stored.
#pragma once
#include "field/goldilocks.h"
#include "field/goldilocks_sum.h"

namespace dp {
namespace gl {
namespace steps {

DP_HD Ext load(const u64* p, u64 pitch) { return {{p[0], p[pitch], p[2 * pitch]}}; }
DP_HD void store(u64* p, u64 pitch, const Ext& v) {
  for (int c = 0; c < 3; ++c) p[c * pitch] = v.c[c];
}
DP_HD void accumulate(Ext& sum, const Ext& v) { sum = add(sum, v); }
// even + r (odd - even)
DP_HD Ext between(const Ext& even, const Ext& odd, const Ext& r) { return add(even, mul(sub(odd, even), r)); }

// A product of one factor for each bit of an index: an entry of `low` for its lowest bits times one of `high`.
struct Products {
  const u64 *low, *high;  // elements of F side by side
  u64 log_low;

  DP_HD Ext operator[](u64 j) const {
    const u64 *a = low + 3 * (j & ((1ull << log_low) - 1)), *b = high + 3 * (j >> log_low);
    return mul(Ext{{a[0], a[1], a[2]}}, Ext{{b[0], b[1], b[2]}});
  }
};

constexpr int COORDINATES = 40;  // must equal that in kernels/interface/multilinear.py

// Writes the entries of Products, `low` first, for a point of `bits` coordinates x: factors 1 - x and x (eq), or 1 and x.
struct MakeProducts {
  u64* out;
  u64 bits, log_low, eq;
  Ext scale, point[COORDINATES];

  DP_HD void operator()(u64 i) const {
    const bool high = i >= 1ull << log_low;
    const u64 j = high ? i - (1ull << log_low) : i, first = high ? log_low : 0, end = high ? bits : log_low;
    Ext product = high ? scale : embed(1);
    for (u64 b = first; b < end; ++b) {
      if (j >> (b - first) & 1) product = mul(product, point[b]);
      else if (eq) product = mul(product, sub(embed(1), point[b]));
    }
    for (int c = 0; c < 3; ++c) out[3 * i + c] = product.c[c];
  }
};

// out[j] (+)= table[j], rows `pitch` apart
struct Tabulate {
  Products table;
  u64* out;
  u64 pitch, add_to;

  DP_HD void operator()(u64 j) const {
    const Ext v = table[j];
    store(out + j, pitch, add_to ? add(load(out + j, pitch), v) : v);
  }
};

// -- buses ------------------------------------------------------------------------------------------------------------

// Places the leaves of some uses of a table, an item for each use and row. `found`: numerators (uses, n), then denominators
// (uses, 3, n); out (3, 2, total); `places` (count, 2): use, first leaf.
struct Leaves {
  const u64 *found, *places;
  u64* out;
  u64 log_n, uses, total;

  DP_HD void operator()(u64 i) const {
    const u64 n = 1ull << log_n, j = i & (n - 1), *place = places + 2 * (i >> log_n);
    const u64 use = place[0], at = place[1] + j;
    store(out + at, 2 * total, embed(found[use * n + j]));
    store(out + total + at, 2 * total, load(found + (uses + 3 * use) * n + j, n));
  }
};

// The layer above one of fractions: in (3, 2, n), out (3, 2, half).
struct Layer {
  const u64* in;
  u64* out;
  u64 n, half;

  DP_HD void operator()(u64 j) const {
    const u64* p = in + 2 * j;
    Ext p0 = load(p, 2 * n), q0 = load(p + n, 2 * n), p1 = embed(0), q1 = embed(1);
    if (2 * j + 1 < n) p1 = load(p + 1, 2 * n), q1 = load(p + n + 1, 2 * n);
    store(out + j, 2 * half, add(mul(p0, q1), mul(p1, q0)));
    store(out + half + j, 2 * half, mul(q0, q1));
  }
};

// p_0, p_1 + batch q_1, q_0, q_1 of a layer: in (3, 2, n), out (3, 4, half).
struct Halves {
  const u64* in;
  u64* out;
  u64 n, half;
  Ext batch;

  DP_HD void operator()(u64 j) const {
    const u64* p = in + 2 * j;
    Ext p1 = embed(0), q1 = embed(1);
    if (2 * j + 1 < n) p1 = load(p + 1, 2 * n), q1 = load(p + n + 1, 2 * n);
    store(out + j, 4 * half, load(p, 2 * n));
    store(out + half + j, 4 * half, add(p1, mul(q1, batch)));
    store(out + 2 * half + j, 4 * half, load(p + n, 2 * n));
    store(out + 3 * half + j, 4 * half, q1);
  }
};

// The round of a layer over `in` (3, 4, n), or over its fold at r, which goes to `folded` (3, 4, (n + 1) / 2): for each pair the
// value at 0 of eq (p_0 q_1 + p_1 q_0), and its coefficient at X^2.
struct LayerRound {
  static constexpr int SUMS = 2;
  const u64* in;
  u64* folded;
  u64 n, fold;
  Ext r, batch;
  Products eq;

  DP_HD Ext given(u64 j, int k) const {
    if (j < n) return load(in + k * n + j, 4 * n);
    return k == 0 ? embed(0) : k == 1 ? batch : embed(1);
  }
  DP_HD Ext value(u64 j, int k, u64 half) const {
    if (!fold) return given(j, k);
    if (j >= half) return given(n, k);
    const Ext v = between(given(2 * j, k), given(2 * j + 1, k), r);
    store(folded + k * half + j, 4 * half, v);
    return v;
  }
  DP_HD void operator()(u64 j, Ext (&sums)[SUMS]) const {
    const u64 half = (n + 1) / 2;
    Ext even[4], step[4];
    for (int k = 0; k < 4; ++k) {
      even[k] = value(2 * j, k, half);
      step[k] = sub(value(2 * j + 1, k, half), even[k]);
    }
    const Ext weight = eq[j];
    accumulate(sums[0], mul(add(mul(even[0], even[3]), mul(even[1], even[2])), weight));
    accumulate(sums[1], mul(add(mul(step[0], step[3]), mul(step[1], step[2])), weight));
  }
};

// -- rows -------------------------------------------------------------------------------------------------------------

// Behind a table's `width` columns in `cells`: the columns that are read at the next row, moved by one row, and selectors.
struct FurtherCells {
  u64* cells;
  const u64* next;
  u64 log_n, width, count;  // of next columns; what comes after are the selectors first, last, transition

  DP_HD void operator()(u64 i) const {
    const u64 n = 1ull << log_n, j = i & (n - 1), k = i >> log_n;
    u64 v;
    if (k < count) v = cells[next[k] * n + ((j + 1) & (n - 1))];
    else v = k == count ? j == 0 : k == count + 1 ? j == n - 1 : j != n - 1;
    cells[width * n + i] = v;
  }
};

// eq times value over runs: a sum for each place in a run. values (3, n)
struct RunSums {
  static constexpr int SUMS = 1;
  const u64* values;
  u64 n, log_run;
  Products eq;

  DP_HD void operator()(u64 i, Ext (&sums)[SUMS]) const {
    accumulate(sums[0], mul(load(values + i, n), eq[i >> log_run]));
  }
};

constexpr int POINTS = 8;  // must equal that in kernels/interface/multilinear.py

// Cells between neighbouring rows, at some integers: in (rows, 2 n), out (rows, points, n).
struct Between {
  const u64* in;
  u64* out;
  u64 log_n, points, at[POINTS];

  DP_HD void operator()(u64 i) const {
    const u64 even = in[2 * i], step = sub(in[2 * i + 1], even), row = i >> log_n, j = i & ((1ull << log_n) - 1);
    for (u64 k = 0; k < points; ++k) out[((row * points + k) << log_n) + j] = add(even, mul(step, at[k]));
  }
};

// eq times value at each of some points: values (3, points, n).
struct PointSums {
  static constexpr int SUMS = POINTS;
  const u64* values;
  u64 n, points;
  Products eq;

  DP_HD void operator()(u64 j, Ext (&sums)[SUMS]) const {
    const Ext weight = eq[j];
    for (u64 k = 0; k < points; ++k) accumulate(sums[k], mul(load(values + k * n + j, points * n), weight));
  }
};

// Binds the lowest variable of k tables of values, or of coefficients, to r: element j of a table is at j, that and `pitch`,
// that and twice it, tables are `apart`. out has half of each.
struct Fold {
  const u64* in;
  u64* out;
  u64 half, pitch, apart, coefficients;
  Ext r;

  DP_HD void operator()(u64 i) const {
    const u64 k = i / half, j = i % half;
    const u64* p = in + k * apart + 2 * j;
    const Ext even = load(p, pitch), odd = load(p + 1, pitch);
    store(out + k * (apart / 2) + j, pitch / 2, coefficients ? add(even, mul(odd, r)) : between(even, odd, r));
  }
};

// -- stacks -----------------------------------------------------------------------------------------------------------

constexpr int SETS = 4;  // must equal that in kernels/interface/multilinear.py

// The sums of weight times run over all runs of columns, for some sets of weights (sets, 3, runs). A class is a place in a run.
struct WeightedRuns {
  static constexpr int SUMS = SETS;
  const u64 *columns, *weights;
  u64 log_run, runs, sets;

  DP_HD void operator()(u64 i, Ext (&sums)[SUMS]) const {
    const u64 run = i >> log_run, v = columns[i];
DP_PRAGMA(unroll)
    for (u64 k = 0; k < SETS; ++k)
      if (k < sets) accumulate(sums[k], mul(load(weights + 3 * k * runs + run, runs), v));
  }
};

// The weights of a table's opened columns, by kind: out (kinds, 3, total), an item for each entry and row. An entry has the
// first row of its column, and the factors of the column and of its next column.
struct OpenedWeights {
  Products eq;
  const u64* entries;  // of 7 words
  u64* out;
  u64 log_rows, total;
  Ext last;

  DP_HD void operator()(u64 i) const {
    const u64 rows = 1ull << log_rows, x = i & (rows - 1), *entry = entries + 7 * (i >> log_rows);
    const Ext here = eq[x];
    const Ext factor{{entry[1], entry[2], entry[3]}}, after{{entry[4], entry[5], entry[6]}};
    u64* const at = out + entry[0] + x;
    store(at, total, mul(here, factor));
    if ((after.c[0] | after.c[1] | after.c[2]) == 0) return;
    store(at + 3 * total, total, mul(here, after));
    store(at + 6 * total, total, mul(mul(sub(eq[(x - 1) & (rows - 1)], here), last), after));
  }
};

// out (3, n) = the sum of scale times vector over vectors (k, 3, n)
struct Combine {
  const u64* in;
  u64* out;
  u64 n, count;
  Ext scales[SETS];

  DP_HD void operator()(u64 j) const {
    Ext sum = embed(0);
    for (u64 k = 0; k < count; ++k) sum = add(sum, mul(load(in + 3 * k * n + j, n), scales[k]));
    store(out + j, n, sum);
  }
};

// The round over coefficients and weights `in` (2, 3, n), or over their fold at r, which goes to `folded`: its coefficients h_1
// and h_2.
struct PairRound {
  static constexpr int SUMS = 2;
  const u64* in;
  u64* folded;
  u64 n, fold;
  Ext r;

  DP_HD Ext value(u64 j, int k) const {
    if (!fold) return load(in + 3 * k * n + j, n);
    const u64 *p = in + 3 * k * n + 2 * j, half = n / 2;
    const Ext v = add(load(p, n), mul(load(p + 1, n), r));
    store(folded + 3 * k * half + j, half, v);
    return v;
  }
  DP_HD void operator()(u64 j, Ext (&sums)[SUMS]) const {
    const Ext v = value(2 * j, 0), odd_v = value(2 * j + 1, 0), u = value(2 * j, 1), odd_u = value(2 * j + 1, 1);
    accumulate(sums[0], add(mul(v, odd_u), mul(odd_v, u)));
    accumulate(sums[1], mul(odd_v, odd_u));
  }
};

// values (3, n) times weights
struct Dot {
  static constexpr int SUMS = 1;
  const u64* values;
  u64 n;
  Products weights;

  DP_HD void operator()(u64 j, Ext (&sums)[SUMS]) const { accumulate(sums[0], mul(load(values + j, n), weights[j])); }
};

// target[j stride] += source[j], rows of `count` elements
struct AddRows {
  u64* target;
  const u64* source;
  u64 log_count, target_pitch, stride, source_pitch;

  DP_HD void operator()(u64 i) const {
    const u64 j = i & ((1ull << log_count) - 1), row = i >> log_count;
    u64* const at = target + row * target_pitch + j * stride;
    *at = add(*at, source[row * source_pitch + j]);
  }
};

// out[place] = value: places (count), values (count, 3)
struct Scatter {
  const u64 *places, *values;
  u64* out;
  u64 pitch;

  DP_HD void operator()(u64 i) const { store(out + places[i], pitch, {{values[3 * i], values[3 * i + 1], values[3 * i + 2]}}); }
};

// out[i rows + r] = the sum over a < 2^log_run of matrix[a rows + r] in[i 2^log_run + a]; with `apart`, out[r apart + i].
struct ApplyRuns {
  const u64 *in, *matrix;
  u64* out;
  u64 log_run, rows, apart;

  DP_HD void operator()(u64 i) const {
    const u64 run = i / rows, r = i % rows, *p = in + (run << log_run);
    ProductSum sum;
    for (u64 a = 0; a < 1ull << log_run; ++a) sum.add(p[a], matrix[a * rows + r]);
    out[apart ? r * apart + run : i] = sum.value();
  }
};

}  // namespace steps
}  // namespace gl
}  // namespace dp

// Every step of both backends: EACH(name, struct) for those of items alone, SUM(name, struct) for those with sums.
#define DP_MULTILINEAR_STEPS(EACH, SUM) \
  EACH(make_products, MakeProducts)     \
  EACH(tabulate, Tabulate)              \
  EACH(layer, Layer)                    \
  EACH(halves, Halves)                  \
  SUM(layer_round, LayerRound)          \
  EACH(further_cells, FurtherCells)     \
  EACH(fold, Fold)                      \
  SUM(weighted_runs, WeightedRuns)      \
  EACH(opened_weights, OpenedWeights)   \
  EACH(combine, Combine)                \
  SUM(pair_round, PairRound)            \
  SUM(dot, Dot)                         \
  EACH(add_rows, AddRows)               \
  EACH(scatter, Scatter)                \
  EACH(apply_runs, ApplyRuns)

// Those that a backend needs whose row programs have a matrix of outputs.
#define DP_ROW_PROGRAM_STEPS(EACH, SUM) \
  EACH(leaves, Leaves)                  \
  SUM(run_sums, RunSums)                \
  EACH(between, Between)                \
  SUM(point_sums, PointSums)
