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

}  // namespace dp
