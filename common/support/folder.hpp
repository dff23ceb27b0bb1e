// A folder for what a program will write, seen to be one before the work begins.
#pragma once

#include <cstdint>
#include <string>

namespace course {

// Makes `dir`, with the folders above it, where it is not there, and tries to write in it. Throws Error, which begins
// with `flag` and the folder: where a file has that name, where it cannot be made, and where it cannot be written.
void make_writable_folder(const std::string& flag, const std::string& dir);

// Bytes that this user may still write in `dir`, or, where it is not there yet, in the nearest folder above it that is.
// Where the file system does not say: as many as there are numbers for.
int64_t free_bytes(const std::string& dir);

// Throws Error, which begins with `flag`, the folder and the two sizes, unless `bytes` are free for `what`. Nothing is made.
void require_free(const std::string& flag, const std::string& dir, int64_t bytes, const std::string& what);

}  // namespace course
