// A folder for what a program will write, seen to be one before the work begins.
#pragma once

#include <string>

namespace course {

// Makes `dir`, with the folders above it, where it is not there, and tries to write in it. Throws Error, which begins
// with `flag` and the folder: where a file has that name, where it cannot be made, and where it cannot be written.
void make_writable_folder(const std::string& flag, const std::string& dir);

}  // namespace course
