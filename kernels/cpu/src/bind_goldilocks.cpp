// Python bindings of the Goldilocks transforms, hashes and the levels of Merkle trees. Elements and digests' words are
// uint64; see kernels/cpu/goldilocks/transforms.py and kernels/cpu/goldilocks/merkle.py for the shapes.
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "goldilocks_lde.h"
#include "goldilocks_multilinear.h"
#include "goldilocks_ops.h"
#include "hash/poseidon2.h"
#include "hash/poseidon2_bn254.h"

namespace dp {

namespace {

const GoldilocksOps& ops_of(const std::string& name) {
  for (const GoldilocksOps* ops : goldilocks_ops())
    if (name == ops->name) return *ops;
  throw std::invalid_argument("unknown instruction set " + name);
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const GoldilocksOps* ops : goldilocks_ops()) names.push_back(ops->name);
  return names;
}

template <auto GoldilocksOps::*op>
void elementwise(Pool& pool, const std::string& set, InWords a, InWords b, OutWords out) {
  const GoldilocksOps& ops = ops_of(set);
  const size_t n = out.size(), step = b.size() == 1 ? 0 : 1;
  expect(a, n, "a");
  if (step) expect(b, n, "b");
  const u64 *pa = a.data(), *pb = b.data();
  u64* po = out.data();
  nb::gil_scoped_release release;
  const size_t whole = n / ops.lanes;
  pool.ranges(whole, 4096 / ops.lanes, [&](size_t begin, size_t end) {
    const size_t at = begin * ops.lanes;
    (ops.*op)(pa + at, pb + at * step, step, po + at, (end - begin) * ops.lanes);
  });
  const size_t at = whole * ops.lanes;
  (GOLDILOCKS_PORTABLE.*op)(pa + at, pb + at * step, step, po + at, n - at);
}

void lde(Pool& pool, const std::string& set, InWords columns, int log_n, u64 root, InWords shifts, OutWords out) {
  const GoldilocksOps& ops = ops_of(set);
  if (log_n < 0 || log_n > 32) throw std::invalid_argument("log_n: out of range");
  if (shifts.size() == 0) throw std::invalid_argument("shifts: empty");
  LdeCall call{};
  call.log_n = log_n;
  call.width = count_of(columns, (size_t)1 << log_n, "columns");
  call.cosets = shifts.size();
  expect(out, columns.size() * shifts.size(), "out");
  call.columns = columns.data();
  call.out = out.data();
  call.root = root;
  call.shifts = shifts.data();
  nb::gil_scoped_release release;
  goldilocks_lde(pool, ops, call);
}

void encode(Pool& pool, const std::string& set, InWords coefficients, int log_n, u64 root, InWords shifts, OutWords out) {
  if (log_n < 0 || log_n > 32) throw std::invalid_argument("log_n: out of range");
  if (shifts.size() == 0) throw std::invalid_argument("shifts: empty");
  EncodeCall call{};
  call.log_n = log_n;
  call.width = count_of(coefficients, (size_t)1 << log_n, "coefficients");
  call.cosets = shifts.size();
  expect(out, coefficients.size() * shifts.size(), "out");
  call.coefficients = coefficients.data();
  call.out = out.data();
  call.root = root;
  call.shifts = shifts.data();
  nb::gil_scoped_release release;
  goldilocks_encode(pool, ops_of(set), call);
}

void interpolate_runs(Pool& pool, const std::string& set, OutWords values, int log_run, u64 root) {
  if (log_run < 0 || log_run > 16) throw std::invalid_argument("log_run: out of range");
  const size_t size = (size_t)1 << log_run, runs = values.size() / size;
  if (runs * size != values.size()) throw std::invalid_argument("values: not whole runs");
  u64* data = values.data();
  nb::gil_scoped_release release;
  goldilocks_interpolate_runs(pool, ops_of(set), data, runs, log_run, root);
}

// The runs from `first` on, as many as `out` (cells, rows) takes, of `cells` (columns, next columns, others) of 2^log_n rows.
void move_runs(Pool& pool, const std::string& set, InWords cells, int log_n, int log_run, u64 root, u64 shift, size_t columns,
               InWords next, InWords read, size_t first, OutWords out) {
  if (log_run < 0 || log_run > 6 || log_n < log_run || log_n > 32) throw std::invalid_argument("log_run: out of range");
  MoveCall call{};
  call.width = count_of(cells, (size_t)1 << log_n, "cells");
  call.all_runs = (size_t)1 << (log_n - log_run);
  if (columns + next.size() > call.width) throw std::invalid_argument("next: more than there are cells");
  expect(read, call.width, "read");
  for (size_t k = 0; k < next.size(); ++k)
    if (next.data()[k] >= columns) throw std::invalid_argument("next: no such column");
  call.runs = call.width ? count_of(out, call.width << log_run, "out") : 0;
  if (first > call.all_runs || call.runs > call.all_runs - first) throw std::invalid_argument("first: beyond the last run");
  if (call.runs == 0) return;
  call.in = cells.data();
  call.out = out.data();
  call.columns = columns;
  call.first = first;
  call.log_run = log_run;
  call.root = root;
  call.shift = shift;
  call.next = next.data();
  call.next_count = next.size();
  call.read = read.data();
  nb::gil_scoped_release release;
  goldilocks_move_runs(pool, ops_of(set), call);
}

void bind_runs(Pool& pool, const std::string& set, InWords columns, InWords weights, OutWords out) {
  const size_t size = count_of(weights, 3, "weights");
  if (size == 0) throw std::invalid_argument("runs of no element");
  const size_t runs = count_of(columns, size, "columns");
  expect(out, 3 * runs, "out");
  const u64 *in = columns.data(), *w = weights.data();
  u64* words = out.data();
  nb::gil_scoped_release release;
  goldilocks_bind_runs(pool, ops_of(set), in, runs, size, w, words);
}

void sum_runs(Pool& pool, const std::string& set, InWords columns, size_t size, InWords weights, OutWords out) {
  if (size == 0 || columns.size() == 0) throw std::invalid_argument("runs of no element");
  const size_t runs = count_of(columns, size, "columns"), sets = count_of(weights, runs, "weights");
  if (sets % 3) throw std::invalid_argument("weights: not of three coordinates");
  expect(out, sets * size, "out");
  const u64 *in = columns.data(), *w = weights.data();
  u64* words = out.data();
  nb::gil_scoped_release release;
  goldilocks_sum_runs(pool, ops_of(set), in, runs, size, w, sets, words);
}

// The arguments hold addresses of arrays, which the caller keeps.
void step(Pool& pool, const std::string& set, const std::string& name, const nb::bytes& arguments, size_t items,
          int log_classes, OutWords out) {
  ops_of(set);  // it is known
  if (log_classes < 0 || log_classes > 32) throw std::invalid_argument("log_classes: out of range");
  const void* bytes = arguments.c_str();
  const size_t size = arguments.size(), words = out.size();
  u64* sums = out.data();
  nb::gil_scoped_release release;
  multilinear_step(pool, set, name, bytes, size, items, log_classes, sums, words);
}

constexpr size_t HASH_GRAIN = 256;  // digests; below, waking a thread costs more than it saves

// What hashes most messages at once of those that leave none of n over.
const HashOps& hash_of(const GoldilocksOps& all, const std::string& name) {
  if (name == "keccak256") return *all.keccak;
  if (name == "poseidon2") return *all.poseidon2;
  if (name == "poseidon2-bn254") return poseidon2_bn254_ops(all);
  throw std::invalid_argument("unknown hash " + name);
}

// The functions that take n messages, a multiple of their lanes.
const HashOps& hasher(const HashOps& widest, size_t n) {
  const HashOps* ops = &widest;
  while (n % ops->lanes != 0) ops = ops->narrower;
  return *ops;
}

// body(begin, end) in pieces whose ends are multiples of `lanes`
template <class Body>
void hash_ranges(Pool& pool, const HashOps& ops, size_t n, const Body& body) {
  const size_t lanes = ops.lanes;
  pool.ranges(n / lanes, HASH_GRAIN / lanes, [&](size_t begin, size_t end) { body(begin * lanes, end * lanes); });
}

// Calls take(lane, place) for the items from `begin` on, one for each lane, of runs of `part` that lie `apart` from each other: for
// runs that are shorter than the lanes, whose items are gathered.
template <class Take>
void gather(size_t lanes, size_t begin, size_t part, size_t apart, const Take& take) {
  for (size_t lane = 0; lane < lanes; ++lane) take(lane, (begin + lane) / part * apart + (begin + lane) % part);
}

// Leaves of matrices of one height. Matrix m has widths[m] columns of `cosets` times `n` elements. Leaf (k, j), j < n' =
// n / arity, holds elements (k, j + t n') for t < arity, each through all columns.
void leaves(Pool& pool, const std::string& set, const std::string& hash, std::vector<InWords> matrices, InWords header,
            size_t cosets, size_t n, size_t arity, OutWords out) {
  const HashOps& all = hash_of(ops_of(set), hash);
  if (cosets == 0 || n == 0 || arity == 0 || n % arity != 0) throw std::invalid_argument("leaves: no such shape");
  const size_t part = n / arity;
  expect(out, 4 * cosets * part, "out");
  std::vector<const u64*> columns;
  for (size_t t = 0; t < arity; ++t)
    for (const InWords& m : matrices)
      for (size_t c = 0, width = count_of(m, cosets * n, "matrix"); c < width; ++c)
        columns.push_back(m.data() + c * cosets * n + t * part);
  const u64* head = header.data();
  const size_t heads = header.size(), stride = cosets * part;
  u64* words = out.data();
  nb::gil_scoped_release release;
  const HashOps& ops = hasher(all, stride);
  const size_t lanes = ops.lanes;
  hash_ranges(pool, ops, stride, [&](size_t begin, size_t end) {
    if (part % lanes == 0) {
      while (begin < end) {  // one coset at a time
        const size_t j = begin % part, count = std::min(part - j, end - begin);
        ops.leaves(columns.data(), columns.size(), head, heads, begin / part * n + j, count, words + begin, stride);
        begin += count;
      }
      return;
    }
    std::vector<u64> gathered(columns.size() * lanes);
    std::vector<const u64*> own(columns.size());
    for (size_t c = 0; c < own.size(); ++c) own[c] = gathered.data() + c * lanes;
    for (; begin < end; begin += lanes) {
      gather(lanes, begin, part, n, [&](size_t lane, size_t from) {
        for (size_t c = 0; c < own.size(); ++c) gathered[c * lanes + lane] = columns[c][from];
      });
      ops.leaves(own.data(), own.size(), head, heads, 0, lanes, words + begin, stride);
    }
  });
}

// The level above one of `cosets` runs: node j of a run of n from nodes j + t n, t < arity, of the run below. The arity is 2,
// or 4 for a hash that has quads.
void parents(Pool& pool, const std::string& set, const std::string& hash, u64 tag, InWords level, size_t cosets,
             size_t arity, OutWords out) {
  const HashOps& all = hash_of(ops_of(set), hash);
  const size_t nodes = count_of(out, 4, "out");
  if (cosets == 0 || nodes == 0 || nodes % cosets != 0 || (arity != 2 && (arity != 4 || all.quads == nullptr)))
    throw std::invalid_argument("parents: no such shape");
  expect(level, arity * out.size(), "level");
  const size_t n = nodes / cosets, below = arity * nodes;
  const u64* in = level.data();
  u64* words = out.data();
  nb::gil_scoped_release release;
  const HashOps& ops = hasher(all, nodes);
  const size_t lanes = ops.lanes;
  // `count` nodes, whose children lie `apart` from each other in a level of `child_stride` digests.
  const auto hash_nodes = [&](const u64* child, size_t child_stride, size_t apart, size_t count, u64* to) {
    if (arity == 2) ops.pairs(tag, child, child_stride, child + apart, child_stride, count, to, nodes);
    else ops.quads(child, child_stride, apart, count, to, nodes);
  };
  hash_ranges(pool, ops, nodes, [&](size_t begin, size_t end) {
    if (n % lanes == 0) {
      while (begin < end) {  // one coset at a time
        const size_t j = begin % n, count = std::min(n - j, end - begin);
        hash_nodes(in + begin / n * arity * n + j, below, n, count, words + begin);
        begin += count;
      }
      return;
    }
    std::vector<u64> gathered(4 * arity * lanes);
    for (; begin < end; begin += lanes) {
      gather(lanes, begin, n, arity * n, [&](size_t lane, size_t from) {
        for (size_t w = 0; w < 4; ++w)
          for (size_t t = 0; t < arity; ++t) gathered[(w * arity + t) * lanes + lane] = in[w * below + t * n + from];
      });
      hash_nodes(gathered.data(), arity * lanes, lanes, lanes, words + begin);
    }
  });
}

// Each node with the leaf at the same place.
void inject(Pool& pool, const std::string& set, const std::string& hash, u64 tag, InWords nodes, InWords leaves,
            OutWords out) {
  const HashOps& all = hash_of(ops_of(set), hash);
  const size_t n = count_of(out, 4, "out");
  expect(nodes, out.size(), "nodes");
  expect(leaves, out.size(), "leaves");
  const u64 *a = nodes.data(), *b = leaves.data();
  u64* words = out.data();
  nb::gil_scoped_release release;
  const HashOps& ops = hasher(all, n);
  hash_ranges(pool, ops, n, [&](size_t begin, size_t end) {
    ops.pairs(tag, a + begin, n, b + begin, n, end - begin, words + begin, n);
  });
}

// Rows of `length` bytes, whole words but for Keccak.
void hash_rows(Pool& pool, const std::string& set, const std::string& hash, InBytes rows, size_t length, OutBytes out) {
  const HashOps* ops = &hash_of(ops_of(set), hash);
  if (hash != "keccak256" && length % 8 != 0) throw std::invalid_argument("rows: not whole words");
  size_t n = count_of(out, 32, "out");
  expect(rows, n * length, "rows");
  const u8* in = rows.data();
  u8* to = out.data();
  nb::gil_scoped_release release;
  for (; n > 0; ops = ops->narrower) {
    const size_t whole = n / ops->lanes * ops->lanes;
    hash_ranges(pool, *ops, whole, [&](size_t begin, size_t end) {
      ops->rows(in + begin * length, length, end - begin, to + 32 * begin);
    });
    in += whole * length, to += 32 * whole, n -= whole;
  }
}

nb::bytes keccak256_one(nb::bytes data) {
  u8 out[32];
  KECCAK_PORTABLE.rows((const u8*)data.c_str(), data.size(), 1, out);
  return nb::bytes((const char*)out, sizeof(out));
}

// Permutes 16 canonical elements in place.
void poseidon2_permute(OutWords state) {
  expect(state, poseidon2::WIDTH, "state");
  u64 s[poseidon2::WIDTH];
  for (int i = 0; i < poseidon2::WIDTH; ++i) s[i] = gl::canonical(state.data()[i]);
  poseidon2::permute<poseidon2::Scalar>(s);
  for (int i = 0; i < poseidon2::WIDTH; ++i) state.data()[i] = s[i];
}

// Permutes three numbers below r in place, four words each.
void poseidon2_bn254_permute(OutWords state) {
  expect(state, poseidon2_bn254::WIDTH * poseidon2_bn254::WORDS, "state");
  poseidon2_bn254::permute_numbers(state.data());
}

// The three digits of a number of four words below r; false for a number that transcripts refuse.
bool poseidon2_bn254_digits(InWords number, OutWords out) {
  expect(number, poseidon2_bn254::WORDS, "number");
  expect(out, 3, "out");
  return poseidon2_bn254::digits(number.data(), out.data());
}

// The least nonce. Pieces are taken in ascending order, so when one yields a nonce all before it are searched too, by whoever
// has them, and nobody begins one after it.
u64 grind(Pool& pool, const std::string& set, const std::string& hash, u64 tag, InWords seed, int bits) {
  const HashOps& ops = hash_of(ops_of(set), hash);
  expect(seed, 4, "seed");
  if (bits < 0 || bits > 64) throw std::invalid_argument("bits: out of range");
  const u64* words = seed.data();
  nb::gil_scoped_release release;
  return least_hit(pool, ~(u64)0, 1024, [&](u64 first, size_t n) { return ops.grind(tag, words, first, n, bits); });
}

}  // namespace

void bind_goldilocks(nb::module_& m) {
  m.def("gl_instruction_sets", &instruction_sets);
  m.def("gl_add", &elementwise<&GoldilocksOps::add>);
  m.def("gl_sub", &elementwise<&GoldilocksOps::sub>);
  m.def("gl_mul", &elementwise<&GoldilocksOps::mul>);
  m.def("gl_lde", &lde);
  m.def("gl_encode", &encode);
  m.def("gl_interpolate_runs", &interpolate_runs);
  m.def("gl_move_runs", &move_runs);
  m.def("gl_bind_runs", &bind_runs);
  m.def("gl_sum_runs", &sum_runs);
  m.def("gl_step", &step);
  m.def("gl_leaves", &leaves);
  m.def("gl_parents", &parents);
  m.def("gl_inject", &inject);
  m.def("gl_grind", &grind);
  m.def("hash_rows", &hash_rows);
  m.def("keccak256", &keccak256_one);
  m.def("poseidon2_permute", &poseidon2_permute);
  m.def("poseidon2_bn254_permute", &poseidon2_bn254_permute);
  m.def("poseidon2_bn254_digits", &poseidon2_bn254_digits);
}

}  // namespace dp
