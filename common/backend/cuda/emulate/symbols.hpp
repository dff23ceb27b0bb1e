// The linker's name of a function of this program. dladdr knows what other libraries may see; a kernel in an unnamed namespace
// stands in the file's own table alone. ELF: System V ABI, chapter 4.
#pragma once

#include <string>

namespace course::emulate {

// "_ZN6course4cuda12_GLOBAL__N_112scale_kernelEPflf"; "" where there is none.
std::string linker_name(const void* function);

}  // namespace course::emulate
