// Features of the CPU, and of the system that saves its registers, that the builds and the vector code need.
#pragma once
#include <string>
#include <vector>

namespace dp {

// Returns those of "avx2", "bmi2", "adx", "avx512" (F, DQ and VL), "avx512ifma" that the CPU has.
std::vector<std::string> cpu_features();

}  // namespace dp
