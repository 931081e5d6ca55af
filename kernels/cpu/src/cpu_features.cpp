// Detects the CPU features that the builds of this module need.
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "cpu_features.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace dp {

std::vector<std::string> cpu_features() {
  std::vector<std::string> found;
#if defined(__x86_64__)
  unsigned a, b, c, d;
  // leaf 1: OSXSAVE says that the system saves the AVX registers; leaf 7 lists the extensions (Intel SDM, CPUID)
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27))) return found;
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
  if (b & (1u << 5)) found.push_back("avx2");
  if (b & (1u << 8)) found.push_back("bmi2");
  if (b & (1u << 19)) found.push_back("adx");
  const bool avx512 = (b & (1u << 16)) && (b & (1u << 17)) && (b & (1u << 31)) && (low & 0xe6) == 0xe6;
  if (avx512) found.push_back("avx512");
  if (avx512 && (b & (1u << 21))) found.push_back("avx512ifma");
#endif
  return found;
}

void bind_cpu_features(nb::module_& m) { m.def("cpu_features", &cpu_features); }

}  // namespace dp
