// Enough of CUDA's device language for g++ to run the project's kernels on the host, one block after another.
//
// cuda_on_host.cpp has the threads, and is compiled once. This header is compiled with every kernel, so it includes no
// large header of the standard library.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

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

struct Thread {
  uint3 index;
  unsigned linear, lane, warp;
};

struct Block {
  uint3 index, size, grid;
  unsigned count;  // threads
  unsigned char* shared;
};

// Calls `function`, a kernel, with the arguments at `args`.
using Call = void (*)(void* function, void** args);

extern Block* block;
extern Thread* self;

void yield();

// A barrier over all threads that still run, with a sum over them (for __syncthreads_count and its kin).
int barrier(int value = 0);

// Deposits a value and waits for every lane of `mask`; the returned array holds what each lane gave.
const std::uint64_t* meet(Mask mask, std::uint64_t value);

// Runs a kernel. One launch at a time in a process.
void launch(Call call, void* function, void** args, const unsigned* grid, const unsigned* size, std::size_t shared);

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

template <class... A>
struct Called {  // a constructor, because only in braces are arguments evaluated in their order
  Called(void (*f)(A...), A... a) { f(a...); }
};

template <class... A>
void launch_kernel(void (*f)(A...), const unsigned* grid, const unsigned* size, std::size_t shared, void** args) {
  const Call call = [](void* function, void** a) {
    Called<A...>{reinterpret_cast<void (*)(A...)>(function), *static_cast<A*>(*a++)...};
  };
  launch(call, reinterpret_cast<void*>(f), args, grid, size, shared);
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
    dp_emulation::launch_kernel(&name, grid, size, shared, args);                                                         \
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
  const unsigned count = dp_emulation::block->count, first = dp_emulation::self->warp * 32;
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
T atomicMax(T* p, U v) { T o = *p; *p = o < (T)v ? (T)v : o; return o; }
template <class T, class U>
T atomicMin(T* p, U v) { T o = *p; *p = (T)v < o ? (T)v : o; return o; }
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
template <class T>
T max(T a, T b) { return a < b ? b : a; }
template <class T>
T min(T a, T b) { return b < a ? b : a; }
