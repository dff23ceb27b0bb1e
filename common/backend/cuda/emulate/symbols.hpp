// The name of a function of this program. dladdr knows what other libraries may see; a kernel in an unnamed namespace
// stands in the file's own table alone. ELF: System V ABI, chapter 4.
#pragma once

#include <string>

namespace course::emulate {

// Plain and without its parameters and namespaces of ours: "attention_kernel<Cut<32, 4, 4> >"; "" where there is none.
std::string name_of_function(const void* function);

}  // namespace course::emulate
