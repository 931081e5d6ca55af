#pragma once
#include <nanobind/nanobind.h>

namespace dp {

void bind_octet_lists(nanobind::module_& m);

}  // namespace dp
