// The rules of all tables in one launch: an interpreter of the code of cuda/goldilocks/rule_code.py. A block takes a tile of
// the rows of one task, a thread one row; cells are base elements, or elements of F between two rows. Slots lie in shared
// memory. Bound: instructions. All threads of a block run the same ones, so that what decides on them is uniform.
#include "class_sums.h"
#include "multilinear_steps.h"

using namespace dp;
using namespace dp::gl;

// A program, or a piece of one, over the rows of one table, at one point.
struct Task {
  const u64 *code, *constants, *coefficients;
  const u64* cells;    // column c of the cells begins at c rows, or at 2 c rows where they lie between two rows
  u64 instructions, first_block, rows;
  u64 pitch;           // from a coordinate of a cell to the next, of cells of F
  u64 between, at;     // whether cells are those between rows 2 j and 2 j + 1, and where
  steps::Products eq;  // weights of runs of 2^log_run rows
  u64 log_run;
  const u64* places;   // of the numerator and the denominator that each output is written to, and their pitch; null for sums
};

struct Base {
  using Value = u64;
  using Sum = ExtSum;
  static constexpr u32 WORDS = 1;
  static __device__ __forceinline__ u64 cell(const Task& task, u64 column, u64 row) { return task.cells[column * task.rows + row]; }
  static __device__ __forceinline__ u64 constant(u64 v) { return v; }
  static __device__ __forceinline__ u64 slot(const u64* slots, u32 number) { return slots[number * blockDim.x]; }
  static __device__ __forceinline__ void keep(u64* slots, u32 number, u64 v) { slots[number * blockDim.x] = v; }
};

struct Extended {
  using Value = Ext;
  using Sum = ExtProductSum;
  static constexpr u32 WORDS = 3;
  static __device__ __forceinline__ Ext cell(const Task& task, u64 column, u64 row) {
    if (!task.between) return steps::load(task.cells + column * task.rows + row, task.pitch);
    const u64* p = task.cells + 2 * (column * task.rows + row);
    const Ext even = steps::load(p, task.pitch);
    if (task.at == 0) return even;
    return add(even, mul(sub(steps::load(p + 1, task.pitch), even), task.at));
  }
  static __device__ __forceinline__ Ext constant(u64 v) { return embed(v); }
  static __device__ __forceinline__ Ext slot(const u64* slots, u32 number) {
    return steps::load(slots + 3 * number * blockDim.x, blockDim.x);
  }
  static __device__ __forceinline__ void keep(u64* slots, u32 number, const Ext& v) {
    steps::store(slots + 3 * number * blockDim.x, blockDim.x, v);
  }
};

constexpr u32 ADD = 0, SUB = 1, MUL = 2, ACCUMULATE = 3;  // must equal those in cuda/goldilocks/rule_code.py; last is EMIT
constexpr u32 CELL = 1, CONSTANT = 2;

template <class Cells>
__device__ __forceinline__ typename Cells::Value operand(const Task& task, const u64* slots, u32 given, u64 row) {
  const u32 kind = given >> 18, number = given & ((1u << 18) - 1);
  if (kind == CELL) return Cells::cell(task, number, row);
  if (kind == CONSTANT) return Cells::constant(__ldg(task.constants + number));
  return Cells::slot(slots, number);
}

// The last task that begins at or before a block.
__device__ __forceinline__ const Task& task_of(const Task* tasks, u32 count, u32 block) {
  u32 low = 0, high = count;
  while (high - low > 1) {
    const u32 middle = (low + high) / 2;
    if (tasks[middle].first_block <= block) low = middle;
    else high = middle;
  }
  return tasks[low];
}

// partial (blocks, classes, 3): each block's sums of eq times its task's output.
template <class Cells>
__device__ __forceinline__ void run_rules(const Task* tasks, u32 count, u32 log_classes, u64* partial) {
  DP_DYNAMIC_SHARED(u64, shared);
  u64* const slots = shared + threadIdx.x;
  const Task& task = task_of(tasks, count, blockIdx.x);
  const u64 row = (blockIdx.x - task.first_block) * blockDim.x + threadIdx.x;
  Ext found = embed(0);
  if (row < task.rows) {
    typename Cells::Sum sum;
    const u64 *code = task.code, *const end = code + task.instructions;
    u64 next = __ldg(code);
    while (code < end) {
      const u64 now = next;
      if (++code < end) next = __ldg(code);
      const u32 operation = now & 15, a = (now >> 4) & 0xfffff, b = (now >> 24) & 0xfffff;
      if (operation > ACCUMULATE) {
        found = sum.value();
        if (task.places) {
          const u64* place = task.places + 2 * b;
          if (place[0]) steps::store(reinterpret_cast<u64*>(place[0]) + row, place[1], found);
          sum = typename Cells::Sum();
        }
        continue;
      }
      const typename Cells::Value x = operand<Cells>(task, slots, a, row);
      if (operation == ACCUMULATE) {
        const u64* c = task.coefficients + 3 * b;
        sum.add(Ext{{__ldg(c), __ldg(c + 1), __ldg(c + 2)}}, x);
        continue;
      }
      const typename Cells::Value y = operand<Cells>(task, slots, b, row);
      const u32 slot = now >> 44;
      if (operation == ADD) Cells::keep(slots, slot, add(x, y));
      else if (operation == SUB) Cells::keep(slots, slot, sub(x, y));
      else Cells::keep(slots, slot, mul(x, y));
    }
    if (!task.places) found = mul(found, task.eq[row >> task.log_run]);
  }
  if (task.places) return;
  found = class_sum(found, log_classes);
  if (threadIdx.x < 1u << log_classes)
    for (int c = 0; c < 3; ++c) partial[(((u64)blockIdx.x << log_classes) + threadIdx.x) * 3 + c] = found.c[c];
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    rules_of_base(const Task* tasks, u32 count, u32 log_classes, u64* partial) {
  run_rules<Base>(tasks, count, log_classes, partial);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    rules_of_extended(const Task* tasks, u32 count, u32 log_classes, u64* partial) {
  run_rules<Extended>(tasks, count, log_classes, partial);
}

// out (programs, classes, 3): the sums over the blocks of each program's tasks, which end before block ends[i]. A block a program.
extern "C" __global__ void __launch_bounds__(THREADS)
    rules_totals(const u64* ends, u32 log_classes, const u64* partial, u64* out) {
  const u64 first = blockIdx.x ? ends[blockIdx.x - 1] : 0, end = ends[blockIdx.x];
  const u32 own = threadIdx.x & ((1u << log_classes) - 1);
  Ext sum = embed(0);
  for (u64 b = first + (threadIdx.x >> log_classes); b < end; b += blockDim.x >> log_classes) {
    const u64* p = partial + ((b << log_classes) + own) * 3;
    sum = add(sum, Ext{{p[0], p[1], p[2]}});
  }
  sum = class_sum(sum, log_classes);
  if (threadIdx.x < 1u << log_classes)
    for (int c = 0; c < 3; ++c) out[(((u64)blockIdx.x << log_classes) + threadIdx.x) * 3 + c] = sum.c[c];
}
