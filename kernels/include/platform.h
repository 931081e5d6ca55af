// The differences between the host compiler and NVRTC, and nothing else. Every other header is the same text for both.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define DP_HD __host__ __device__ __forceinline__
#define DP_COLD __host__ __device__ __noinline__  // rare branches: kept out of the hot loops' code and registers
#define DP_ALIGN __align__(16)  // two (or three) 16-byte accesses per field element
#else
#define DP_HD inline
#define DP_COLD inline
#define DP_ALIGN  // host arrays may be views into a mapped key at any byte offset; loads go through memcpy
#include <cstdint>
#include <cstring>
#endif

namespace dp {

using u32 = unsigned int;
using u64 = unsigned long long;

// The machine limb: 32-bit on the device, whose integer units are 32 bits wide; 64-bit on the host. Both are
// little-endian, so an element has the same bytes on both.
//
// DP_EMULATE (the tests' host build of the kernels) asks for the device's 32-bit limbs with portable carry chains
// instead of PTX, so that the same kernel text runs on a CPU.
#if defined(__CUDA_ARCH__) || defined(__CUDACC_RTC__) || defined(DP_EMULATE)
#define DP_DEVICE 1
using limb_t = u32;
constexpr int LIMB_BITS = 32;
#else
#define DP_DEVICE 0
using limb_t = u64;
constexpr int LIMB_BITS = 64;
#endif

#if DP_DEVICE && !defined(DP_EMULATE)
#define DP_PTX 1
#else
#define DP_PTX 0
#endif

// A pragma of the device's compiler, such as `unroll` for loops whose indices must be constants there: only then do arrays
// stay in registers.
#if DP_PTX
#define DP_PRAGMA(text) _Pragma(#text)
#else
#define DP_PRAGMA(text)
#endif

}  // namespace dp
