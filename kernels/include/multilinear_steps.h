// The steps of the multilinear engine's prover, one text for CPU and GPU: what each does with one item, as a struct of its
// arguments. Items are independent of each other; a step with SUMS adds up what its items give, by classes of equal index
// modulo a power of two. kernels/interface/multilinear.py has the same structs as NumPy records.
//
// The fractions 0/1 that pad a scope are not stored.
#pragma once
#include "field/goldilocks.h"
#include "field/goldilocks_products.h"
#include "field/goldilocks_sum.h"
#include "hash/transcript.h"
#include "multilinear_rows.h"

namespace dp {
namespace gl {
namespace steps {

// A product of one factor for each bit of an index: an entry of `low` for its lowest bits times one of `high`.
struct Products {
  const u64 *low, *high;  // elements of F side by side
  u64 log_low;

  DP_HD Ext operator[](u64 j) const {
    const u64 *a = low + 3 * (j & ((1ull << log_low) - 1)), *b = high + 3 * (j >> log_low);
    return mul(Ext{{a[0], a[1], a[2]}}, Ext{{b[0], b[1], b[2]}});
  }
};

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

constexpr u32 SCOPES = 2;  // must equal that in kernels/interface/multilinear.py

// The layer above one of fractions: in (3, 2, n), out (3, 2, half).
struct Layer {
  const u64* in;
  u64* out;
  u64 n, half;

  DP_HD void operator()(u64 j) const {
    const u64* p = in + 2 * j;
    Ext p0 = load(p, 2 * n), q0 = load(p + n, 2 * n), p1 = embed(0), q1 = embed(1);
    if (2 * j + 1 < n) p1 = load(p + 1, 2 * n), q1 = load(p + n + 1, 2 * n);
    store(out + j, 2 * half, sum_of_products(p0, q1, p1, q0));
    store(out + half + j, 2 * half, mul(q0, q1));
  }
};

// Layers one above the other, of some scopes, by one block.
struct SmallLayers {
  Layer layers[COORDINATES][SCOPES];
  u64 count, scopes;

  template <class Block>
  DP_HD void operator()(const Block& block) const {
    for (u64 i = 0; i < count; ++i) {
      for (u64 scope = 0; scope < scopes; ++scope)
        for (u64 j = block.first; j < layers[i][scope].half; j += block.stride) layers[i][scope](j);
      block.sync();
    }
  }
};

// A claim about a layer's fractions and what its rounds have drawn, in the backend's memory.
struct LayerState {
  Transcript transcript;
  u64 variables;  // of the claim's point
  Ext numerator, denominator, point[COORDINATES];
  u64 sent, round;  // elements sent; rounds of this layer that are done
  Ext batch, c, drawn[COORDINATES];
  Ext inverse[COORDINATES], rest[COORDINATES];  // of the point; for a round the weight of the fractions 0/1 that pad
};

// A row of a layer: p_0, p_1, q_0, q_1 of a pair of fractions.
struct LayerRow {
  Ext v[4];
};

// A scope's fractions (3, 2, n), or with `folded` p_0, p_1 + batch q_1, q_0, q_1 of their rows, (3, 4, n).
struct Segment {
  const u64* in;
  u64 n, folded;

  DP_HD u64 length() const { return folded ? n : (n + 1) / 2; }
  DP_HD LayerRow row(u64 j, const Ext& batch) const {
    if (folded) {
      if (j >= n) return padding(batch);
      return {{load(in + j, 4 * n), load(in + n + j, 4 * n), load(in + 2 * n + j, 4 * n), load(in + 3 * n + j, 4 * n)}};
    }
    const u64 at = 2 * j;
    LayerRow row{{embed(0), embed(0), embed(1), embed(1)}};
    if (at < n) row.v[0] = load(in + at, 2 * n), row.v[2] = load(in + n + at, 2 * n);
    if (at + 1 < n) row.v[1] = load(in + at + 1, 2 * n), row.v[3] = load(in + n + at + 1, 2 * n);
    return row;
  }
  // What row() gives becomes what the rounds are over.
  DP_HD void batched(LayerRow& row, const Ext& batch) const {
    if (!folded) row.v[1] = add(row.v[1], mul(row.v[3], batch));
  }
  static DP_HD LayerRow padding(const Ext& batch) { return {{embed(0), batch, embed(1), embed(1)}}; }
};

// What the rounds of a layer read. The weights are products of a low and a high part of each row; of both parts, and of the
// high one for each scope, `eq` holds the tables for every first variable: that of m variables from element 2^m on.
struct LayerRows {
  LayerState* state;
  u64 *eq, *sent;
  u64 scopes;

  DP_HD u64 rows() const { return state->variables - (scopes - 1); }
  DP_HD u64 middle() const { return (rows() + 1) / 2; }
  DP_HD u64* high(u64 scope) const { return eq + 3 * ((1ull << middle()) + (scope << (rows() - middle() + 1))); }
  // the weight of pair j in a round
  DP_HD Ext weight(u64 round, u64 scope, u64 j) const {
    return RowWeights{eq, high(scope), middle(), rows()}.at(round + 1, j);
  }
  // Writes the tables, by the threads of a block: one for the variables below the middle, and one for each scope.
  template <class Block>
  DP_HD void tabulate(const Block& block) const {
    const u64 tables = 1 + scopes, half = middle();
    for (u64 i = block.first; i < tables; i += block.stride)
      put_side_by_side(table(i) + 3, i ? scale(i - 1) : embed(1));
    for (u64 bits = 0; bits < half || bits < rows() - half; ++bits) {
      block.sync();
      for (u64 i = block.first; i < tables << bits; i += block.stride) {
        const u64 number = i >> bits, j = i & ((1ull << bits) - 1), first = number ? half : 1;
        const u64 end = number ? rows() : half;
        if (first + bits >= end) continue;
        const Ext whole = RowWeights::entry(table(number), bits, j), odd = mul(whole, state->point[end - 1 - bits]);
        u64* const at = table(number) + 3 * ((2ull << bits) + 2 * j);
        put_side_by_side(at, sub(whole, odd));
        put_side_by_side(at + 3, odd);
      }
    }
  }
  DP_HD u64* table(u64 number) const { return number ? high(number - 1) : eq; }
  // the factor of a scope
  DP_HD Ext scale(u64 scope) const {
    if (scopes == 1) return embed(1);
    const Ext x = state->point[state->variables - 1];
    return scope ? x : sub(embed(1), x);
  }
  // scale times the sum of eq over the first `count` indices of the rows from `first` on
  DP_HD Ext prefix(Ext rest, u64 first, u64 count) const {
    const u64 bits = rows() - first;
    if (count >> bits) return rest;
    Ext total = embed(0);
    for (u64 b = bits; b-- > 0;) {
      const Ext odd = mul(rest, state->point[first + b]), even = sub(rest, odd);
      if (count >> b & 1) total = add(total, even);
      rest = count >> b & 1 ? odd : even;
    }
    return total;
  }
  // Draws the challenge of a layer, and prepares its rounds.
  template <class Block>
  DP_HD void begin(const Block& block, const Segment* segments) const {
    LayerState& s = *state;
    if (block.leads()) {
      const auto lanes = block.lanes();
      const Ext batch = s.transcript.extension(lanes, "layer");
      if (lanes.lane == 0) s.batch = batch, s.c = add(s.numerator, mul(batch, s.denominator)), s.round = 0;
    }
    for (u64 i = block.first; i < s.variables; i += block.stride) {
      s.inverse[i] = inverse(s.point[i]);
      s.rest[i] = embed(1);
      for (u64 scope = 0; scope < scopes && i < rows(); ++scope) {
        const u64 pairs = (segments[scope].length() + (2ull << i) - 1) >> (i + 1);
        s.rest[i] = sub(s.rest[i], prefix(scale(scope), i + 1, pairs));
      }
    }
    if (rows()) tabulate(block);
    block.sync();
  }
  // Sends a round's polynomial, given its value at 0 and its coefficient at X^2.
  template <class Lanes>
  DP_COLD void end_round(const Lanes& lanes, const Ext& t_0, const Ext& t_2) const {
    LayerState& s = *state;
    const Ext given[2] = {sub(mul(sub(s.c, t_0), s.inverse[s.round]), t_2), t_2};
    s.transcript.absorb(lanes, "gkr", given, 2);
    const Ext r = s.transcript.extension(lanes, "rho");
    if (lanes.lane == 0) {
      send(given, 2);
      s.drawn[s.round++] = r;
      s.c = add(t_0, mul(add(given[0], mul(t_2, r)), r));
    }
    lanes.sync();
  }
  DP_HD void send(const Ext* given, u64 count) const {
    for (u64 i = 0; i < count; ++i)
      for (int c = 0; c < 3; ++c) sent[3 * (state->sent + i) + c] = given[i].c[c];
    state->sent += count;
  }
};

// A round of a layer over its segments, or over their folds at what the round before has drawn, which go to `folded`, for the
// pairs of all scopes: the value at 0 of eq (p_0 q_1 + p_1 q_0), and its coefficient at X^2.
struct LayerRound {
  static constexpr int SUMS = 2;
  LayerRows rows;
  u64 fold;
  Segment in[SCOPES];
  u64* folded[SCOPES];

  DP_HD u64 length(u64 scope) const { return fold ? (in[scope].length() + 1) / 2 : in[scope].length(); }
  DP_HD u64 pairs(u64 scope) const { return (length(scope) + 1) / 2; }
  // what the next round is over
  DP_HD Segment over(u64 scope) const { return fold ? Segment{folded[scope], length(scope), 1} : in[scope]; }
  DP_HD LayerRow row(u64 scope, u64 j) const {
    const LayerState& s = *rows.state;
    const Segment& segment = in[scope];
    const u64 half = length(scope);
    if (fold && j >= half) return Segment::padding(s.batch);
    LayerRow row = segment.row(fold ? 2 * j : j, s.batch);
    if (fold) {
      const LayerRow odd = segment.row(2 * j + 1, s.batch);
      const Ext r = s.drawn[s.round - 1];
DP_PRAGMA(unroll)
      for (int k = 0; k < 4; ++k) row.v[k] = between(row.v[k], odd.v[k], r);
    }
    segment.batched(row, s.batch);
    if (fold) {
DP_PRAGMA(unroll)
      for (int k = 0; k < 4; ++k) store(folded[scope] + k * half + j, 4 * half, row.v[k]);
    }
    return row;
  }
  DP_HD void operator()(u64 i, Ext (&sums)[SUMS]) const {
    const u64 scope = i >= pairs(0), j = scope ? i - pairs(0) : i;
    const LayerRow even = row(scope, 2 * j);
    const Ext weight = rows.weight(rows.state->round, scope, j);
    accumulate(sums[0], mul(sum_of_products(even.v[0], even.v[3], even.v[1], even.v[2]), weight));
    LayerRow step = row(scope, 2 * j + 1);
DP_PRAGMA(unroll)
    for (int k = 0; k < 4; ++k) step.v[k] = sub(step.v[k], even.v[k]);
    accumulate(sums[1], mul(sum_of_products(step.v[0], step.v[3], step.v[1], step.v[2]), weight));
  }
  template <class Lanes>
  DP_HD void finish(const Lanes& lanes, const Ext (&sums)[SUMS]) const {
    const LayerState& s = *rows.state;
    rows.end_round(lanes, add(sums[0], mul(s.batch, s.rest[s.round])), sums[1]);
  }
};

// What is left of `count` layers, from the root on, by one block: their rounds from that which is next, the last variable, which
// is of both roots side by side if it is the scope's own, and the claim about the layer below. The first layer may be begun.
struct Layers {
  LayerRows rows;
  Segment segments[COORDINATES][SCOPES];
  u64* scratch;
  u64 count, begun, only_begin;
  u64 room;  // words of scratch for a scope's folded values

  template <class Block>
  DP_HD void operator()(const Block& block) const {
    for (u64 layer = 0; layer < count; ++layer) {
      LayerState& s = *rows.state;
      LayerRound round{rows, begun && layer == 0, {}, {}};
      for (u64 scope = 0; scope < rows.scopes; ++scope) round.in[scope] = segments[layer][scope];
      if (!begun || layer) rows.begin(block, round.in);
      if (only_begin) return;
      const u64 left = s.variables ? s.variables - 1 : 0, first = s.round;
      block.sync();  // the first thread goes on to change both
      for (u64 i = first, buffer = 0; i < left; ++i, buffer ^= 1) {
        for (u64 scope = 0; scope < rows.scopes; ++scope) round.folded[scope] = scratch + (2 * scope + buffer) * room;
        const u64 pairs = round.pairs(0) + (rows.scopes > 1 ? round.pairs(1) : 0);
        Ext sums[LayerRound::SUMS] = {};
        for (u64 j = block.first; j < pairs; j += block.stride) round(j, sums);
        for (Ext& sum : sums) sum = block.sum(sum);
        if (block.leads()) round.finish(block.lanes(), sums);
        block.sync();
        for (u64 scope = 0; scope < rows.scopes; ++scope) round.in[scope] = round.over(scope);
        round.fold = 1;
      }
      for (u64 scope = 0; scope < rows.scopes; ++scope) round.folded[scope] = scratch + (4 + scope) * room;
      if (block.leads()) end(block.lanes(), round);
      block.sync();
    }
  }
  template <class Lanes>
  DP_HD void end(const Lanes& lanes, const LayerRound& round) const {
    LayerState& s = *rows.state;
    const u64 both = rows.scopes > 1, variables = s.variables;
    LayerRow row = round.row(0, 0);
    Ext(&values)[4] = row.v;
    if (variables) {
      LayerRow step = round.row(both, !both);
      for (int k = 0; k < 4; ++k) step.v[k] = sub(step.v[k], values[k]);
      rows.end_round(lanes, sum_of_products(values[0], values[3], values[1], values[2]),
                     sum_of_products(step.v[0], step.v[3], step.v[1], step.v[2]));
      for (int k = 0; k < 4; ++k) values[k] = add(values[k], mul(step.v[k], s.drawn[s.round - 1]));
    }
    values[1] = sub(values[1], mul(s.batch, values[3]));
    s.transcript.absorb(lanes, "children", values, 4);
    const Ext mu = s.transcript.extension(lanes, "child");
    if (lanes.lane) return;
    rows.send(values, 4);
    s.numerator = between(values[0], values[1], mu);
    s.denominator = between(values[2], values[3], mu);
    s.point[0] = mu;
    for (u64 i = 0; i < variables; ++i) s.point[i + 1] = s.drawn[i];
    s.variables = variables + 1;
  }
};

// -- rows -------------------------------------------------------------------------------------------------------------

// Behind the columns of tables: those that are read at the next row, moved by one row, and selectors. A table has WORDS of
// `tables`: where its cells are, log2 of its rows, its columns, how many are read at the next row, where their numbers
// are in `tables`, and its first item. What comes after next columns are the selectors first, last, transition.
struct FurtherCells {
  static constexpr u64 WORDS = 6;
  const u64* tables;
  u64 count;

  DP_HD void operator()(u64 i) const {
    u64 low = 0, high = count;
    while (high - low > 1) {
      const u64 middle = (low + high) / 2;
      if (tables[middle * WORDS + 5] <= i) low = middle;
      else high = middle;
    }
    const u64 *table = tables + low * WORDS, *next = tables + table[4];
    u64* const cells = reinterpret_cast<u64*>(table[0]);
    const u64 own = i - table[5], n = 1ull << table[1], j = own & (n - 1), k = own >> table[1], moved = table[3];
    u64 v;
    if (k < moved) v = cells[next[k] * n + ((j + 1) & (n - 1))];
    else v = k == moved ? j == 0 : k == moved + 1 ? j == n - 1 : j != n - 1;
    cells[table[2] * n + own] = v;
  }
};

// Binds the lowest variable of k tables of coefficients to what was `drawn`: element j of a table is at j, that and `pitch`,
// that and twice it, tables are `apart`. out has half of each.
struct Fold {
  const u64* in;
  u64* out;
  u64 half, pitch, apart;
  const u64* drawn;

  DP_HD void operator()(u64 i) const {
    const u64 k = i / half, j = i % half;
    const u64* p = in + k * apart + 2 * j;
    const Ext even = load(p, pitch), odd = load(p + 1, pitch);
    store(out + k * (apart / 2) + j, pitch / 2, add(even, mul(odd, load(drawn, 1))));
  }
};

// -- stacks -----------------------------------------------------------------------------------------------------------

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

// The sum over kinds of the products of `high` (count, 3, n) and `low` (count, 2^log_low), whose elements lie side by side.
struct Expand {
  const u64 *high, *low;
  u64* out;  // (3, n 2^log_low)
  u64 n, count, log_low;

  DP_HD void operator()(u64 j) const {
    Ext sum = embed(0);
    for (u64 k = 0; k < count; ++k) {
      const u64* const p = low + 3 * (k << log_low | (j & ((1ull << log_low) - 1)));
      sum = add(sum, mul(load(high + 3 * k * n + (j >> log_low), n), Ext{{p[0], p[1], p[2]}}));
    }
    store(out + j, n << log_low, sum);
  }
};

// The round over coefficients and weights `in` (2, 3, n), or over their fold at r, which goes to `folded`: its coefficients h_1
// and h_2.
struct PairRound {
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
  DP_HD void operator()(u64 j, Ext (&sums)[2]) const {
    const Ext v = value(2 * j, 0), odd_v = value(2 * j + 1, 0), u = value(2 * j, 1), odd_u = value(2 * j + 1, 1);
    accumulate(sums[0], sum_of_products(v, odd_u, odd_v, u));
    accumulate(sums[1], mul(odd_v, odd_u));
  }
};

// What rounds over pairs have sent and drawn, in the backend's memory.
struct PairState {
  Transcript transcript;
  u64 round;
  Ext drawn[COORDINATES], sent[COORDINATES][2];
};

// A round over the pairs of some stacks, which ends by itself: `first` items are of the first stack.
struct PairRounds {
  static constexpr int SUMS = 2;
  PairState* state;
  u64 opening, first;
  PairRound stacks[SCOPES];

  DP_HD void operator()(u64 i, Ext (&sums)[SUMS]) const {
    PairRound own = stacks[i >= first];
    if (own.fold) own.r = state->drawn[state->round - 1];
    own(i >= first ? i - first : i, sums);
  }
  template <class Lanes>
  DP_HD void finish(const Lanes& lanes, const Ext (&sums)[SUMS]) const {
    PairState& s = *state;
    s.transcript.absorb(lanes, opening ? Label("sum") : Label("reduce"), sums, SUMS);
    const Ext r = s.transcript.extension(lanes, opening ? Label("alpha") : Label("fold"));
    if (lanes.lane) return;
    for (int k = 0; k < SUMS; ++k) s.sent[s.round][k] = sums[k];
    s.drawn[s.round++] = r;
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

// At each place the sum of some powers of x: those of place i are from begins[i] to begins[i + 1] among the exponents.
struct ScatterPowers {
  const u64 *places, *begins, *exponents;
  u64* out;
  u64 pitch;
  Ext x;

  DP_HD void operator()(u64 i) const {
    Ext sum = embed(0);
    for (u64 k = begins[i]; k < begins[i + 1]; ++k) {
      Ext power = embed(1), square = x;
      for (u64 e = exponents[k]; e; e >>= 1, square = mul(square, square))
        if (e & 1) power = mul(power, square);
      sum = add(sum, power);
    }
    store(out + places[i], pitch, sum);
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
  EACH(further_cells, FurtherCells)     \
  EACH(eq_tables, EqTables)             \
  EACH(row_fold, RowFold)               \
  EACH(fold, Fold)                      \
  EACH(opened_weights, OpenedWeights)   \
  EACH(expand, Expand)                  \
  SUM(dot, Dot)                         \
  EACH(add_rows, AddRows)               \
  EACH(scatter_powers, ScatterPowers)

// Rounds that end on the device.
#define DP_ROUND_STEPS(ROUND)    \
  ROUND(layer_round, LayerRound) \
  ROUND(pair_rounds, PairRounds)

// What one block does.
#define DP_BLOCK_STEPS(BLOCK)      \
  BLOCK(small_layers, SmallLayers) \
  BLOCK(layers, Layers)            \
  BLOCK(skip_round, SkipRound)     \
  BLOCK(row_round, RowRound)

// Those that a backend needs whose row programs have a matrix of outputs.
#define DP_ROW_PROGRAM_STEPS(EACH, SUM) \
  EACH(leaves, Leaves)                  \
  SUM(run_sums, RunSums)                \
  EACH(between, Between)                \
  SUM(point_sums, PointSums)
