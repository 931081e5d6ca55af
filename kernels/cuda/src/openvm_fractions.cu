// LogUp's fractional sums over BabyBear's extension: the tree of fractions, and its GKR reduction with the transcript on the
// device. kernels/interface/openvm_fractions.py describes both.
//
// Elements are in Montgomery form. A layer with 2^k fractions has numerators, then denominators, of which the first ceil(count /
// 2^(n - k)) are stored: the others are 0 over paddings[k]. The leaves, layer n, are two arrays of their own, with numerators in
// the base field. The others are in `tree`, layer k from element place[k] on. If n > 3, layer n - 1 is never stored, but added up
// when it is read; and layer n - 2 is stored in the place of the layers above it, when these are done.
//
// A layer of v variables has 2^(v+1) fractions, and a sumcheck of v rounds over 2^v rows, of p_0 + batch q_0, p_1, q_0 and q_1. Its
// rows folded t times, in 4 planes, take the place of layer v + 1 - t, which is done. Those of layers n - 2 and n - 1 take the two
// parts of the tree in turn, and those of the leaves the tree and the place of their denominators. Of the leaves folded once, the
// last plane takes that of their numerators: an element lies where the four numerators were that its row is made from.
//
// A large round is a launch of blocks that walk over rows, a thread each; the last block to end closes the round. What is left of a
// layer, and whole small layers, are rounds of one block. Bound: memory for large rounds, latency for the others.
#include "field/babybear.h"
#include "openvm_sponge.h"
#include "openvm_sums.h"
#include "threads.h"

using namespace dp;
using bb::m::Ext;
using dp::poseidon2_babybear::Constants;

constexpr u32 COORDINATES = 32;  // most of a point; must equal that in cuda/openvm/fractions.py
constexpr u32 LANES = 32;

// What the rounds of a layer share. Must equal STATE in cuda/openvm/fractions.py.
struct LayerState {
  bb::Sponge sponge;
  u32 sent, unused;                                // elements sent so far
  Ext numerator, denominator, batch, claim, scale;  // the claim of a round, and the eq of the challenges before it
  // rest: what rows that are not stored add to a round's value at 0
  Ext point[COORDINATES], inverse[COORDINATES], drawn[COORDINATES], rest[COORDINATES];
};

// A product as a call. One after the other, on few threads, products wait for their instructions: calls have few of these.
__device__ __noinline__ Ext product(Ext a, Ext b) { return bb::m::mul(a, b); }

template <bool CALLS>
__device__ __forceinline__ Ext times(const Ext& a, const Ext& b) {
  return CALLS ? product(a, b) : bb::m::mul(a, b);
}
template <bool CALLS>
__device__ __forceinline__ Ext between(const Ext& a, const Ext& b, const Ext& x) {
  return bb::m::add(a, times<CALLS>(bb::m::sub(b, a), x));
}

struct Fraction {
  Ext p, q;
};

__device__ __forceinline__ Fraction sum(const Fraction& a, const Fraction& b) {
  return {bb::m::add(bb::m::mul(a.p, b.q), bb::m::mul(b.p, a.q)), bb::m::mul(a.q, b.q)};
}

// A layer that is stored.
struct Layer {
  const u32* base;  // numerators in the base field, or null
  const uint4 *p, *q;
  u64 count;  // fractions that are stored
  Ext padding;

  __device__ __forceinline__ Fraction at(u64 i) const {
    if (i >= count) return {Ext::zero(), padding};
    return {base ? Ext::base(base[i]) : bb::m::load(p[i]), bb::m::load(q[i])};
  }
  // Fraction i of the layer above.
  __device__ __forceinline__ Fraction above(u64 i) const { return sum(at(2 * i), at(2 * i + 1)); }
  // The same of leaves, for fewer products.
  __device__ __forceinline__ Fraction above_leaves(u64 i) const {
    const bool both = 2 * i + 1 < count;
    if (2 * i >= count) return {Ext::zero(), bb::m::square(padding)};
    const Ext q0 = bb::m::load(q[2 * i]), q1 = both ? bb::m::load(q[2 * i + 1]) : padding;
    const u32 p0 = base[2 * i], p1 = both ? base[2 * i + 1] : 0;
    return {bb::m::add(bb::m::mul(q1, p0), bb::m::mul(q0, p1)), bb::m::mul(q0, q1)};
  }
};

// Must equal REDUCTION in cuda/openvm/fractions.py.
struct Reduction {
  const Constants* with;
  LayerState* state;
  Ext* sent;
  u32* numerators;
  uint4* denominators;
  uint4* tree;
  const uint4* paddings;
  // eq for every first variable, of the lower half of the variables and, from element `high` on, of the others: that of the
  // last m of them from element 2^m on.
  uint4* eq;
  u64 high, log_leaves, count, restored;  // restored: whether layer n - 2 is stored by now
  u64 place[COORDINATES];

  // ceil(count / 2^bits)
  __device__ u64 stored(u32 bits) const { return (count + (1ull << bits) - 1) >> bits; }
  __device__ bool is_large() const { return log_leaves > 3; }
  __device__ bool is_stored(u32 k) const {
    return !is_large() || k == log_leaves || k + 2 < log_leaves || (restored && k + 2 == log_leaves);
  }
  __device__ Layer layer(u32 k) const {
    const u64 own = stored(log_leaves - k);
    const Ext padding = bb::m::load(paddings[k]);
    if (k == log_leaves) return {numerators, nullptr, denominators, own, padding};
    const uint4* const in = tree + place[k];
    return {nullptr, in, in + own + (own & 1), own, padding};
  }
  // Where rows of layer k go that are folded `times` times.
  __device__ uint4* folds(u32 k, u32 times) const {
    if (k == log_leaves) return times % 2 ? tree : denominators;
    if (!is_large() || k + 2 < log_leaves) return tree + place[k - times];
    return (log_leaves - k + times) % 2 ? tree + place[log_leaves - 1] : tree;
  }
  // Where the last plane of rows of layer k goes that are folded once, null if it is with the others.
  __device__ uint4* last_plane(u32 k) const {
    const bool is_apart = k == log_leaves && is_large() && count % 4 == 0;
    return is_apart ? reinterpret_cast<uint4*>(numerators) : nullptr;
  }
};

struct Row {
  Ext p0, p1, q0, q1;  // p0 with batch times q0 in it

  template <bool CALLS>
  __device__ __forceinline__ Ext form() const {
    return bb::m::add(times<CALLS>(p0, q1), times<CALLS>(p1, q0));
  }
};

__device__ __forceinline__ Row difference(const Row& a, const Row& b) {
  return {bb::m::sub(a.p0, b.p0), bb::m::sub(a.p1, b.p1), bb::m::sub(a.q0, b.q0), bb::m::sub(a.q1, b.q1)};
}
template <bool CALLS>
__device__ __forceinline__ Row between(const Row& a, const Row& b, const Ext& x) {
  return {between<CALLS>(a.p0, b.p0, x), between<CALLS>(a.p1, b.p1, x), between<CALLS>(a.q0, b.q0, x),
          between<CALLS>(a.q1, b.q1, x)};
}

// Rows of a layer of v variables before a round, folded at the challenges of all rounds before it. The layer is the one that is not
// stored if ABOVE is true, which matters in rounds 0 and 1 alone.
template <bool ABOVE, bool CALLS>
struct Rows {
  Layer layer;      // or that below it, which is stored
  const uint4* in;  // rows that are folded once less, from round 2 on
  uint4* out;       // where folded rows go
  uint4* apart;     // the last plane of rows folded once, null if it is with the others
  u32 round;
  u64 before, count;  // stored rows of the round before, and of this one
  Ext padding, batch, x;

  __device__ Rows(const Reduction& a, u32 v, u32 round)
      : layer(a.layer(ABOVE ? v + 2 : v + 1)), round(round) {
    const u32 bits = a.log_leaves - v + round;
    count = a.stored(bits), before = round ? a.stored(bits - 1) : 0;
    in = round < 2 ? nullptr : a.folds(v + 1, round - 1);
    out = round ? a.folds(v + 1, round) : nullptr;
    apart = ABOVE ? nullptr : a.last_plane(v + 1);
    padding = bb::m::load(a.paddings[v + 1]);
    batch = a.state->batch;
    if (round) x = a.state->drawn[round - 1];
  }
  __device__ u64 pairs() const { return (count + 1) / 2; }
  __device__ __forceinline__ Fraction fraction(u64 i) const { return ABOVE ? layer.above_leaves(i) : layer.at(i); }
  // Row j of the layer, without the batch.
  __device__ __forceinline__ Row fractions(u64 j) const {
    const Fraction even = fraction(2 * j), odd = fraction(2 * j + 1);
    return {even.p, odd.p, even.q, odd.q};
  }
  __device__ Row rest() const { return {times<CALLS>(batch, padding), Ext::zero(), padding, padding}; }
  __device__ Row folded(u64 j) const {
    if (j >= before) return rest();
    const uint4* const last = round == 2 && apart ? apart : in + 3 * before;
    return {bb::m::load(in[j]), bb::m::load(in[before + j]), bb::m::load(in[2 * before + j]), bb::m::load(last[j])};
  }
  // Row j of this round, which is kept if it is folded.
  __device__ __forceinline__ Row row(u64 j) const {
    if (j >= count) return rest();
    Row row;
    if (round == 0) row = fractions(j);
    else if (round == 1) row = between<CALLS>(fractions(2 * j), fractions(2 * j + 1), x);
    else row = between<CALLS>(folded(2 * j), folded(2 * j + 1), x);
    if (round < 2) row.p0 = bb::m::add(row.p0, times<CALLS>(row.q0, batch));
    if (round) {
      out[j] = bb::m::store(row.p0), out[count + j] = bb::m::store(row.p1);
      uint4* const last = round == 1 && apart ? apart : out + 3 * count;
      out[2 * count + j] = bb::m::store(row.q0), last[j] = bb::m::store(row.q1);
    }
    return row;
  }
};

// The weight of a pair of rows: eq of the point's coordinates behind the round's own.
struct Weights {
  const uint4 *low, *high;
  u32 low_bits;

  __device__ Weights(const Reduction& a, u32 v, u32 round) {
    const u32 middle = v / 2, left = v - round - 1;
    low_bits = round + 1 < middle ? middle - round - 1 : 0;
    low = a.eq + (1ull << low_bits);
    high = a.eq + a.high + (1ull << (left - low_bits));
  }
  template <bool CALLS>
  __device__ __forceinline__ Ext at(u64 j) const {
    const Ext weight = bb::m::load(high[j >> low_bits]);
    return low_bits ? times<CALLS>(weight, bb::m::load(low[j & ((1ull << low_bits) - 1)])) : weight;
  }
};

// The sums of a round over all pairs of rows: of the form's value at 0 and its coefficient at X^2. A thread has every row that is
// `stride` apart, from `first` on; that of an odd row takes its difference to the even row from the lane before.
template <bool ABOVE, bool CALLS>
__device__ __forceinline__ void add_pairs(const Rows<ABOVE, CALLS>& rows, const Weights& weights, u64 first, u64 stride,
                                          Ext (&sums)[2]) {
  constexpr u32 ALL = 0xffffffff;
  const bool is_odd = threadIdx.x & 1;
  const u64 end = 2 * rows.pairs();
  Ext sum = Ext::zero();
  for (u64 begin = first - threadIdx.x % LANES; begin < end; begin += stride) {
    const u64 j = begin + threadIdx.x % LANES;
    Row row = rows.row(j), even;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      even.p0[c] = __shfl_sync(ALL, row.p0[c], threadIdx.x & (LANES - 2));
      even.p1[c] = __shfl_sync(ALL, row.p1[c], threadIdx.x & (LANES - 2));
      even.q0[c] = __shfl_sync(ALL, row.q0[c], threadIdx.x & (LANES - 2));
      even.q1[c] = __shfl_sync(ALL, row.q1[c], threadIdx.x & (LANES - 2));
    }
    if (is_odd) row = difference(row, even);
    if (j < end) sum = bb::m::add(sum, times<CALLS>(row.template form<CALLS>(), weights.template at<CALLS>(j / 2)));
  }
  sums[0] = is_odd ? Ext::zero() : sum, sums[1] = is_odd ? sum : Ext::zero();
}

__device__ __forceinline__ Ext twice(const Ext& a) { return bb::m::add(a, a); }

// Closes a round of v by the first warp: sends the polynomial's values at 1, 2 and 3, and draws a challenge.
__device__ __noinline__ void close_round(const Reduction& a, u32 round, const Ext* sums) {
  LayerState& s = *a.state;
  const Ext z = s.point[round], other = bb::m::sub(Ext::one(), z), scale = s.scale;
  const Ext t0 = bb::m::add(sums[0], s.rest[round]), t2 = sums[1];
  // The claim is (1 - z) t(0) + z t(1).
  const Ext t1 = product(bb::m::sub(s.claim, product(other, t0)), s.inverse[round]);
  // t(2) = 2 t(1) - t(0) + 2 t2, t(3) = 3 t(1) - 2 t(0) + 6 t2
  const Ext at2 = bb::m::add(bb::m::sub(twice(t1), t0), twice(t2));
  const Ext at3 = bb::m::add(bb::m::sub(bb::m::add(twice(t1), t1), twice(t0)), bb::m::add(twice(twice(t2)), twice(t2)));
  // eq is z at 1, and each step adds 2 z - 1.
  const Ext step = bb::m::sub(z, other), eq2 = bb::m::add(z, step), eq3 = bb::m::add(eq2, step);
  const Ext given[3] = {product(product(scale, z), t1), product(product(scale, eq2), at2), product(product(scale, eq3), at3)};
  bb::WarpSponge sponge(&s.sponge, a.with);
  for (int i = 0; i < 3; ++i) sponge.observe(given[i]);
  const Ext r = sponge.sample_ext();
  sponge.keep();
  const Ext slope = bb::m::sub(bb::m::sub(t1, t0), t2);
  if (threadIdx.x == 0) {
    s.claim = bb::m::add(t0, product(r, bb::m::add(slope, product(r, t2))));
    s.scale = product(scale, bb::m::add(other, product(r, step)));
    s.drawn[round] = r;
    for (int i = 0; i < 3; ++i) a.sent[s.sent + i] = given[i];
    s.sent += 3;
  }
}

// 1 / a for an element that is not zero
__device__ __noinline__ u32 inverse(u32 a) {
  u32 result = bb::m::ONE;
  for (u32 exponent = bb::P - 2; exponent; exponent >>= 1, a = bb::m::mul(a, a))
    if (exponent & 1) result = bb::m::mul(result, a);
  return result;
}

// With the conjugate c = a0 - a1 x + a2 x^2 - a3 x^3, a c lies in F[x^2], where (u + v y)(u - v y) = u^2 - 11 v^2.
__device__ __forceinline__ Ext inverse(const Ext& a) {
  const Ext c{{a[0], bb::sub(0, a[1]), a[2], bb::sub(0, a[3])}}, both = bb::m::mul(a, c);
  const u32 u = both[0], v = both[2];
  const u32 norm = inverse(bb::sub(bb::m::mul(u, u), bb::m::mul(bb::m::W, bb::m::mul(v, v))));
  return bb::m::mul(c, Ext{{bb::m::mul(u, norm), 0, bb::sub(0, bb::m::mul(v, norm)), 0}});
}

// The sum of eq over the pairs of rows of a round that are not stored.
__device__ __noinline__ Ext behind(const Reduction& a, u32 v, u32 round) {
  const u32 bits = v - round - 1;
  const u64 pairs = a.stored(a.log_leaves - bits);
  if (pairs >> bits) return Ext::zero();
  Ext rest = Ext::one();
  Ext stored = Ext::zero();
#pragma unroll 1
  for (u32 b = bits; b-- > 0;) {
    const Ext odd = product(rest, a.state->point[round + 1 + b]), even = bb::m::sub(rest, odd);
    const bool inside = pairs >> b & 1;
    if (inside) stored = bb::m::add(stored, even);
    rest = inside ? odd : even;
  }
  return bb::m::sub(Ext::one(), stored);
}

// Draws the challenge of a layer of v > 0 variables, and prepares its rounds, by the threads of a block.
__device__ __noinline__ void begin_layer(const Reduction& a, u32 v) {
  LayerState& s = *a.state;
  if (threadIdx.x < LANES) {
    bb::WarpSponge sponge(&s.sponge, a.with);
    const Ext batch = sponge.sample_ext();
    sponge.keep();
    if (threadIdx.x == 0) {
      s.batch = batch, s.scale = Ext::one();
      s.claim = bb::m::add(s.numerator, product(batch, s.denominator));
    }
  }
  const u32 own = threadIdx.x + LANES - blockDim.x;  // of the last warp
  Ext rest = Ext::zero();
  if (own < v) {
    s.inverse[own] = inverse(s.point[own]);
    rest = behind(a, v, own);
  }
  // Each level of the tables has one variable more, before the others.
  const u32 middle = v / 2, most = v - middle;
  uint4* const high = a.eq + a.high;
  if (threadIdx.x == 0) a.eq[1] = high[1] = bb::m::store(Ext::one());
  for (u32 bits = 0; bits < most; ++bits) {
    __syncthreads();
    const u64 size = 1ull << bits;
    for (u64 i = threadIdx.x; i < 2 * size; i += blockDim.x) {
      const bool is_high = i >= size;
      if (!is_high && bits >= middle) continue;
      uint4* const table = is_high ? high : a.eq;
      const u64 j = is_high ? i - size : i;
      const Ext x = s.point[(is_high ? v : middle) - 1 - bits], whole = bb::m::load(table[size + j]);
      const Ext odd = product(whole, x);
      table[2 * (size + j)] = bb::m::store(bb::m::sub(whole, odd));
      table[2 * (size + j) + 1] = bb::m::store(odd);
    }
  }
  if (own < v) {  // the batch is there: a level at least was behind a barrier
    const Ext padding = bb::m::load(a.paddings[v + 1]);
    s.rest[own] = product(rest, product(s.batch, bb::m::square(padding)));
  }
  __syncthreads();
}

// Ends a layer of v variables by the first warp: sends its fractions at the challenges, and moves the claim to the layer below.
__device__ __noinline__ void end_layer(const Reduction& a, u32 v) {
  LayerState& s = *a.state;
  Row row;
  if (v) {
    const Rows<false, true> rows(a, v, v);
    row = rows.row(0);
    row.p0 = bb::m::sub(row.p0, product(rows.batch, row.q0));
  } else {
    const Layer layer = a.layer(1);
    const Fraction even = layer.at(0), odd = layer.at(1);
    row = {even.p, odd.p, even.q, odd.q};
  }
  const Ext before = threadIdx.x < v ? s.drawn[threadIdx.x] : Ext::zero();
  bb::WarpSponge sponge(&s.sponge, a.with);
  sponge.observe(row.p0), sponge.observe(row.q0), sponge.observe(row.p1), sponge.observe(row.q1);
  const Ext mu = sponge.sample_ext();
  sponge.keep();
  if (threadIdx.x < v) s.point[threadIdx.x + 1] = before;
  if (threadIdx.x) return;
  s.point[0] = mu;
  s.numerator = between<true>(row.p0, row.p1, mu), s.denominator = between<true>(row.q0, row.q1, mu);
  Ext* const sent = a.sent + s.sent;
  sent[0] = row.p0, sent[1] = row.p1, sent[2] = row.q0, sent[3] = row.q1;
  s.sent += 4;
}

// What the fractions of each layer are over that are not stored.
extern "C" __global__ void openvm_paddings(const uint4* of_leaves, uint4* out, u32 log_leaves) {
  if (global_thread()) return;
  Ext padding = bb::m::load(*of_leaves);
  for (u32 k = log_leaves;; --k, padding = bb::m::square(padding)) {
    out[k] = bb::m::store(padding);
    if (k == 0) return;
  }
}

// Fraction i of layer k, if it is one that is stored.
__device__ __forceinline__ void put(const Reduction& a, u32 k, u64 i, const Fraction& fraction) {
  const u64 stored = a.stored(a.log_leaves - k);
  if (i >= stored || !a.is_stored(k)) return;
  uint4* const out = a.tree + a.place[k];
  out[i] = bb::m::store(fraction.p);
  out[stored + (stored & 1) + i] = bb::m::store(fraction.q);
}

// Up to `levels` <= 7 layers above that with 2^k fractions. A thread adds up four fractions; lanes exchange their sums.
extern "C" __global__ void __launch_bounds__(THREADS)
    openvm_fraction_levels(const __grid_constant__ Reduction a, u32 k, u32 levels) {
  constexpr u32 ALL = 0xffffffff;
  const u64 i = global_thread();
  const Layer in = a.layer(k);
  const bool of_leaves = k == a.log_leaves;
  const Fraction first = of_leaves ? in.above_leaves(2 * i) : in.above(2 * i);
  const Fraction second = of_leaves ? in.above_leaves(2 * i + 1) : in.above(2 * i + 1);
  put(a, k - 1, 2 * i, first);
  put(a, k - 1, 2 * i + 1, second);
  if (levels == 1) return;
  Fraction own = sum(first, second);
  for (u32 level = 2;; ++level) {
    const u32 merged = level - 2;
    if (!(i & ((1u << merged) - 1))) put(a, k - level, i >> merged, own);
    if (level == levels) return;
    Fraction other;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      other.p[c] = __shfl_xor_sync(ALL, own.p[c], 1u << merged);
      other.q[c] = __shfl_xor_sync(ALL, own.q[c], 1u << merged);
    }
    own = sum(own, other);
  }
}

template <bool ABOVE>
__device__ __forceinline__ void layer_round(const Reduction& a, u32 v, u32 round, Ext* partial, u32* ended) {
  __shared__ Ext total[2];
  Ext sums[2];
  {
    const Rows<ABOVE, false> rows(a, v, round);
    const Weights weights(a, v, round);
    add_pairs(rows, weights, global_thread(), global_threads(), sums);
  }
  if (bb::grid_sums(sums, total, partial, ended) && threadIdx.x < LANES) close_round(a, round, total);
}

// A round of a layer of v variables.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
    openvm_layer_round(const __grid_constant__ Reduction a, u32 v, u32 round, Ext* partial, u32* ended) {
  layer_round<false>(a, v, round, partial, ended);
}

// Round 0 or 1 of the layer that is not stored.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
    openvm_round_above(const __grid_constant__ Reduction a, u32 v, u32 round, Ext* partial, u32* ended) {
  layer_round<true>(a, v, round, partial, ended);
}

// What is left of the layer of v variables from a round on, by one block; it begins the layer before round 0. Rounds 0 and 1 of the
// layer that is not stored are not among them. Then the next
// layers, up to that of `last` variables; of one more only the beginning, if `begins`.
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    openvm_layers(const __grid_constant__ Reduction a, u32 v, u32 round, u32 last, u32 begins) {
  __shared__ Ext total[2];
  for (; v <= last; ++v, round = 0) {
    if (v && !round) begin_layer(a, v);
    for (; round < v; ++round) {
      Ext sums[2];
      {
        const Rows<false, true> rows(a, v, round);
        const Weights weights(a, v, round);
        add_pairs(rows, weights, threadIdx.x, blockDim.x, sums);
      }
      bb::block_sums(sums, total);
      if (threadIdx.x < LANES) close_round(a, round, total);
      __syncthreads();
    }
    if (threadIdx.x < LANES) end_layer(a, v);
    __syncthreads();
  }
  if (begins) begin_layer(a, v);
}
