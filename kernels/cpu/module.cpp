// The CPU backend's extension module.
#include <nanobind/nanobind.h>

#include "curve/curves.h"

namespace nb = nanobind;
NB_MODULE(_native, m) { m.doc() = "CPU backend"; }
