// Token ids on disk, so that a large text is encoded once. A file of less than half the size of the ids in memory where
// the vocabulary allows it:
//
//   bytes 0-7 "TOKENS01"   8-15 bytes an id: 2 or 4   16-23 vocabulary   24-31 how many ids   32-… the ids
//   all numbers little-endian
//
// The width stands in the file: ids of a vocabulary above 65,536 in 16 bits would come back as others in silence.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace course {

struct TokenFile {
  std::vector<int32_t> ids;
  int64_t vocabulary;  // every id is below it
};

// Throws Error that names the path, and for an id outside 0..vocabulary-1 its position. 2 bytes an id up to a
// vocabulary of 65,536. A file of that name is replaced once the new one is whole.
void write_token_file(const std::string& path, std::span<const int32_t> ids, int64_t vocabulary);

// Throws Error, one line with the path, for what is no such file, another width, a length that is not that of the
// header, and an id outside the file's vocabulary, with its position.
TokenFile read_token_file(const std::string& path);
bool is_token_file(const std::string& path);  // by its first bytes

}  // namespace course
