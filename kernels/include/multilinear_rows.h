// The zerocheck's rounds over the rows of all tables: a univariate one over the places of runs, then one for each further
// variable. The transcript draws in the backend's memory. What adds up rules over rows differs by backend; the steps here
// make the rounds of these sums.
//
// A sum of elements of F lies as HALVES words: of each coordinate the sum of the lower halves of its words, and that of the
// upper ones. So threads can add to it in any order.
#pragma once
#include "hash/transcript.h"
#include "multilinear_base.h"

namespace dp {
namespace gl {
namespace steps {

constexpr u64 HALVES = 6;  // must equal that in kernels/interface/multilinear_rows.py

DP_HD Ext whole(const u64* halves) {
  Ext v;
  for (int c = 0; c < 3; ++c) {
    const u64 high = halves[2 * c + 1];
    v.c[c] = add(canonical(halves[2 * c]), reduce128(high >> 32, high << 32));
  }
  return v;
}

// eq of the variables of a point from any one to `end`: products of an entry of a table for those below `middle` and one for
// the rest. A table has the products for every first variable: those of m variables from element 2^m on.
struct RowWeights {
  const u64 *low, *high;
  u64 middle, end;

  DP_HD Ext at(u64 first, u64 j) const {
    if (first >= middle) return entry(high, end - first, j);
    const u64 bits = middle - first;
    return mul(entry(low, bits, j & ((1ull << bits) - 1)), entry(high, end - middle, j >> bits));
  }
  static DP_HD Ext entry(const u64* table, u64 bits, u64 j) { return side_by_side(table + 3 * ((1ull << bits) + j)); }
};

// Writes the tables of RowWeights, one entry an item. `spans` (count, 3): a table's first element, its first variable, and
// the one after its last.
struct EqTables {
  u64* out;
  const u64* spans;
  u64 count;
  Ext point[COORDINATES];

  DP_HD void operator()(u64 i) const {
    u64 table = 0, bits = 0;
    while (table + 1 < count && spans[3 * (table + 1)] <= i) ++table;
    const u64* span = spans + 3 * table;
    const u64 entry = i - span[0];
    while (entry >> (bits + 1)) ++bits;
    Ext product = embed(1);
    for (u64 b = 0; b < bits; ++b) {
      const Ext x = point[span[2] - bits + b];
      product = mul(product, entry >> b & 1 ? x : sub(embed(1), x));
    }
    put_side_by_side(out + 3 * i, product);
  }
};

struct RowState {
  Transcript transcript;
  u64 round;  // multilinear rounds that are done
  Ext nu, drawn[COORDINATES + 1];
};

// The constraints or the interactions of a table.
struct RowRule {
  u64 variables, degree, constrains;
  u64 kind, coset_sums;  // its sums on the first of its cosets; there are 2^log_run on each
  u64 sums, matrix;      // its sums at 0, 2, 3 .. degree in a round, and where the matrix that interpolates them begins
  Ext claim;             // its share of the running claim
};

// What is interpolated alike: rules on the same cosets.
struct RowKind {
  u64 constrains, first, count;  // cosets
  u64 at, matrix;                // the cosets of the kinds before; where the matrix over its cosets begins
};

// The univariate round: the polynomials and challenges, the rules' claims, and the Lagrange polynomials of the domain at the
// point, which bind runs.
struct SkipRound {
  RowState* state;
  RowRule* rules;
  const RowKind* kinds;
  const u64 *matrices, *sums;
  u64 *scratch, *quotient, *leaves, *weights;
  u64 rule_count, kind_count, cosets;  // of all kinds
  u64 log_run, quotient_length, leaves_length;
  u64 root, shift;  // of orders 2^log_run and 2^(log_run + LOG_COSETS)
  u64 log_shift;
  Transcript begun;

  DP_HD const RowKind& kind_of(u64 coset) const {
    u64 k = 0;
    while (kinds[k].at + kinds[k].count <= coset) ++k;
    return kinds[k];
  }
  DP_HD const u64* sum(const RowRule& rule, u64 coset, u64 place) const {
    return sums + HALVES * (((rule.coset_sums + coset) << log_run) + place);
  }
  template <class Block>
  DP_HD void operator()(const Block& block) const {
    const u64 size = 1ull << log_run, all = cosets << log_run;
    u64 *const values = scratch, *const coefficients = scratch + 3 * all;
    if (block.first == 0) state->transcript = begun, state->round = 0;
    for (u64 i = block.first; i < all; i += block.stride) {
      const RowKind& kind = kind_of(i >> log_run);
      Ext v = embed(0);
      for (u64 r = 0; r < rule_count; ++r)
        if (&kinds[rules[r].kind] == &kind) v = add(v, whole(sum(rules[r], (i >> log_run) - kind.at, i & (size - 1))));
      put_side_by_side(values + 3 * i, v);
    }
    block.sync();
    for (u64 i = block.first; i < all; i += block.stride) put_side_by_side(coefficients + 3 * i, coefficient(values, i));
    block.sync();
    polynomial(block, coefficients, quotient, quotient_length, 1);
    polynomial(block, coefficients, leaves, leaves_length, 0);
    block.sync();
    if (block.leads()) {
      const auto lanes = block.lanes();
      Transcript& t = state->transcript;
      t.absorb(lanes, "quotient", reinterpret_cast<const Ext*>(quotient), (u32)quotient_length);
      t.absorb(lanes, "leaves", reinterpret_cast<const Ext*>(leaves), (u32)leaves_length);
      const Ext r = t.extension(lanes, "skip"), nu = t.extension(lanes, "nu");
      if (lanes.lane == 0) state->drawn[0] = r, state->nu = nu;
    }
    block.sync();
    const Ext r = state->drawn[0];
    Ext power = r;  // r^L
    for (u64 b = 0; b < log_run; ++b) power = mul(power, power);
    for (u64 i = block.first; i < all; i += block.stride) put_side_by_side(values + 3 * i, lagrange(i, r, power));
    const u64 share = inverse(size);
    for (u64 a = block.first; a < size; a += block.stride) {
      const u64 x = pow(root, a);
      const Ext found = mul(sub(power, embed(1)), inverse(sub(r, embed(x))));
      put_side_by_side(weights + 3 * a, mul(found, mul(x, share)));
    }
    block.sync();
    for (u64 i = block.first; i < rule_count; i += block.stride) {
      const RowKind& kind = kinds[rules[i].kind];
      Ext claim = embed(0);
      for (u64 j = 0; j < kind.count << log_run; ++j)
        claim = add(claim, mul(whole(sum(rules[i], j >> log_run, j & (size - 1))),
                               side_by_side(values + 3 * ((kind.at << log_run) + j))));
      rules[i].claim = claim;
    }
  }
  // The coefficient at Z^k of the polynomial below degree L with a coset's values, divided by Z^L - 1 where they constrain.
  DP_COLD Ext coefficient(const u64* values, u64 i) const {
    const u64 size = 1ull << log_run, k = i & (size - 1), *own = values + 3 * (i - k);
    const RowKind& kind = kind_of(i >> log_run);
    const u64 coset = kind.first + (i >> log_run) - kind.at, x = pow(root, (size - k) & (size - 1));
    Ext v = embed(0);
    for (u64 a = size; a-- > 0;) v = add(mul(v, x), side_by_side(own + 3 * a));
    const u64 divisor = kind.constrains ? mul(size, sub(pow(shift, coset << log_run), 1)) : size;
    return mul(v, mul(inverse(divisor), pow(shift, (1ull << log_shift) - ((coset * k) & ((1ull << log_shift) - 1)))));
  }
  // The sum of the kinds' polynomials: on a coset Z^L is a constant, so that powers below L are interpolated one by one.
  template <class Block>
  DP_HD void polynomial(const Block& block, const u64* coefficients, u64* out, u64 length, u64 constrains) const {
    for (u64 i = block.first; i < length; i += block.stride) {
      const u64 j = i >> log_run, k = i & ((1ull << log_run) - 1);
      Ext v = embed(0);
      for (u64 n = 0; n < kind_count; ++n) {
        const RowKind& kind = kinds[n];
        if (kind.constrains != constrains || j >= kind.count) continue;
        for (u64 c = 0; c < kind.count; ++c)
          v = add(v, mul(side_by_side(coefficients + 3 * (((kind.at + c) << log_run) + k)),
                         matrices[kind.matrix + j * kind.count + c]));
      }
      put_side_by_side(out + 3 * i, v);
    }
  }
  // What a value on a coset is worth at r, for power = r^L.
  DP_COLD Ext lagrange(u64 i, const Ext& r, const Ext& power) const {
    const RowKind& kind = kind_of(i >> log_run);
    const u64 own = (i >> log_run) - kind.at, coset = kind.first + own, size = 1ull << log_run;
    const u64 x = mul(pow(shift, coset), pow(root, i & (size - 1))), y = pow(shift, coset << log_run);
    Ext product = embed(x);
    u64 divisor = mul(y, size);
    for (u64 c = 0; c < kind.count; ++c) {
      const u64 other = pow(shift, (kind.first + c) << log_run);
      product = mul(product, sub(power, embed(other)));
      if (c != own) divisor = mul(divisor, sub(y, other));
    }
    if (kind.constrains) {
      product = mul(product, sub(power, embed(1)));
      divisor = mul(divisor, sub(y, 1));
    }
    return mul(mul(product, inverse(sub(r, embed(x)))), inverse(divisor));
  }
};

// A multilinear round, from the sums of all rules, which are zero again then.
struct RowRound {
  RowState* state;
  RowRule* rules;
  const u64 *matrices, *tails;  // of each round the coordinate of the point and its inverse
  u64 *sums, *coefficients, *sent;
  u64 rule_count, degree, sum_count;

  template <class Block>
  DP_HD void operator()(const Block& block) const {
    const u64 round = state->round, width = degree + 1;
    for (u64 i = block.first; i < rule_count * width; i += block.stride)
      put_side_by_side(coefficients + 3 * i, coefficient(rules[i / width], round, i % width));
    block.sync();
    for (u64 k = block.first; k < width; k += block.stride) {
      Ext sum[2] = {};
      for (u64 r = 0; r < rule_count; ++r) {
        Ext& own = sum[rules[r].constrains];
        own = add(own, side_by_side(coefficients + 3 * (r * width + k)));
      }
      if (k) put_side_by_side(sent + 3 * (round * degree + k - 1), add(sum[1], mul(sum[0], state->nu)));
    }
    for (u64 i = block.first; i < HALVES * sum_count; i += block.stride) sums[i] = 0;
    block.sync();
    if (block.leads()) {
      const auto lanes = block.lanes();
      RowState& s = *state;
      s.transcript.absorb(lanes, "round", reinterpret_cast<const Ext*>(sent + 3 * round * degree), (u32)degree);
      const Ext r = s.transcript.extension(lanes, "r");
      if (lanes.lane == 0) s.drawn[round + 1] = r, s.round = round + 1;
    }
    block.sync();
    for (u64 i = block.first; i < rule_count; i += block.stride) {
      if (round >= rules[i].variables) continue;
      Ext claim = embed(0);
      for (u64 k = width; k-- > 0;)
        claim = add(mul(claim, state->drawn[round + 1]), side_by_side(coefficients + 3 * (i * width + k)));
      rules[i].claim = claim;
    }
  }
  // A rule's polynomial has these sums at 0, 2, 3 .., and follows at 1 from its claim. Without variables it is constant.
  DP_COLD Ext coefficient(const RowRule& rule, u64 round, u64 k) const {
    if (round >= rule.variables) return k ? embed(0) : rule.claim;
    if (k > rule.degree) return embed(0);
    const u64 *own = sums + HALVES * rule.sums, *row = matrices + rule.matrix + k * (rule.degree + 1);
    const Ext zero = whole(own), x = side_by_side(tails + 6 * round), inverse = side_by_side(tails + 6 * round + 3);
    const Ext one = mul(sub(rule.claim, mul(sub(embed(1), x), zero)), inverse);
    Ext v = add(mul(zero, row[0]), mul(one, row[1]));
    for (u64 j = 2; j <= rule.degree; ++j) v = add(v, mul(whole(own + HALVES * (j - 1)), row[j]));
    return v;
  }
};

// Binds the lowest variable of vectors `in` (3, n) to what the round has drawn: the first `kept` results go to `out`
// (3, kept), others to `ended` (3, pitch) from `at` on.
struct RowFold {
  const RowState* state;
  const u64* in;
  u64 *out, *ended;
  u64 n, kept, pitch, at;

  DP_HD void operator()(u64 i) const {
    const Ext even = load(in + 2 * i, n), odd = load(in + 2 * i + 1, n);
    const Ext v = between(even, odd, state->drawn[state->round]);
    if (i < kept) store(out + i, kept, v);
    else store(ended + at + (i - kept), pitch, v);
  }
};

// eq times value over runs: a sum for each place in a run. values (3, n)
struct RunSums {
  static constexpr int SUMS = 1;
  const u64* values;
  u64 n, log_run;
  RowWeights eq;

  DP_HD void operator()(u64 i, Ext (&sums)[SUMS]) const {
    accumulate(sums[0], mul(load(values + i, n), eq.at(0, i >> log_run)));
  }
};

constexpr int POINTS = 8;  // must equal that in kernels/interface/multilinear_rows.py

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

// eq of the variables from `first` on times value at each of some points: values (3, points, n).
struct PointSums {
  static constexpr int SUMS = POINTS;
  const u64* values;
  u64 n, points, first;
  RowWeights eq;

  DP_HD void operator()(u64 j, Ext (&sums)[SUMS]) const {
    const Ext weight = eq.at(first, j);
    for (u64 k = 0; k < points; ++k) accumulate(sums[k], mul(load(values + k * n + j, points * n), weight));
  }
};

}  // namespace steps
}  // namespace gl
}  // namespace dp
