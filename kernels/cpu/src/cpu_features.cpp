// Detects the CPU features that the builds of this module need.
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdlib>

#include "bindings.h"
#include "cpu_features.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace dp {

static std::vector<std::string> found_features() {
  std::vector<std::string> found;
#if defined(__x86_64__)
  unsigned a, b, c, d;
  // leaf 1: OSXSAVE says that the system saves the AVX registers; leaf 7 lists the extensions (Intel SDM, CPUID)
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27))) return found;
  if (c & (1u << 12)) found.push_back("fma");
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return {};
  if (b & (1u << 5)) found.push_back("avx2");
  if (b & (1u << 8)) found.push_back("bmi2");
  if (b & (1u << 19)) found.push_back("adx");
  const bool avx512 = (b & (1u << 16)) && (b & (1u << 17)) && (b & (1u << 31)) && (low & 0xe6) == 0xe6;
  if (avx512) found.push_back("avx512");
  if (avx512 && (b & (1u << 21))) found.push_back("avx512ifma");
#endif
  return found;
}

std::vector<std::string> cpu_features() {
  std::vector<std::string> features = found_features();
  if (const char* without = std::getenv("DISTPROVE_WITHOUT")) {
    const std::string names = std::string(",") + without + ",";
    features.erase(std::remove_if(features.begin(), features.end(),
                                  [&](const std::string& name) { return names.find("," + name + ",") != names.npos; }),
                   features.end());
  }
  return features;
}

void bind_cpu_features(nb::module_& m) { m.def("cpu_features", &cpu_features); }

}  // namespace dp
