// The CPU backend's extension module.
#include <nanobind/nanobind.h>

#include "curve/curves.h"

namespace nb = nanobind;

namespace dp {
void bind_pairing(nb::module_& m);
}

NB_MODULE(_native, m) {
  m.doc() = "CPU backend";
  dp::bind_pairing(m);
}
