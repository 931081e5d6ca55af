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
  static const bool ifma = [] {
    const std::vector<std::string> features = cpu_features();
    return std::count(features.begin(), features.end(), "avx512ifma") > 0;
  }();
  if (ifma && &table == &GOLDILOCKS_AVX512) return POSEIDON2_BN254_IFMA;
#endif
  return POSEIDON2_BN254;
}

}  // namespace dp
