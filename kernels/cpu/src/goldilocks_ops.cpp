// Finds the tables that this CPU runs.
#include "goldilocks_ops.h"

#include <algorithm>

#include "cpu_features.h"

namespace dp {

const std::vector<const GoldilocksOps*>& goldilocks_ops() {
  static const std::vector<const GoldilocksOps*> found = [] {
    std::vector<const GoldilocksOps*> tables{&GOLDILOCKS_PORTABLE};
#if DP_X86_VECTORS
    const std::vector<std::string> features = cpu_features();
    for (const GoldilocksOps* ops : {&GOLDILOCKS_AVX2, &GOLDILOCKS_AVX512})
      if (std::count(features.begin(), features.end(), ops->name)) tables.push_back(ops);
#endif
    return tables;
  }();
  return found;
}

const HashOps& poseidon2_bn254_ops([[maybe_unused]] const GoldilocksOps& table) {
#if DP_X86_VECTORS
  static const std::vector<std::string> features = cpu_features();
  const auto has = [](const char* name) { return std::count(features.begin(), features.end(), name) > 0; };
  static const bool ifma = has("avx512ifma"), fma = has("fma");  // beside what the tables need
  if (ifma && &table == &GOLDILOCKS_AVX512) return POSEIDON2_BN254_IFMA;
  if (fma && &table != &GOLDILOCKS_PORTABLE) return POSEIDON2_BN254_AVX2;
#endif
  return POSEIDON2_BN254;
}

}  // namespace dp
