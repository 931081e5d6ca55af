// Enough of CUDA's device language for g++ to run the project's kernels on the host, one block after another.
//
// Every thread of a block is a fiber (ucontext). A fiber runs until it meets a barrier or a warp collective; fibers are
// resumed in alternating order, so that a missing barrier is likely to show as a wrong result. A block that cannot go on
// (a barrier that some threads do not reach, a collective whose mask names lanes that do not come) stops with an error.
#pragma once
#include <csetjmp>
#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#define DP_EMULATE 1

struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };
struct uint3 { unsigned x, y, z; };
using dim3 = uint3;
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }

namespace dp_emulation {

using Mask = std::uint32_t;

struct Collective {  // the lanes of one mask meeting at one place
  Mask arrived = 0;
  unsigned generation = 0;
  std::uint64_t values[32] = {}, results[32] = {};
};

struct Warp {
  std::map<Mask, Collective> collectives;
};

struct Thread {
  ucontext_t context;  // where it starts
  std::jmp_buf left;   // where it goes on: a jump asks nothing of the system, as a change of contexts does
  bool begun = false;
  uint3 index;
  unsigned linear = 0, lane = 0, warp = 0;
  bool done = false;
};

struct Block {
  uint3 index, size, grid;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  unsigned alive = 0, at_barrier = 0, barrier_generation = 0;
  int barrier_sum = 0, barrier_result = 0;
  bool progress = false;
  std::jmp_buf scheduler;
  unsigned char* shared = nullptr;
};

constexpr std::size_t STACK_BYTES = 256 << 10;

inline Block* block = nullptr;
inline Thread* self = nullptr;

[[noreturn]] inline void fail(const char* what) {
  std::fprintf(stderr, "kernel emulation: %s (block %u, thread %u)\n", what, block->index.x, self ? self->linear : 0);
  std::fflush(stderr);
  std::abort();
}

inline void yield() {
  Thread* me = self;
  if (_setjmp(me->left) == 0) _longjmp(block->scheduler, 1);
  self = me;
}

// A barrier over all threads that still run, with a sum over them (for __syncthreads_count and its kin).
inline int barrier(int value = 0) {
  const unsigned generation = block->barrier_generation;
  block->progress = true;
  block->barrier_sum += value;
  ++block->at_barrier;
  while (block->barrier_generation == generation) {
    if (block->at_barrier == block->alive) {
      block->barrier_result = block->barrier_sum;
      block->at_barrier = 0;
      block->barrier_sum = 0;
      ++block->barrier_generation;
      block->progress = true;
    } else {
      yield();
    }
  }
  return block->barrier_result;
}

// Deposit a value and wait for every lane of `mask`; the returned array holds what each lane gave.
inline const std::uint64_t* meet(Mask mask, std::uint64_t value) {
  if (!(mask >> self->lane & 1)) fail("a lane calls a collective whose mask leaves it out");
  Collective& c = block->warps[self->warp].collectives[mask];
  c.values[self->lane] = value;
  c.arrived |= Mask(1) << self->lane;
  block->progress = true;
  const unsigned generation = c.generation;
  if (c.arrived == mask) {
    std::copy(c.values, c.values + 32, c.results);
    c.arrived = 0;
    ++c.generation;
  } else {
    while (c.generation == generation) yield();
  }
  return c.results;
}

template <class T>
std::uint64_t to_word(T v) {
  static_assert(sizeof(T) <= 8, "warp collectives move at most 8 bytes");
  std::uint64_t w = 0;
  std::memcpy(&w, &v, sizeof(T));
  return w;
}

template <class T>
T from_word(std::uint64_t w) {
  T v;
  std::memcpy(&v, &w, sizeof(T));
  return v;
}

template <class T>
T shuffle(Mask mask, T v, int source, int low, int high) {
  const std::uint64_t* all = meet(mask, to_word(v));
  if (source < low || source >= high) source = (int)self->lane;
  return from_word<T>(all[source]);
}

inline int segment(int width) { return (int)self->lane / width * width; }

struct Launch {
  void (*call)(void* function, void** args);
  void* function;
  void** args;
};
inline const Launch* launching = nullptr;

inline void fiber_main() {
  launching->call(launching->function, launching->args);
  self->done = true;
  --block->alive;
  block->progress = true;
  _longjmp(block->scheduler, 1);
}

// Runs a thread until it yields or ends.
inline void resume(Thread& t) {
  if (_setjmp(block->scheduler) != 0) return;
  if (t.begun) _longjmp(t.left, 1);
  t.begun = true;
  setcontext(&t.context);
}

inline void run_block(Block& b, std::vector<std::unique_ptr<unsigned char[]>>& stacks) {
  const unsigned count = b.size.x * b.size.y * b.size.z;
  block = &b;
  b.threads.assign(count, Thread{});
  b.warps.assign((count + 31) / 32, Warp{});
  b.alive = count;
  while (stacks.size() < count) stacks.emplace_back(new unsigned char[STACK_BYTES]);
  for (unsigned i = 0; i < count; ++i) {
    Thread& t = b.threads[i];
    t.index = {i % b.size.x, i / b.size.x % b.size.y, i / b.size.x / b.size.y};
    t.linear = i;
    t.lane = i % 32;
    t.warp = i / 32;
    getcontext(&t.context);
    t.context.uc_stack.ss_sp = stacks[i].get();
    t.context.uc_stack.ss_size = STACK_BYTES;
    t.context.uc_link = nullptr;
    makecontext(&t.context, fiber_main, 0);
  }
  for (bool forward = true; b.alive; forward = !forward) {
    b.progress = false;
    for (unsigned k = 0; k < count; ++k) {
      Thread& t = b.threads[forward ? k : count - 1 - k];
      if (t.done) continue;
      self = &t;
      resume(t);
    }
    self = nullptr;
    if (!b.progress) fail("no thread can go on: a barrier or a warp collective is not reached by all it waits for");
  }
}

template <class... A, std::size_t... I>
void call_with(void (*f)(A...), void** args, std::index_sequence<I...>) {
  f(*static_cast<std::remove_cv_t<A>*>(args[I])...);
}

template <class... A>
void launch(void (*f)(A...), const unsigned* grid, const unsigned* size, std::size_t shared, void** args) {
  using Function = void (*)(A...);
  Launch l{[](void* function, void** a) {
             call_with(reinterpret_cast<Function>(function), a, std::index_sequence_for<A...>{});
           },
           reinterpret_cast<void*>(f), args};
  launching = &l;
  std::vector<std::unique_ptr<unsigned char[]>> stacks;
  std::vector<std::uint64_t> memory(shared / 8 + 2);
  Block b;
  b.size = {size[0], size[1], size[2]};
  b.grid = {grid[0], grid[1], grid[2]};
  b.shared = reinterpret_cast<unsigned char*>(memory.data());
  if (reinterpret_cast<std::uintptr_t>(b.shared) % 16) b.shared += 8;
  for (unsigned z = 0; z < grid[2]; ++z)
    for (unsigned y = 0; y < grid[1]; ++y)
      for (unsigned x = 0; x < grid[0]; ++x) {
        std::fill(memory.begin(), memory.end(), 0xa5a5a5a5a5a5a5a5ull);  // shared memory starts with rubbish
        b.index = {x, y, z};
        b.at_barrier = 0;
        run_block(b, stacks);
      }
  block = nullptr;
}

// Sizes of the kernel's parameters, and how many there are: the caller checks its arguments against them.
template <class... A>
int parameter_sizes(void (*)(A...), std::size_t* sizes, int room) {
  const std::size_t all[] = {sizeof(A)..., 0};
  for (int i = 0; i < room && i < (int)sizeof...(A); ++i) sizes[i] = all[i];
  return (int)sizeof...(A);
}

}  // namespace dp_emulation

// One per kernel, after its definition; the test harness writes these lines.
#define DP_EMULATED_KERNEL(name)                                                                                   \
  extern "C" void emulate_##name(const unsigned* grid, const unsigned* size, std::size_t shared, void** args) {    \
    dp_emulation::launch(&name, grid, size, shared, args);                                                         \
  }                                                                                                                \
  extern "C" int parameters_##name(std::size_t* sizes, int room) {                                                 \
    return dp_emulation::parameter_sizes(&name, sizes, room);                                                      \
  }

#define DP_DYNAMIC_SHARED(T, name) T* name = reinterpret_cast<T*>(dp_emulation::block->shared)

#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __shared__ static
#define __constant__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

#define threadIdx (dp_emulation::self->index)
#define blockIdx (dp_emulation::block->index)
#define blockDim (dp_emulation::block->size)
#define gridDim (dp_emulation::block->grid)
constexpr int warpSize = 32;

inline void __syncthreads() { dp_emulation::barrier(); }
inline int __syncthreads_count(int p) { return dp_emulation::barrier(p != 0); }
inline int __syncthreads_or(int p) { return dp_emulation::barrier(p != 0) != 0; }
inline void __syncwarp(unsigned mask = 0xffffffffu) { dp_emulation::meet(mask, 0); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __nanosleep(unsigned) { dp_emulation::yield(); }

// Lanes of a partial last warp do not exist, so a full mask there means the lanes that do.
inline unsigned __activemask() {
  const unsigned count = (unsigned)dp_emulation::block->threads.size(), first = dp_emulation::self->warp * 32;
  return count - first >= 32 ? 0xffffffffu : (1u << (count - first)) - 1;
}

template <class T>
T __shfl_sync(unsigned mask, T v, int source, int width = 32) {
  const int low = dp_emulation::segment(width);
  return dp_emulation::shuffle(mask, v, low + source % width, low, low + width);
}
template <class T>
T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32) {
  const int low = dp_emulation::segment(width);
  return dp_emulation::shuffle(mask, v, (int)dp_emulation::self->lane - (int)delta, low, low + width);
}
template <class T>
T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32) {
  const int low = dp_emulation::segment(width);
  return dp_emulation::shuffle(mask, v, (int)dp_emulation::self->lane + (int)delta, low, low + width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int other, int width = 32) {
  const int low = dp_emulation::segment(width);
  return dp_emulation::shuffle(mask, v, (int)dp_emulation::self->lane ^ other, low, low + width);
}
inline unsigned __ballot_sync(unsigned mask, int p) {
  const std::uint64_t* all = dp_emulation::meet(mask, p != 0);
  unsigned r = 0;
  for (int i = 0; i < 32; ++i)
    if (mask >> i & 1) r |= (unsigned)all[i] << i;
  return r;
}
inline int __any_sync(unsigned mask, int p) { return __ballot_sync(mask, p) != 0; }
inline int __all_sync(unsigned mask, int p) { return __ballot_sync(mask, p) == mask; }
template <class T>
unsigned __match_any_sync(unsigned mask, T v) {
  const std::uint64_t mine = dp_emulation::to_word(v), *all = dp_emulation::meet(mask, mine);
  unsigned r = 0;
  for (int i = 0; i < 32; ++i)
    if ((mask >> i & 1) && all[i] == mine) r |= 1u << i;
  return r;
}
template <class Op>
unsigned dp_reduce_sync(unsigned mask, unsigned v, Op op) {
  const std::uint64_t* all = dp_emulation::meet(mask, v);
  unsigned r = 0;
  bool first = true;
  for (int i = 0; i < 32; ++i)
    if (mask >> i & 1) {
      r = first ? (unsigned)all[i] : op(r, (unsigned)all[i]);
      first = false;
    }
  return r;
}
inline unsigned __reduce_add_sync(unsigned m, unsigned v) { return dp_reduce_sync(m, v, [](unsigned a, unsigned b) { return a + b; }); }
inline unsigned __reduce_or_sync(unsigned m, unsigned v) { return dp_reduce_sync(m, v, [](unsigned a, unsigned b) { return a | b; }); }
inline unsigned __reduce_max_sync(unsigned m, unsigned v) { return dp_reduce_sync(m, v, [](unsigned a, unsigned b) { return a > b ? a : b; }); }
inline unsigned __reduce_min_sync(unsigned m, unsigned v) { return dp_reduce_sync(m, v, [](unsigned a, unsigned b) { return a < b ? a : b; }); }

template <class T, class U>
T atomicAdd(T* p, U v) { T o = *p; *p = o + (T)v; return o; }
template <class T, class U>
T atomicSub(T* p, U v) { T o = *p; *p = o - (T)v; return o; }
template <class T, class U>
T atomicExch(T* p, U v) { T o = *p; *p = (T)v; return o; }
template <class T, class U>
T atomicMax(T* p, U v) { T o = *p; *p = std::max(o, (T)v); return o; }
template <class T, class U>
T atomicMin(T* p, U v) { T o = *p; *p = std::min(o, (T)v); return o; }
template <class T, class U>
T atomicOr(T* p, U v) { T o = *p; *p = o | (T)v; return o; }
template <class T, class U>
T atomicAnd(T* p, U v) { T o = *p; *p = o & (T)v; return o; }
template <class T, class U, class V>
T atomicCAS(T* p, U expected, V v) { T o = *p; if (o == (T)expected) *p = (T)v; return o; }

template <class T>
T __ldg(const T* p) { return *p; }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned long long)((unsigned __int128)a * b >> 64); }
inline int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(unsigned long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (x >> i & 1) << (31 - i);
  return r;
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s) { return s & 31 ? hi << (s & 31) | lo >> (32 - (s & 31)) : hi; }
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned s) { return s & 31 ? lo >> (s & 31) | hi << (32 - (s & 31)) : lo; }
using std::max;
using std::min;
