// The CPU backend's extension module. It is built once for every CPU of the architecture and, on x86-64, once more for
// CPUs with BMI2 and ADX; DP_MODULE is the module's name. kernels/host/native.py chooses.
#include "bindings.h"
#include "canonical_scan.h"
#include "octet_lists.h"

NB_MODULE(DP_MODULE, m) {
  m.doc() = "Native code of the CPU backend";
  dp::bind_cpu_features(m);
  dp::bind_fields(m);
  dp::bind_groups(m);
  dp::bind_sparse_points(m);
  dp::bind_pairing(m);
  dp::bind_inner_products(m);
  dp::bind_rows(m);
  dp::bind_goldilocks(m);
  dp::bind_babybear(m);
  dp::bind_riscv(m);
  dp::bind_recursion(m);
  dp::bind_wrap_witness(m);
  dp::bind_canonical_scan(m);
  dp::bind_octet_lists(m);
}
