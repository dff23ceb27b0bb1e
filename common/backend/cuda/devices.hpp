// Which GPUs this process can use.
#pragma once

#include <string>

namespace course::cuda {

inline constexpr int kLeastCapability = 80;  // 8.0 (Ampere): bf16, and what the kernels are compiled for

// Why there is none, as the words of a sentence with the versions and values; "" where there is one.
std::string why_no_gpu();

}  // namespace course::cuda
