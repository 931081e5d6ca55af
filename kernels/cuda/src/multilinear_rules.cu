// The rules of all tables in one launch: an interpreter of the code of cuda/goldilocks/rule_code.py. A thread takes one row;
// cells are base elements, or elements of F between two rows. Slots lie in shared memory. Bound: instructions. All threads of
// a block run the same ones, so that what decides on them is uniform.
#include "class_sums.h"
#include "multilinear_steps.h"
#include "register_transform.h"
#include "rule_cells.h"

using namespace dp;
using namespace dp::gl;

// Text that cuda/goldilocks/compiled_rules.py makes has `run` for one program, and includes this file for rules_on_cosets.
#ifndef DP_COMPILED
constexpr u32 ADD = 0, SUB = 1, MUL = 2, ACCUMULATE = 3;  // must equal those in cuda/goldilocks/rule_code.py; last is EMIT
constexpr u32 CELL = 1, CONSTANT = 2;

template <class Cells>
__device__ __forceinline__ typename Cells::Value operand(const Code& program, const Cells& cells, const u64* slots, u32 given) {
  const u32 kind = given >> 18, number = given & ((1u << 18) - 1);
  if (kind == CELL) return cells.cell(number);
  if (kind == CONSTANT) return constant<Cells>(program, number);
  return Cells::slot(slots, number);
}

// Runs a program on one row and calls emit(output, value).
template <class Cells, class Emit>
__device__ __forceinline__ void run(const Code& program, const Cells& cells, u64* slots, const Emit& emit) {
  typename Cells::Sum sum;
  const u64 *code = program.code, *const end = code + program.instructions;
  u64 next = __ldg(code);
  while (code < end) {
    const u64 now = next;
    if (++code < end) next = __ldg(code);
    const u32 operation = now & 15, a = (now >> 4) & 0xfffff, b = (now >> 24) & 0xfffff;
    if (operation > ACCUMULATE) {
      emit(b, sum.value());
      sum = typename Cells::Sum();
      continue;
    }
    const typename Cells::Value x = operand(program, cells, slots, a);
    if (operation == ACCUMULATE) {
      sum.add(coefficient(program, b), x);
      continue;
    }
    const typename Cells::Value y = operand(program, cells, slots, b);
    const u32 slot = now >> 44;
    if (operation == ADD) Cells::keep(slots, slot, add(x, y));
    else if (operation == SUB) Cells::keep(slots, slot, sub(x, y));
    else Cells::keep(slots, slot, mul(x, y));
  }
}
#endif

// The sum of a program's outputs on a row.
template <class Cells>
__device__ __forceinline__ Ext folded(const Code& program, const Cells& cells, u64* slots) {
  Ext found = embed(0);
  run(program, cells, slots, [&](u32, const Ext& v) { found = add(found, v); });
  return found;
}

// The last of `count` entries that begins at or before `at`.
template <class Begin>
__device__ __forceinline__ u32 last_before(u32 count, u32 at, const Begin& begin) {
  u32 low = 0, high = count;
  while (high - low > 1) {
    const u32 middle = (low + high) / 2;
    if (begin(middle) <= at) low = middle;
    else high = middle;
  }
  return low;
}

// Adds the block's sum of each class to sums (classes, HALVES).
__device__ __forceinline__ void add_sums(const Ext& found, u32 log_classes, u64* sums) {
  const Ext sum = class_sum(found, log_classes);
  if (threadIdx.x >> log_classes) return;
  unsigned long long* at = sums + steps::HALVES * threadIdx.x;
  for (int c = 0; c < 3; ++c) {
    atomicAdd(at + 2 * c, sum.c[c] & EPSILON);
    atomicAdd(at + 2 * c + 1, sum.c[c] >> 32);
  }
}

// The rules of a table on one coset. Items are its tiles of a row a thread.
struct CosetTable {
  const u64 *cells, *factors;  // what moves coefficients to the coset, with 2^-log_run; null on the domain itself
  u64 count, rows, first_item, first_task, end_task;
  steps::RowWeights eq;
};

struct CosetTask {
  Code program;
  u64* sums;
};

// Moves a run of values over the powers of `root` to a coset.
__device__ __noinline__ void move_any_run(const u64* in, u64* out, u32 log_run, u64 root, const u64* factors) {
  u64 values[64], x = 1;  // log_run is at most 6, MAX_LOG_RUN in rules.py
  const u32 size = 1u << log_run;
  const u64 back = gl::pow(root, size - 1);
  for (u32 k = 0; k < size; ++k, x = mul(x, back)) {
    u64 v = 0;
    for (u32 a = size; a-- > 0;) v = add(mul(v, x), in[a]);
    values[k] = mul(v, factors[k]);
  }
  x = 1;
  for (u32 a = 0; a < size; ++a, x = mul(x, root)) {
    u64 v = 0;
    for (u32 k = size; k-- > 0;) v = add(mul(v, x), values[k]);
    out[a] = v;
  }
}

// The same for runs in registers, of the usual lengths.
template <int LOG>
__device__ __forceinline__ void move_values(u64 (&v)[1 << LOG], const u64* factors) {
  u64 w[1 << LOG];
  transform<true, LOG>(v);
#pragma unroll
  for (u32 k = 0; k < 1u << LOG; ++k) w[k] = mul(v[reversed<LOG>(k)], __ldg(factors + k));
  transform<false, LOG>(w);
#pragma unroll
  for (u32 a = 0; a < 1u << LOG; ++a) v[a] = w[reversed<LOG>(a)];
}

template <int LOG>
__device__ __forceinline__ void move_run(const u64* in, u64* out, const u64* factors) {
  u64 v[1 << LOG];
#pragma unroll
  for (u32 a = 0; a < 1u << LOG; a += 2) {
    const ulonglong2 two = *reinterpret_cast<const ulonglong2*>(in + a);
    v[a] = two.x, v[a + 1] = two.y;
  }
  move_values<LOG>(v, factors);
#pragma unroll
  for (u32 a = 0; a < 1u << LOG; a += 2) *reinterpret_cast<ulonglong2*>(out + a) = make_ulonglong2(v[a], v[a + 1]);
}

// Blocks take items one after the other. Each moves the cells of a tile to scratch of its own, (room), for all rules.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    rules_on_cosets(const CosetTable* tables, u32 count, u32 items, const CosetTask* tasks, u32 log_run, u64 root,
                    u64* scratch, u64 room, u32* next) {
  DP_DYNAMIC_SHARED(u64, shared);
  __shared__ u32 item;
  u64 *const slots = shared + threadIdx.x, *const moved = scratch + blockIdx.x * room;
  for (;;) {
    if (threadIdx.x == 0) item = atomicAdd(next, 1u);
    __syncthreads();
    const u32 own = item;
    if (own >= items) return;
    const CosetTable& table = tables[last_before(count, own, [&](u32 i) { return tables[i].first_item; })];
    const u64 begin = (own - table.first_item) * blockDim.x, left = table.rows - begin;
    const u32 height = left < blockDim.x ? left : blockDim.x, runs = height >> log_run;
    if (table.factors) {
      for (u32 i = threadIdx.x; i < (u32)table.count * runs; i += blockDim.x) {
        const u64 cell = i / runs, at = (u64)(i % runs) << log_run;
        const u64* in = table.cells + cell * table.rows + begin + at;
        u64* out = moved + cell * blockDim.x + at;
        if (log_run == 4) move_run<4>(in, out, table.factors);
        else if (log_run == 5) move_run<5>(in, out, table.factors);
        else move_any_run(in, out, log_run, root, table.factors);
      }
      __syncthreads();
    }
    const u64* const cells = table.factors ? moved : table.cells + begin;
    const Base row{cells + threadIdx.x, table.factors ? blockDim.x : table.rows};
    const bool within = threadIdx.x < height;
    const Ext weight = within ? table.eq.at(0, (begin + threadIdx.x) >> log_run) : embed(0);
    for (u64 t = table.first_task; t < table.end_task; ++t) {
      Ext found = embed(0);
      if (within) found = mul(folded(tasks[t].program, row, slots), weight);
      add_sums(found, log_run, tasks[t].sums);
    }
  }
}
#ifndef DP_COMPILED
struct LeafTask {
  Code program;
  const u64* cells;
  u64 rows, first_block;
  u64 places;  // words after the first task: where each output is written, or null, and its pitch
};

extern "C" __global__ void __launch_bounds__(THREADS, 2) rules_of_leaves(const LeafTask* tasks, u32 count) {
  DP_DYNAMIC_SHARED(u64, shared);
  const LeafTask& task = tasks[last_before(count, blockIdx.x, [&](u32 i) { return tasks[i].first_block; })];
  const u64 row = (blockIdx.x - task.first_block) * blockDim.x + threadIdx.x;
  if (row >= task.rows) return;
  const u64* const places = reinterpret_cast<const u64*>(tasks) + task.places;
  run(task.program, Base{task.cells + row, task.rows}, shared + threadIdx.x, [&](u32 output, const Ext& v) {
    const u64* place = places + 2 * output;
    if (place[0]) steps::store(reinterpret_cast<u64*>(place[0]) + row, place[1], v);
  });
}

// A piece of a table's rules at one integer, in rounds over its rows.
struct RoundTask {
  Code program;
  u64 first, variables, at;  // where its cells begin when no variable is bound
  u64* sums;
  steps::RowWeights eq;
};

// starts (rounds, count + 1): the first block of each task, and the number of blocks.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    rules_of_rows(const RoundTask* tasks, const u32* starts, u32 count, u32 round, const u64* vectors, u64 pitch) {
  DP_DYNAMIC_SHARED(u64, shared);
  const u32* const own = starts + (u64)round * (count + 1);
  const u32 number = last_before(count, blockIdx.x, [&](u32 i) { return own[i]; });
  const RoundTask& task = tasks[number];
  const u64 pairs = 1ull << (task.variables - round - 1);
  const u64 row = (u64)(blockIdx.x - own[number]) * blockDim.x + threadIdx.x;
  Ext found = embed(0);
  if (row < pairs) {
    const Between cells{vectors + (task.first >> round) + 2 * row, 2 * pairs, pitch, task.at};
    found = mul(folded(task.program, cells, shared + threadIdx.x), task.eq.at(round + 1, row));
  }
  add_sums(found, 0, task.sums);
}

// Moves runs of columns to a coset, for programs that are compiled: `height` rows of columns that are `rows` apart, to columns
// that are `pitch` apart.
extern "C" __global__ void __launch_bounds__(THREADS) rules_move(const u64* in, u64* out, u64 runs, u64 rows, u64 height,
                                                                 u64 pitch, u32 log_run, u64 root, const u64* factors) {
  const u64 i = global_thread();
  if (i >= runs) return;
  const u64 column = (i << log_run) / height, row = (i << log_run) % height;
  in += column * rows + row, out += column * pitch + row;
  move_any_run(in, out, log_run, root, factors);
}

constexpr u32 LOG_TILE = 12;  // words of a block's tile; must equal that in cuda/goldilocks/rules.py

// Where a cell of a table goes: itself, and its next row, each by the number of a cell, or NOWHERE.
struct MovedCell {
  u64 cell, own, next;
};
constexpr u64 NOWHERE = ~0ull;

// The same for runs of the usual lengths, of the cells that are read: rows `begin` .. of cells (.., rows) to columns of
// `out` that are `pitch` apart. A tile goes by way of shared memory, so that neighbours are read and written together. The next row of a cell needs no
// transform: on a run it is f(w x), but for the last place, which has the first value of the run behind. So it is that plus the
// difference of both firsts, times the last place's Lagrange polynomial, whose values on the coset follow the factors. Grid
// (tiles, cells). Bound: instructions.
template <int LOG>
__device__ __forceinline__ void move_tile(const u64* in, u64* out, u64 rows, u64 begin, u64 height, u64 pitch,
                                          const MovedCell* cells, const u64* factors) {
  constexpr u32 SIZE = 1u << LOG;
  __shared__ u64 tile[(1u << LOG_TILE) + (1u << (LOG_TILE - LOG))], steps[1u << (LOG_TILE - LOG)];
  const MovedCell to = cells[blockIdx.y];
  const u64 first = (u64)blockIdx.x << LOG_TILE;
  const u32 count = (u32)min(1ull << LOG_TILE, height - first), begins = threadIdx.x << LOG;
  const u64* const from = in + to.cell * rows;
  for (u32 i = threadIdx.x; i < count; i += blockDim.x) tile[i + (i >> LOG)] = from[begin + first + i];
  __syncthreads();
  u64 v[SIZE], *const run = tile + threadIdx.x * (SIZE + 1);
  const bool within = begins < count;
  if (within) {
#pragma unroll
    for (u32 a = 0; a < SIZE; ++a) v[a] = run[a];
    const u64 behind = begins + SIZE < count ? run[SIZE + 1] : from[(begin + first + count) & (rows - 1)];
    steps[threadIdx.x] = sub(behind, v[0]);
  }
  __syncthreads();  // before a run changes whose first value another thread reads
  if (within) {
    move_values<LOG>(v, factors);
#pragma unroll
    for (u32 a = 0; a < SIZE; ++a) run[a] = v[a];
  }
  __syncthreads();
  if (to.own != NOWHERE)
    for (u32 i = threadIdx.x; i < count; i += blockDim.x) out[to.own * pitch + first + i] = tile[i + (i >> LOG)];
  if (to.next == NOWHERE) return;
  for (u32 i = threadIdx.x; i < count; i += blockDim.x) {
    const u32 a = i & (SIZE - 1), which = i >> LOG;
    const u64 moved = tile[which * (SIZE + 1) + ((a + 1) & (SIZE - 1))];
    out[to.next * pitch + first + i] = add(moved, mul(steps[which], __ldg(factors + SIZE + a)));
  }
}

#define DP_MOVE(LOG)                                                                                               \
  extern "C" __global__ void __launch_bounds__(1u << (LOG_TILE - LOG), LOG == 5 ? 5 : 4)                           \
      rules_move_##LOG(const u64* in, u64* out, u64 rows, u64 begin, u64 height, u64 pitch,                        \
                       const MovedCell* cells, const u64* factors) {                                               \
    move_tile<LOG>(in, out, rows, begin, height, pitch, cells, factors);                                           \
  }
DP_MOVE(4)
DP_MOVE(5)
DP_MOVE(6)

// Adds eq times values, of the rows from `begin` on, to the sums of the places in a run. Their coordinates are `pitch` apart.
extern "C" __global__ void __launch_bounds__(THREADS) rules_weigh(const u64* values, u64 begin, u64 rows, u64 pitch, u32 log_run,
                                                                  const __grid_constant__ steps::RowWeights eq, u64* sums) {
  const u64 row = global_thread();
  Ext found = embed(0);
  if (row < rows) found = mul(steps::load(values + row, pitch), eq.at(0, (begin + row) >> log_run));
  add_sums(found, log_run, sums);
}
#endif
