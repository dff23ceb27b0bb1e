// A kernel runs after the call that started it has returned, so its fault is found by a later call. What can be said
// then is which kernels were started last.
#pragma once

#include <source_location>
#include <string>

namespace course::cuda {

void note_started(const void* kernel, std::source_location at);
// "rms_norm_kernel (norm.cu:40), add_kernel (elements.cu:31)": the last few, the newest first; "" where there was none.
std::string last_kernels();
std::string name_of_kernel(const void* kernel);  // without namespace and arguments

}  // namespace course::cuda
