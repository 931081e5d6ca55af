// Witnesses of parts of a circuit that are placed many times: the wires of an instance from those of its inputs.
#pragma once
#include "field/fp.h"
#include "hash/sha256.h"

namespace dp {

using i64 = long long;

// Bit k of an element's words: of its integer, if that is the form it has.
template <class F>
DP_HD bool bit_of(const F& x, u32 k) {
  return x.v[k / LIMB_BITS] >> (k % LIMB_BITS) & 1;
}

// Where instances lie in an array of wires, (wires, batch) elements. A placement has `lanes` of them. Wires of an instance
// are numbered from 0: the constant one, its inputs, its own.
struct Instances {
  const i64* runs;      // (placements, inputs, 2): the wire that is an input of the first instance, and the step to the next
  const i64* own_runs;  // (placements, 2): the first own wire of the first instance, and the step to that of the next
  u32 inputs, own, lanes, batch;
};

// One instance for one witness of the batch: where its wires lie.
struct Instance {
  const i64* runs;
  i64 own_wires, lane;
  u32 inputs, batch, item;

  DP_HD Instance(const Instances& all, u64 number) {
    item = (u32)(number % all.batch);
    number /= all.batch;
    lane = (i64)(number % all.lanes);
    const u64 placement = number / all.lanes;
    runs = all.runs + 2 * placement * all.inputs;
    own_wires = all.own_runs[2 * placement] + lane * all.own_runs[2 * placement + 1];
    inputs = all.inputs;
    batch = all.batch;
  }
  DP_HD u64 input(u32 i) const { return (u64)(runs[2 * i] + lane * runs[2 * i + 1]) * batch + item; }
  DP_HD u64 own(u32 i) const { return (u64)(own_wires + i) * batch + item; }
  DP_HD u64 wire(u32 w) const { return w == 0 ? item : w <= inputs ? input(w - 1) : own(w - 1 - inputs); }
};

// Own wire i is a * b + c, or c where a is empty, of combinations of the wires before it: rows 3 i, 3 i + 1 and 3 i + 2.
// Values 0 and 1 of the dictionary are 1 and -1.
template <class F>
struct Products {
  const u32 *row_ptr, *columns, *value_index;
  const F* values;
};

// The sum of every `step`-th term of a row, from term `begin` on.
template <class F>
DP_HD F combination(const Products<F>& program, u32 row, const F* wires, const Instance& at, u32 begin = 0, u32 step = 1) {
  F sum = F::zero();
  for (u32 k = program.row_ptr[row] + begin; k < program.row_ptr[row + 1]; k += step) {
    const F x = wires[at.wire(program.columns[k])];
    const u32 value = program.value_index[k];
    if (value == 0) {
      sum = sum + x;
    } else if (value == 1) {
      sum = sum - x;
    } else {
      sum = sum + x * program.values[value];
    }
  }
  return sum;
}

template <class F>
DP_HD void run_products(const Products<F>& program, u32 own, F* wires, const Instance& at) {
  for (u32 i = 0; i < own; ++i) {
    const u32 a = 3 * i;
    F result = combination(program, a + 2, wires, at);
    if (program.row_ptr[a] != program.row_ptr[a + 1])
      result = result + combination(program, a, wires, at) * combination(program, a + 1, wires, at);
    wires[at.own(i)] = result;
  }
}

// Own wire i is bit shift + i of the integer that a combination of the wires before it is.
template <class F>
struct BitsOf {
  Products<F> value;  // row 0
  u32 shift;
};

template <class F>
DP_HD void run_bits(const BitsOf<F>& program, u32 own, F* wires, const Instance& at) {
  const F x = combination(program.value, 0, wires, at).from_montgomery();
  for (u32 i = 0; i < own; ++i) wires[at.own(i)] = bit_of(x, program.shift + i) ? F::one() : F::zero();
}

// A block of SHA-256 whose wires are bits: where its 768 bits of message and state come from (the number of an input, or
// a known bit), and which bit of a value that `sha256_compress` keeps each own wire is.
constexpr int SHA256_ZERO = -1, SHA256_ONE = -2;

struct Sha256Wires {
  const int* sources;  // (768,), each word's most significant bit first
  const u32* bits;     // (own,): the value's number << 8 | its bit << 1 | whether the wire is the complement
};

template <class F>
DP_HD u32 sha256_word(const Sha256Wires& block, int word, const F* wires, const Instance& at) {
  u32 value = 0;
  for (int i = 32 * word; i < 32 * word + 32; ++i) {
    const int source = block.sources[i];
    const bool bit = source < 0 ? source == SHA256_ONE : !wires[at.input((u32)source)].is_zero();
    value = value << 1 | (u32)bit;
  }
  return value;
}

DP_HD bool sha256_bit(const u64* kept, u32 bit) { return ((kept[bit >> 8] >> (bit >> 1 & 127)) ^ bit) & 1; }

}  // namespace dp
