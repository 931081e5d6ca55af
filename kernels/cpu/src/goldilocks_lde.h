// Low-degree extensions of many columns.
#pragma once
#include <memory>
#include <vector>

#include "goldilocks_ops.h"
#include "threads.h"

namespace dp {

struct LdeCall {
  const u64* columns;  // (width, n) values
  u64* out;            // (width, cosets, n)
  size_t width, cosets;
  int log_n;
  u64 root;           // primitive n-th root of unity
  const u64* shifts;  // (cosets): values on shift * <root>, when the columns are values on <root>
};

// The factors of the passes of goldilocks_ntt.h for values on shift * <root>. Those of earlier calls are kept.
using NttRoots = std::shared_ptr<const std::vector<u64>>;
NttRoots ntt_roots(const GoldilocksOps& ops, int log_n, u64 root, u64 shift);

void goldilocks_lde(Pool& pool, const GoldilocksOps& ops, const LdeCall& call);

}  // namespace dp
