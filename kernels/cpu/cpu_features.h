// What the processor, and the system that saves its registers, offer of what the builds and the vector code ask for.
#pragma once
#include <string>
#include <vector>

namespace dp {

// Of "avx2", "bmi2", "adx", "avx512" (F, DQ and VL).
std::vector<std::string> cpu_features();

}  // namespace dp
