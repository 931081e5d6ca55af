// Low-degree extensions of many columns.
#pragma once
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

void goldilocks_lde(Pool& pool, const GoldilocksOps& ops, const LdeCall& call);

}  // namespace dp
