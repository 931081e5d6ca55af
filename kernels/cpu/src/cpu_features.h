// Features of the CPU, and of the system that saves its registers, that the builds and the vector code need.
#pragma once
#include <string>
#include <vector>

namespace dp {

// Returns those of "fma", "avx2", "bmi2", "adx", "avx512" (F, DQ and VL), "avx512ifma" that the CPU has, less those that the
// environment names in DISTPROVE_WITHOUT, with commas between: what stands in for them can be tested and measured anywhere.
std::vector<std::string> cpu_features();

}  // namespace dp
