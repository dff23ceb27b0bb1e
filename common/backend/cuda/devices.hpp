// Which GPUs this process can use.
#pragma once

#include <string>

namespace course::cuda {

inline constexpr int kLeastCapability = 80;  // 8.0 (Ampere): bf16, and what the kernels are compiled for

// Why none is used, as the words of a sentence with the versions and values; "" where there is one and all that are seen can be
// used. One card that cannot is enough, since ranks are dealt the cards by number; the words then say what leaves it out.
std::string why_no_gpu();

}  // namespace course::cuda
