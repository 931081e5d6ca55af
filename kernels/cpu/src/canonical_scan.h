#pragma once
#include <nanobind/nanobind.h>

namespace dp {

void bind_canonical_scan(nanobind::module_& m);

}  // namespace dp
