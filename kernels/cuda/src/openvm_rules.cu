// Constraints and interactions of OpenVM 2: an interpreter of the code of cuda/openvm/instructions.py, and the tables that
// its sumcheck binds.
//
// All values are in Montgomery form. Blocks take items, tiles of rows of a piece of a trace's code, from a counter; all
// threads of a block run the same instructions, so that what decides on them is uniform. A thread takes several rows, each
// on several cosets, at a time: an instruction is decoded once for all. Bound: instructions.
#include "field/babybear.h"
#include "openvm_sponge.h"
#include "threads.h"

namespace dp {
namespace openvm {

using bb::m::Ext;
using bb::m::ExtSum;

constexpr u32 SUB = 1, MUL = 2, NONE = 3, COMPUTED = 3;                    // must equal those in instructions.py; 0 is ADD
constexpr u32 LOADS = 1u << 2, ACCUMULATES = 1u << 3, EMIT = NONE;         // likewise
constexpr u32 CONSTANT = 1u << 18, FAR = 1u << 19, NUMBER = CONSTANT - 1;  // likewise
constexpr u32 LAST = CONSTANT | FAR;                                       // likewise
constexpr u32 THREADS = 128;                                              // must equal that in cuda/openvm/rules.py
constexpr u32 ROWS = 4;                                                   // likewise: rows of a thread of openvm_fractions
constexpr u32 MAX_RUN = 32;                                               // rows: a run lies in a warp
constexpr u32 SUMS = 3;                                                   // forms of openvm_cosets
constexpr u32 ALL = 0xffffffff;
constexpr u32 ONE = bb::m::ONE;

// A piece of a trace's code.
struct Program {
  const u64* code;
  const u64* loads;  // the cell of each LOAD, for `packed_value`, or (u32) its number
  const u32* constants;
  const uint4* coefficients;
  u64 instructions;
};

// A product of matrices of bytes: c (16, 8) += a (16, 32) b (32, 8), where lane 4 g + q holds of a rows g and g + 8 at the bytes
// of words q and q + 4, of b column g at these words, and of c rows g and g + 8 at columns 2 q and 2 q + 1.
__device__ __forceinline__ void add_byte_products(u32 (&c)[4], const uint4& a, u32 b0, u32 b1) {
#if DP_PTX
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
#else
  const u32 lane = threadIdx.x % 32, rows = lane & ~3u, columns = lane % 4 * 8;
  const u64 upper = (u64)a.z << 32 | a.x, lower = (u64)a.w << 32 | a.y, words = (u64)b1 << 32 | b0;
  for (u32 q = 0; q < 4; ++q) {
    const u64 row[2] = {__shfl_sync(ALL, upper, rows + q), __shfl_sync(ALL, lower, rows + q)};
    const u64 column[2] = {__shfl_sync(ALL, words, columns + q), __shfl_sync(ALL, words, columns + 4 + q)};
    for (u32 i = 0; i < 4; ++i)
      for (u32 k = 0; k < 64; k += 8) c[i] += (u32)(row[i / 2] >> k & 255) * (u32)(column[i % 2] >> k & 255);
  }
#endif
}

// Words that memory accesses take at once.
template <int WORDS>
struct alignas(4 * WORDS) Words {
  u32 w[WORDS];
};

// Slots of a thread, of N words: those of all threads of a block lie side by side, WIDTH words each.
template <int N>
struct SlotsOf {
  static constexpr int WIDTH = N % 4 == 0 ? 4 : N % 2 == 0 ? 2 : 1, PARTS = N / WIDTH;
  Words<WIDTH>* own;

  static __device__ __forceinline__ SlotsOf in(u32* memory) { return {reinterpret_cast<Words<WIDTH>*>(memory) + threadIdx.x}; }
  __device__ __forceinline__ void read(u32 number, u32* v) const {
#pragma unroll
    for (int i = 0; i < PARTS; ++i) {
      const Words<WIDTH> part = own[(number * PARTS + i) * THREADS];
#pragma unroll
      for (int k = 0; k < WIDTH; ++k) v[i * WIDTH + k] = part.w[k];
    }
  }
  __device__ __forceinline__ void keep(u32 number, const u32* v) const {
#pragma unroll
    for (int i = 0; i < PARTS; ++i) {
      Words<WIDTH> part;
#pragma unroll
      for (int k = 0; k < WIDTH; ++k) part.w[k] = v[i * WIDTH + k];
      own[(number * PARTS + i) * THREADS] = part;
    }
  }
};

// Values of base elements at N points.
template <int N>
struct Base {
  static constexpr int WORDS = N;
  struct Value {
    u32 v[N];
  };
  struct Sum {
    u64 of[N][4];  // below 2^32 p, and at most one product more
    u32 more;

    __device__ __forceinline__ void clear() {
      more = 0;
#pragma unroll
      for (int i = 0; i < 4 * N; ++i) of[i / 4][i % 4] = 0;
    }
    __device__ __forceinline__ void add(const Ext& coefficient, const Value& x) {
#pragma unroll
      for (int i = 0; i < 4 * N; ++i) of[i / 4][i % 4] += bb::m::wide(coefficient[i % 4], x.v[i / 4]);
      if (more)
#pragma unroll
        for (int i = 0; i < 4 * N; ++i) of[i / 4][i % 4] = bb::m::settle(of[i / 4][i % 4]);
      more ^= 1;
    }
    __device__ __forceinline__ Ext result(int i) const {
      return {{bb::m::reduce4(of[i][0]), bb::m::reduce4(of[i][1]), bb::m::reduce4(of[i][2]), bb::m::reduce4(of[i][3])}};
    }
  };
  static __device__ __forceinline__ Value constant(u32 c) {
    Value x;
#pragma unroll
    for (int i = 0; i < N; ++i) x.v[i] = c;
    return x;
  }
  static __device__ __forceinline__ Value add(const Value& x, const Value& y) {
    Value z;
#pragma unroll
    for (int i = 0; i < N; ++i) z.v[i] = bb::add(x.v[i], y.v[i]);
    return z;
  }
  static __device__ __forceinline__ Value sub(const Value& x, const Value& y) {
    Value z;
#pragma unroll
    for (int i = 0; i < N; ++i) z.v[i] = bb::sub(x.v[i], y.v[i]);
    return z;
  }
  static __device__ __forceinline__ Value mul(const Value& x, const Value& y) {
    Value z;
#pragma unroll
    for (int i = 0; i < N; ++i) z.v[i] = bb::m::mul(x.v[i], y.v[i]);
    return z;
  }
  static __device__ __forceinline__ u32* words(Value& x) { return x.v; }
};

// Values of the extension at one point.
struct Extended {
  static constexpr int WORDS = 4;
  using Value = Ext;
  struct Sum {
    Ext of;
    __device__ __forceinline__ void clear() { of = Ext::zero(); }
    __device__ __forceinline__ void add(const Ext& coefficient, const Ext& x) {
      of = bb::m::add(of, bb::m::mul(coefficient, x));
    }
  };
  static __device__ __forceinline__ Ext constant(u32 c) { return Ext::base(c); }
  static __device__ __forceinline__ Ext add(const Ext& x, const Ext& y) { return bb::m::add(x, y); }
  static __device__ __forceinline__ Ext sub(const Ext& x, const Ext& y) { return bb::m::sub(x, y); }
  static __device__ __forceinline__ Ext mul(const Ext& x, const Ext& y) { return bb::m::mul(x, y); }
  static __device__ __forceinline__ u32* words(Ext& x) { return x.c; }
};

// The slots of values in shared memory and in memory of the block's own.
template <class V>
struct Slots {
  SlotsOf<V::WORDS> near, far;

  static __device__ __forceinline__ Slots in(u32* shared, u32* far, u64 far_words) {
    return {SlotsOf<V::WORDS>::in(shared), SlotsOf<V::WORDS>::in(far + blockIdx.x * far_words)};
  }
};

// The value of an operand, which is not LAST.
template <class V>
__device__ __forceinline__ typename V::Value operand(const u32* constants, const Slots<V>& slots, u32 given) {
  typename V::Value x;
  if (given < CONSTANT) slots.near.read(given, V::words(x));
  else if (given & CONSTANT) x = V::constant(__ldg(constants + (given & NUMBER)));
  else slots.far.read(given & NUMBER, V::words(x));
  return x;
}

// Runs a piece. `load` gives the value of the next cell, `emit` takes the number of a form and what was added up for it. Most
// values are read by the next instruction alone, so that a value stays where it is and others come to it.
template <class V, class Load, class Emit>
__device__ __forceinline__ void run(const Program& program, const Slots<V>& slots, Load& load, const Emit& emit) {
  const u64* code = program.code;
  const u32* const constants = program.constants;
  const uint4* const coefficients = program.coefficients;
  typename V::Sum sum;
  sum.clear();
  typename V::Value value = V::constant(0);
  u64 next = __ldg(code);
#pragma unroll 1
  for (u32 left = (u32)program.instructions; left; --left) {
    const u64 now = next;
    next = __ldg(++code);
    const u32 operation = (u32)now & 15, a = (u32)(now >> 4) & 0xfffff, b = (u32)(now >> 24) & 0xfffff, to = (u32)(now >> 44);
    if (operation == EMIT) {
      emit(b, sum);
      sum.clear();
      continue;
    }
    Ext coefficient = Ext::zero();
    if (operation & ACCUMULATES) coefficient = bb::m::load(__ldg(coefficients + to));
    const bool loads = operation & LOADS, computes = (operation & COMPUTED) != NONE;
    typename V::Value y = value;
    if (loads) y = load();
    else if (computes && b < LAST) y = operand<V>(constants, slots, b);
    if (a < LAST) value = operand<V>(constants, slots, a);
    if (!computes) {
      if (loads) value = y;
    } else if (operation & MUL) {
      value = V::mul(value, y);
    } else if (!(operation & SUB)) {
      value = V::add(value, y);
    } else {
      value = loads && b ? V::sub(y, value) : V::sub(value, y);
    }
    if (operation & ACCUMULATES) sum.add(coefficient, value);
    else if (to < CONSTANT) slots.near.keep(to, V::words(value));
    else if (to < LAST) slots.far.keep(to & NUMBER, V::words(value));
  }
}

// The last of `count` entries that begins at or before `at`.
template <class Begin>
__device__ __forceinline__ u32 last_before(u32 count, u64 at, const Begin& begin) {
  u32 low = 0, high = count;
  while (high - low > 1) {
    const u32 middle = (low + high) / 2;
    if (begin(middle) <= at) low = middle;
    else high = middle;
  }
  return low;
}

// The block's next item.
__device__ __forceinline__ u32 taken(u32* next) {
  __shared__ u32 item;
  __syncthreads();
  if (threadIdx.x == 0) item = atomicAdd(next, 1u);
  __syncthreads();
  return item;
}

// A cell of a trace: a column, or a selector of rows without one.
struct Cell {
  const u32* column;
  u64 kind;  // of a column: rows ahead; of a selector: 2 first, 3 last, 4 all but the last
};

__device__ __forceinline__ u32 cell_value(const u32* column, u32 kind, u32 row, u32 mask) {
  if (kind < 2) return __ldg(column + ((row + kind) & mask));
  const bool chosen = (row & mask) == (kind == 2 ? 0 : mask);
  return chosen != (kind == 4) ? ONE : 0;
}

// The value of a cell that is one word: its column, and its kind from bit KIND on.
constexpr u32 KIND = 56;  // must equal that in cuda/openvm/rules.py
__device__ __forceinline__ u32 packed_value(u64 cell, u32 row, u32 mask) {
  return cell_value(reinterpret_cast<const u32*>(cell & (((u64)1 << KIND) - 1)), (u32)(cell >> KIND), row, mask);
}

// Adds v over the lanes of a warp, or over those of equal place in runs.
__device__ __forceinline__ Ext over_lanes(Ext v, u32 apart) {
  for (u32 other = 16; other >= apart && other; other /= 2) {
    Ext added;
#pragma unroll
    for (int i = 0; i < 4; ++i) added[i] = __shfl_xor_sync(ALL, v[i], other);
    v = bb::m::add(v, added);
  }
  return v;
}

// Adds v, summed over the threads of a block, to sums (4,).
__device__ __forceinline__ void add_over_block(Ext v, u64* sums) {
  __shared__ u32 kept[THREADS / 32][4];
  v = over_lanes(v, 1);
  __syncthreads();
  if (threadIdx.x % 32 == 0)
    for (int i = 0; i < 4; ++i) kept[threadIdx.x / 32][i] = v[i];
  __syncthreads();
  if (threadIdx.x < 4) {
    u64 sum = 0;
    for (u32 w = 0; w < blockDim.x / 32; ++w) sum += kept[w][threadIdx.x];
    atomicAdd(sums + threadIdx.x, sum);
  }
}

}  // namespace openvm
}  // namespace dp

using namespace dp;
using namespace dp::openvm;

// -- fractions --------------------------------------------------------------------------------------------------------------

struct FractionTask {
  Program program;
  const uint4* constants;  // of each form
  u64 rows, mask, start;   // rows with repetitions; rows without, less one; place of the first fraction
  u64 first_item;
};

// The values of cells in ROWS rows, THREADS apart.
struct InRows {
  const u64* next;
  u32 row, mask;
  Base<ROWS>::Value ahead;

  __device__ __forceinline__ void fetch() {
    const u64 cell = __ldg(next++);
#pragma unroll
    for (u32 i = 0; i < ROWS; ++i) ahead.v[i] = packed_value(cell, row + i * THREADS, mask);
  }
  __device__ __forceinline__ Base<ROWS>::Value operator()() {
    const Base<ROWS>::Value found = ahead;
    fetch();
    return found;
  }
};

// The numerator and the denominator of each interaction in each row. Numerators are of the base field.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    openvm_fractions(const FractionTask* tasks, u32 count, u32 items, u32* numerators, uint4* denominators, u32* far, u64 far_words, u32* next) {
  DP_DYNAMIC_SHARED(u32, shared);
  const auto slots = Slots<Base<ROWS>>::in(shared, far, far_words);
  for (;;) {
    const u32 item = taken(next);
    if (item >= items) return;
    const FractionTask& task = tasks[last_before(count, item, [&](u32 i) { return tasks[i].first_item; })];
    const u64 row = (item - task.first_item) * (THREADS * ROWS) + threadIdx.x, rows = task.rows;
    InRows cells{task.program.loads, (u32)row, (u32)task.mask, {}};
    cells.fetch();
    run<Base<ROWS>>(task.program, slots, cells, [&](u32 form, const Base<ROWS>::Sum& sum) {
      const u64 first = task.start + (form >> 1) * rows;
      const Ext constant = bb::m::load(__ldg(task.constants + form));
#pragma unroll
      for (u32 i = 0; i < ROWS; ++i) {
        const u64 at = row + i * THREADS;
        if (at >= rows) continue;
        const Ext value = bb::m::add(sum.result(i), constant);
        if (form & 1) denominators[first + at] = bb::m::store(value);
        else numerators[first + at] = value[0];
      }
    });
  }
}

// -- the univariate round -----------------------------------------------------------------------------------------------------

struct CosetTask {
  Program program;
  u64 rows, mask;
  const uint4* eq;  // of each run
  u64* sums;        // (SUMS, cosets, run, 4)
  u64 first_item, tiles;
};

// The sums of each warp of a block, (SUMS, cosets, run, 4), in shared memory.
struct KeptSums {
  u32* kept;
  u32 words, run;

  __device__ __forceinline__ void clear() const {
    for (u32 i = threadIdx.x; i < THREADS / 32 * words; i += THREADS) kept[i] = 0;
  }
  // Adds v over the runs of a warp: `number` counts forms and cosets.
  __device__ __forceinline__ void add(u32 number, Ext v) const {
    const u32 lane = threadIdx.x % 32;
    v = over_lanes(v, run);
    u32* const to = kept + threadIdx.x / 32 * words + (number * run + lane) * 4;
    if (lane < run)
#pragma unroll
      for (int c = 0; c < 4; ++c) to[c] = bb::add(to[c], v[c]);
  }
  // Adds v over 4 lanes that follow each other, at a place in the run.
  __device__ __forceinline__ void add_quad(u32 number, u32 place, Ext v) const {
#pragma unroll
    for (u32 other = 1; other < 4; other *= 2) {
      Ext added;
#pragma unroll
      for (int c = 0; c < 4; ++c) added[c] = __shfl_xor_sync(ALL, v[c], other);
      v = bb::m::add(v, added);
    }
    u32* const to = kept + threadIdx.x / 32 * words + (number * run + place) * 4;
    const u32 c = threadIdx.x % 4;
    to[c] = bb::add(to[c], c < 2 ? c ? v[1] : v[0] : c == 2 ? v[2] : v[3]);
  }
  // Adds the sums of all warps to `sums`, and begins anew.
  __device__ __forceinline__ void write(u64* sums) const {
    __syncthreads();
    for (u32 i = threadIdx.x; i < words; i += THREADS) {
      u64 sum = 0;
      for (u32 w = 0; w < THREADS / 32; ++w) sum += kept[w * words + i], kept[w * words + i] = 0;
      if (sum) atomicAdd(sums + i, sum);
    }
  }
};

// Adds the forms of tiles in their rows, times eq, to the sums of the tasks, (SUMS, run, 4). Shared memory: near slots, then
// the sums of each warp.
template <int LOG>
__device__ __forceinline__ void sum_in_rows(const CosetTask* tasks, u32 count, u32 items, u32 log_run, u32 near_words, u32* far,
                                            u64 far_words, u32* next) {
  DP_DYNAMIC_SHARED(u32, shared);
  const auto slots = Slots<Base<ROWS>>::in(shared, far, far_words);
  const u32 log = LOG < 0 ? log_run : LOG, lane = threadIdx.x % 32;
  const KeptSums kept{shared + near_words, SUMS << (log + 2), 1u << log};
  kept.clear();
  for (;;) {
    const u32 item = taken(next);
    if (item >= items) return;
    const CosetTask& task = tasks[last_before(count, item, [&](u32 i) { return tasks[i].first_item; })];
    const u64 rows = task.rows;
    u64 row = (item - task.first_item) * task.tiles * (THREADS * ROWS) + threadIdx.x;
    for (u64 tile = 0; tile < task.tiles; ++tile, row += THREADS * ROWS) {
      if (row - lane >= rows) break;  // the whole warp
      InRows cells{task.program.loads, (u32)row, (u32)task.mask, {}};
      cells.fetch();
      run<Base<ROWS>>(task.program, slots, cells, [&](u32 form, const Base<ROWS>::Sum& sum) {
        Ext v = Ext::zero();
#pragma unroll
        for (u32 i = 0; i < ROWS; ++i)
          if (const u64 own = row + i * THREADS; own < rows)
            v = bb::m::add(v, bb::m::mul(sum.result(i), bb::m::load(__ldg(task.eq + (own >> log)))));
        kept.add(form, v);
      });
    }
    kept.write(task.sums);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
    openvm_rows_of_16(const CosetTask* tasks, u32 count, u32 items, u32 log_run, u32 near_words, u32* far, u64 far_words, u32* next) {
  sum_in_rows<4>(tasks, count, items, log_run, near_words, far, far_words, next);
}
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    openvm_rows(const CosetTask* tasks, u32 count, u32 items, u32 log_run, u32 near_words, u32* far, u64 far_words, u32* next) {
  sum_in_rows<-1>(tasks, count, items, log_run, near_words, far, far_words, next);
}

// The cells of 4 rows of a thread, read ahead.
struct ReadAhead {
  static constexpr int AHEAD = 2;
  const u64* next;
  u32 row, mask;
  Words<4> ahead[AHEAD];
  u64 coming;

  // The rows are `apart` apart.
  __device__ __forceinline__ Words<4> fetch(u32 apart) {
    const u64 cell = coming;
    coming = __ldg(next++);
    Words<4> found;
#pragma unroll
    for (u32 r = 0; r < 4; ++r) found.w[r] = packed_value(cell, row + apart * r, mask);
    return found;
  }
  __device__ __forceinline__ void begin(const u64* loads, u32 first, u32 repeated, u32 apart) {
    next = loads, row = first, mask = repeated;
    coming = __ldg(next++);
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) ahead[i] = fetch(apart);
  }
  __device__ __forceinline__ Words<4> take(u32 apart) {
    const Words<4> found = ahead[0];
#pragma unroll
    for (int i = 0; i + 1 < AHEAD; ++i) ahead[i] = ahead[i + 1];
    ahead[AHEAD - 1] = fetch(apart);
    return found;
  }
};

constexpr u32 TILE = 128;  // rows that a warp takes at a time, 4 a thread

// The values of cells in 4 rows, each at N cosets, and which rows these are. A row has a place z in a run, and f(s w^z) is the
// sum over y of f(w^(z - y)) times a factor (s, y): a convolution, of 1 << log_run places. Here a thread's rows are a warp apart.
template <int N, int LOG>
struct OnCosets {
  ReadAhead cells;
  u32 log_run;
  const u32* factors;  // (N, run)

  __device__ __forceinline__ void begin() {}
  __device__ __forceinline__ u32 row(u32 r) const { return threadIdx.x % 32 + 32 * r; }
  __device__ __forceinline__ void begin(const Program& program, u32 tile, u32 mask) {
    cells.begin(program.loads, tile + row(0), mask, 32);
  }
  __device__ __forceinline__ typename Base<4 * N>::Value operator()() {
    const Words<4> x = cells.take(32);
    const u32 run = 1u << log_run, lane = threadIdx.x % 32, place = lane & (run - 1);
    typename Base<4 * N>::Value found;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      bb::m::Sum sums[N];
      for (int i = 0; i < N; ++i) sums[i] = bb::m::Sum::zero();
      for (u32 y = 0; y < run; ++y) {
        const u32 v = __shfl_sync(ALL, x.w[r], (lane - place) | ((place - y) & (run - 1)));
        for (int i = 0; i < N; ++i) sums[i].add(v, __ldg(factors + i * run + y));
      }
      for (int i = 0; i < N; ++i) found.v[r * N + i] = sums[i].result();
    }
    return found;
  }
  // Adds the values of the rows of a thread, v[r * N + i] for coset i, to the sums of the warp.
  __device__ __forceinline__ void add(const KeptSums& kept, u32 form, const Ext (&v)[4 * N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i)
      kept.add(form * N + i, bb::m::add(bb::m::add(v[i], v[N + i]), bb::m::add(v[2 * N + i], v[3 * N + i])));
  }
};

// The same for runs of 16. x^16 - 1 is (x^8 - 1) (x^8 + 1): sums of values 8 places apart are convolved, and differences with
// the other sign beyond the end, both by halved factors; the sum and the difference of the results are the values. A result is
// the product of 8 words with a matrix of factors, made of bytes: those of words times those of 2^(8 k) factor, whose 4 sums
// are below 2^21. 8 runs are columns of a matrix, so that lane 4 g + q reads places q + 4 j of run g, and has the values of
// runs 2 q and 2 q + 1 at places g and g + 8.
template <int N>
struct OnCosets<N, 4> {
  ReadAhead cells;
  u32 log_run;
  const u32* factors;  // (N, halves, 2, lanes, 4)
  const uint4* own;    // those of the lane, in shared memory, 32 apart

  __device__ __forceinline__ void begin() {
    __shared__ uint4 held[N * 2 * 2 * 32];
    for (u32 i = threadIdx.x; i < N * 2 * 2 * 32; i += THREADS) held[i] = __ldg(reinterpret_cast<const uint4*>(factors) + i);
    own = held + threadIdx.x % 32;
  }
  __device__ __forceinline__ u32 row(u32 r) const {
    const u32 lane = threadIdx.x % 32;
    return (lane % 4 * 2 + r / 2) * 16 + lane / 4 + r % 2 * 8;
  }
  __device__ __forceinline__ void begin(const Program& program, u32 tile, u32 mask) {
    const u32 lane = threadIdx.x % 32;
    cells.begin(program.loads, tile + lane / 4 * 16 + lane % 4, mask, 4);
  }
  // The results of a half for the two runs of the thread.
  __device__ __forceinline__ void results(int half, u32 b0, u32 b1, u32 (&found)[2]) const {
    u32 low[4] = {}, high[4] = {};
    add_byte_products(low, own[half * 64], b0, b1);
    add_byte_products(high, own[half * 64 + 32], b0, b1);
#pragma unroll
    for (int b = 0; b < 2; ++b)
      found[b] = bb::reduce((u64)(high[b] + (high[b + 2] << 8)) * (1u << 16) + (low[b] + (low[b + 2] << 8)));
  }
  __device__ __forceinline__ typename Base<4 * N>::Value operator()() {
    const Words<4> x = cells.take(4);
    const u32 s0 = bb::add(x.w[0], x.w[2]), s1 = bb::add(x.w[1], x.w[3]);
    const u32 d0 = bb::sub(x.w[0], x.w[2]), d1 = bb::sub(x.w[1], x.w[3]);
    typename Base<4 * N>::Value found;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      u32 lower[2], upper[2];
      results(2 * i, s0, s1, lower);
      results(2 * i + 1, d0, d1, upper);
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        found.v[2 * b * N + i] = bb::add(lower[b], upper[b]);
        found.v[(2 * b + 1) * N + i] = bb::sub(lower[b], upper[b]);
      }
    }
    return found;
  }
  __device__ __forceinline__ void add(const KeptSums& kept, u32 form, const Ext (&v)[4 * N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) kept.add_quad(form * N + i, threadIdx.x % 32 / 4 + 8 * h, bb::m::add(v[h * N + i], v[(2 + h) * N + i]));
  }
};

// Adds the forms of tiles on N cosets, times eq, to the sums of the tasks. Shared memory: near slots, then the sums of each
// warp.
template <int N, int LOG>
__device__ __forceinline__ void sum_on_cosets(const CosetTask* tasks, u32 count, u32 items, const u32* factors, u32 log_run,
                                              u32 near_words, u32* far, u64 far_words, u32* next) {
  DP_DYNAMIC_SHARED(u32, shared);
  using Values = Base<4 * N>;
  const auto slots = Slots<Values>::in(shared, far, far_words);
  const u32 log = LOG < 0 ? log_run : LOG;
  const KeptSums kept{shared + near_words, SUMS * N << (log + 2), 1u << log};
  kept.clear();
  OnCosets<N, LOG> cells;
  cells.log_run = log_run, cells.factors = factors;
  cells.begin();
  for (;;) {
    const u32 item = taken(next);
    if (item >= items) return;
    const CosetTask& task = tasks[last_before(count, item, [&](u32 i) { return tasks[i].first_item; })];
    const Program program = task.program;
    const u32 rows = (u32)task.rows;
    u32 begin = ((u32)((item - task.first_item) * task.tiles) * (THREADS / 32) + threadIdx.x / 32) * TILE;
    for (u32 tile = 0; tile < (u32)task.tiles && begin < rows; ++tile, begin += THREADS / 32 * TILE) {
      cells.begin(program, begin, (u32)task.mask);
      run<Values>(program, slots, cells, [&](u32 form, const typename Values::Sum& sum) {
        Ext v[4 * N];
#pragma unroll
        for (u32 r = 0; r < 4; ++r) {
          const u32 row = begin + cells.row(r);
          const Ext weight = row < rows ? bb::m::load(__ldg(task.eq + (row >> log))) : Ext::zero();
#pragma unroll
          for (int i = 0; i < N; ++i) v[r * N + i] = bb::m::mul(sum.result(r * N + i), weight);
        }
        cells.add(kept, form, v);
      });
    }
    kept.write(task.sums);
  }
}

#define DP_COSETS(N, NAME, LOG, BLOCKS)                                                                                   \
  extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                                           \
      openvm_cosets_##NAME(const CosetTask* tasks, u32 count, u32 items, const u32* factors, u32 log_run, u32 near_words, \
                           u32* far, u64 far_words, u32* next) {                                                          \
    sum_on_cosets<N, LOG>(tasks, count, items, factors, log_run, near_words, far, far_words, next);                       \
  }
DP_COSETS(1, 1_of_16, 4, 4)
DP_COSETS(2, 2_of_16, 4, 3)
DP_COSETS(1, 1, -1, 4)
DP_COSETS(2, 2, -1, 3)

// -- binding the variable of D --------------------------------------------------------------------------------------------------

struct Weights {
  u32 of[MAX_RUN][4];
};

// The sum of the values of a run of a column with `mask` + 1 rows, which repeat, times the weights.
__device__ __forceinline__ Ext bound_any_run(const u32* column, u32 kind, u32 run, u32 mask, u32 log_run, const Weights& weights) {
  ExtSum sum = ExtSum::zero();
  for (u32 z = 0; z < 1u << log_run; ++z) {
    const u32* w = weights.of[z];
    sum.add(Ext{{w[0], w[1], w[2], w[3]}}, cell_value(column, kind, (run << log_run) + z, mask));
  }
  return sum.result();
}

// The same for runs of 16 in registers: a column of 16 rows or more.
struct RunOf16 {
  u32 x[17];  // the last one is the first of the run behind

  __device__ __forceinline__ void load(const u32* column, u32 run, u32 mask) {
    const uint4* const from = reinterpret_cast<const uint4*>(column) + 4 * run;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint4 four = __ldg(from + i);
      x[4 * i] = four.x, x[4 * i + 1] = four.y, x[4 * i + 2] = four.z, x[4 * i + 3] = four.w;
    }
    x[16] = __ldg(column + ((run * 16 + 16) & mask));
  }
  template <int AHEAD>
  __device__ __forceinline__ Ext bound(const Weights& weights) const {
    ExtSum sum = ExtSum::zero();
#pragma unroll
    for (int z = 0; z < 16; z += 2) {
      const u32 *v = weights.of[z], *w = weights.of[z + 1];
      sum.add(Ext{{v[0], v[1], v[2], v[3]}}, x[z + AHEAD], Ext{{w[0], w[1], w[2], w[3]}}, x[z + 1 + AHEAD]);
    }
    return sum.result();
  }
};
constexpr u32 LEAST_MASK = 15;  // of a column that RunOf16 reads

template <int LOG>
__device__ __forceinline__ Ext bound_run(const u32* column, u32 kind, u32 run, u32 mask, u32 log_run, const Weights& weights) {
  if (LOG < 0 || kind > 1 || mask < LEAST_MASK) return bound_any_run(column, kind, run, mask, LOG < 0 ? log_run : LOG, weights);
  RunOf16 values;
  values.load(column, run, mask);
  return kind ? values.bound<1>(weights) : values.bound<0>(weights);
}

struct BoundCell {
  Cell cell;
  u64 mask, runs, out, first_block;
};

template <int LOG>
__device__ __forceinline__ void bind_runs(const BoundCell* cells, u32 count, uint4* out, u32 log_run, const Weights& weights) {
  const BoundCell& own = cells[last_before(count, blockIdx.x, [&](u32 i) { return cells[i].first_block; })];
  const u64 run = (blockIdx.x - own.first_block) * THREADS + threadIdx.x;
  if (run >= own.runs) return;
  const u32 kind = (u32)own.cell.kind, mask = (u32)own.mask;
  out[own.out + run] = bb::m::store(bound_run<LOG>(own.cell.column, kind, (u32)run, mask, log_run, weights));
}

extern "C" __global__ void __launch_bounds__(THREADS) openvm_bind_runs_of_16(const BoundCell* cells, u32 count, uint4* out,
                                                                             u32 log_run, const __grid_constant__ Weights weights) {
  bind_runs<4>(cells, count, out, log_run, weights);
}
extern "C" __global__ void __launch_bounds__(THREADS) openvm_bind_runs(const BoundCell* cells, u32 count, uint4* out, u32 log_run,
                                                                       const __grid_constant__ Weights weights) {
  bind_runs<-1>(cells, count, out, log_run, weights);
}

// -- the rounds over the cube -----------------------------------------------------------------------------------------------------

// Entry 2^k + b of heap (2^(n + 1),) is eq of the first k of n coordinates and the bits of b. Entry 0 is not used.
extern "C" __global__ void openvm_eq_heap(const uint4* point, uint4* heap, u32 n) {
  const u64 at = global_thread();
  if (at >> (n + 1)) return;
  Ext found = Ext::one();
  u32 level = 0;
  while (at >> (level + 1)) ++level;
  for (u32 i = 0; i < level; ++i) {
    const Ext x = bb::m::load(point[i]);
    found = bb::m::mul(found, at >> i & 1 ? x : bb::m::sub(Ext::one(), x));
  }
  heap[at] = bb::m::store(found);
}

// Binds the first variable of `pairs` pairs to `at`, and takes it out of a heap with so many pairs.
extern "C" __global__ void openvm_bind(const uint4* cells, uint4* out, u64 pairs, const uint4* heap, uint4* heap_out, u64 heap_pairs,
                                       const uint4* at) {
  const u64 i = global_thread();
  if (i < pairs) {
    const Ext even = bb::m::load(cells[2 * i]), odd = bb::m::load(cells[2 * i + 1]);
    out[i] = bb::m::store(bb::m::between(even, odd, bb::m::load(__ldg(at))));
  }
  if (i && i < heap_pairs) heap_out[i] = bb::m::store(bb::m::add(bb::m::load(heap[2 * i]), bb::m::load(heap[2 * i + 1])));
}

struct RoundTask {
  Program program;  // a load is the number of a cell
  u64 first, variables;  // where its cells begin when no variable is bound
  u64 at, sum;           // the first variable, in Montgomery form, and the number of the sum
};

// The values of cells between a pair of entries, or of a single entry.
struct Between {
  const u32* next;
  const uint4* row;
  u64 rows;
  u32 at;
  uint4 even, odd;

  __device__ __forceinline__ void fetch() {
    const uint4* const cell = row + (u64)__ldg(next++) * rows;
    even = __ldg(cell);
    if (at) odd = __ldg(cell + 1);
  }
  __device__ __forceinline__ Ext operator()() {
    const Ext low = bb::m::load(even);
    Ext found = low;
    if (at) {
      const Ext high = bb::m::load(odd);
      found = at == ONE ? high : bb::m::add(low, bb::m::mul(bb::m::sub(high, low), at));
    }
    fetch();
    return found;
  }
};

// A warp takes an item: `tiles` tiles of 32 pairs. Few pairs are left in most rounds, so that many pieces must run at a time.
// starts (count + 1): the first item of each task in this round, and the number of items.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    openvm_round(const RoundTask* tasks, const u32* starts, u32 count, u32 round, u32 tiles, const uint4* cells, const uint4* heap,
                 u64* sums, u32* far, u64 far_words, u32* next) {
  DP_DYNAMIC_SHARED(u32, shared);
  const auto slots = Slots<Extended>::in(shared, far, far_words);
  const u32 lane = threadIdx.x % 32, items = starts[count];
  for (;;) {
    u32 item = lane ? 0 : atomicAdd(next, 1u);
    item = __shfl_sync(ALL, item, 0);
    if (item >= items) return;
    const u32 number = last_before(count, item, [&](u32 i) { return starts[i]; });
    const RoundTask& task = tasks[number];
    const u64 rows = 1ull << (task.variables - round), pairs = rows > 1 ? rows / 2 : 1;
    u64 pair = (u64)(item - starts[number]) * tiles * 32 + lane;
    Ext found = Ext::zero();
    for (u32 tile = 0; tile < tiles && pair < pairs; ++tile, pair += 32) {
      Between at{reinterpret_cast<const u32*>(task.program.loads), cells + (task.first >> round) + 2 * pair, rows, (u32)task.at, {}, {}};
      at.fetch();
      Ext value = Ext::zero();
      run<Extended>(task.program, slots, at, [&](u32, const Extended::Sum& sum) { value = bb::m::add(value, sum.of); });
      if (rows > 1) {
        const uint4* const eq = heap + rows + 2 * pair;
        value = bb::m::mul(value, bb::m::add(bb::m::load(__ldg(eq)), bb::m::load(__ldg(eq + 1))));
      }
      found = bb::m::add(found, value);
    }
    __syncwarp();
    found = over_lanes(found, 1);
    if (lane == 0)
#pragma unroll
      for (int i = 0; i < 4; ++i) atomicAdd(sums + 4 * task.sum + i, (u64)found[i]);
  }
}

// What the rounds over the cube share. Must equal STATE in cuda/openvm/rules.py.
struct RoundState {
  bb::Sponge sponge;
  Ext claim, scale, tail, last;  // of the round; eq of the challenges; the tables without variables; the last challenge
};

// What is known of a round from the start.
struct RoundFacts {
  uint4 coordinate, inverse;  // of 1 less the coordinate
  uint4 running, ended;       // what the constants of forms add to the sums
};

constexpr u32 MOST_POINTS = 64;  // must equal that in cuda/openvm/rules.py

// Ends a round by one warp, as `RuleRounds.prove` describes it: sends the polynomial, and draws the challenge. sums (points + 1,
// 4) are those of the tables with a variable left, at 1, 2, ..., and of those whose last one was bound. factors (2, points + 1):
// `extrapolation`, `node_weights`.
extern "C" __global__ void __launch_bounds__(32)
    openvm_end_round(const dp::poseidon2_babybear::Constants* with, RoundState* state, const RoundFacts* facts, const u32* factors,
                     const u64* sums, u32 points, uint4* sent, uint4* drawn) {
  __shared__ Ext h[MOST_POINTS + 2], values[MOST_POINTS + 1];
  const u32 lane = threadIdx.x, known = points + 1;
  const Ext c = bb::m::load(facts->coordinate), other = bb::m::sub(Ext::one(), c), slope = bb::m::sub(c, other);
  const Ext scale = state->scale;
  const auto summed = [&](u32 i, const uint4& added) {
    Ext v;
    for (int k = 0; k < 4; ++k) v[k] = (u32)(sums[4 * i + k] % bb::P);
    return bb::m::mul(scale, bb::m::add(v, bb::m::load(added)));
  };
  for (u32 i = lane; i < points; i += 32) h[i + 1] = summed(i, facts->running);
  const Ext tail = bb::m::add(bb::m::mul(state->tail, state->last), summed(points, facts->ended));
  __syncwarp();
  // The claim is s(0) + s(1), with eq(c, 0) = 1 - c and eq(c, 1) = c.
  const Ext rest = bb::m::sub(bb::m::sub(state->claim, bb::m::mul(c, h[1])), tail);
  if (lane == 0) h[0] = bb::m::mul(rest, bb::m::load(facts->inverse));
  __syncwarp();
  Ext part = Ext::zero();
  for (u32 i = lane; i < known; i += 32) part = bb::m::add(part, bb::m::mul(h[i], factors[i]));
  part = over_lanes(part, 1);
  if (lane == 0) h[known] = part;
  __syncwarp();
  for (u32 i = lane; i < known; i += 32) {
    const u32 x = bb::to_montgomery(i + 1);
    const Ext eq = bb::m::add(other, bb::m::mul(slope, x));
    values[i] = bb::m::add(bb::m::mul(eq, h[i + 1]), bb::m::mul(tail, x));
    sent[i] = bb::m::store(values[i]);
  }
  __syncwarp();
  bb::WarpSponge sponge(&state->sponge, with);
  for (u32 i = 0; i < known; ++i) sponge.observe(values[i]);
  const Ext r = sponge.sample_ext();
  sponge.keep();
  // h(r) from its values at 0, 1, ...
  part = Ext::zero();
  for (u32 i = lane; i < known; i += 32) {
    Ext product = bb::m::mul(h[i], factors[known + i]);
    for (u32 j = 0; j < known; ++j)
      if (j != i) product = bb::m::mul(product, bb::m::sub(r, bb::to_montgomery(j)));
    part = bb::m::add(part, product);
  }
  part = over_lanes(part, 1);
  if (lane) return;
  const Ext eq = bb::m::add(other, bb::m::mul(slope, r));
  state->claim = bb::m::add(bb::m::mul(eq, part), bb::m::mul(tail, r));
  state->scale = bb::m::mul(scale, eq), state->tail = tail, state->last = r;
  *drawn = bb::m::store(r);
}

// -- openings -----------------------------------------------------------------------------------------------------------------

struct OpenedPart {
  const u32* columns;
  u64 mask, runs, chunks;  // blocks of a column
  const uint4* eq;         // of each run
  u64 out, further;        // number of the first sum; whether each column has a second one, of its next rows
  u64 first_block;
};
constexpr u32 OPENED_RUNS = 32;  // of a thread; must equal that in cuda/openvm/rules.py

template <int LOG>
__device__ __forceinline__ void open_columns(const OpenedPart* parts, u32 count, u64* sums, u32 log_run, const Weights& weights) {
  const OpenedPart& part = parts[last_before(count, blockIdx.x, [&](u32 i) { return parts[i].first_block; })];
  const u64 block = blockIdx.x - part.first_block, column = block / part.chunks;
  const u32* const values = part.columns + column * (part.mask + 1);
  const u64 first = block % part.chunks * (THREADS * OPENED_RUNS);
  Ext own = Ext::zero(), next = Ext::zero();
  for (u32 i = 0; i < OPENED_RUNS; ++i) {
    const u64 run = first + i * THREADS + threadIdx.x;
    if (run >= part.runs) break;
    const Ext eq = bb::m::load(__ldg(part.eq + run));
    if (LOG > 0 && part.mask >= LEAST_MASK) {
      RunOf16 read;
      read.load(values, (u32)run, (u32)part.mask);
      own = bb::m::add(own, bb::m::mul(eq, read.bound<0>(weights)));
      if (part.further) next = bb::m::add(next, bb::m::mul(eq, read.bound<1>(weights)));
      continue;
    }
    const u32 log = LOG < 0 ? log_run : LOG;
    own = bb::m::add(own, bb::m::mul(eq, bound_any_run(values, 0, (u32)run, (u32)part.mask, log, weights)));
    if (part.further) next = bb::m::add(next, bb::m::mul(eq, bound_any_run(values, 1, (u32)run, (u32)part.mask, log, weights)));
  }
  u64* const to = sums + 4 * (part.out + column * (1 + part.further));
  add_over_block(own, to);
  if (part.further) add_over_block(next, to + 4);
}

extern "C" __global__ void __launch_bounds__(THREADS) openvm_open_of_16(const OpenedPart* parts, u32 count, u64* sums, u32 log_run,
                                                                        const __grid_constant__ Weights weights) {
  open_columns<4>(parts, count, sums, log_run, weights);
}
extern "C" __global__ void __launch_bounds__(THREADS) openvm_open(const OpenedPart* parts, u32 count, u64* sums, u32 log_run,
                                                                  const __grid_constant__ Weights weights) {
  open_columns<-1>(parts, count, sums, log_run, weights);
}
