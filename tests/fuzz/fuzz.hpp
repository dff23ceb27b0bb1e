// What every parser of a stranger's file owes, whatever the bytes are. One program for each parser: with clang it is a
// libFuzzer target that makes up bytes, with any compiler (replay.cpp) it reads the seeds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

// Defined once in each of safetensors_header.cpp, tokenizer_file.cpp, config.cpp, checkpoint_index.cpp.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace course::fuzz {

// Memory that a parser may hold at once: this much for each byte of the file, and a constant.
constexpr int64_t kBytesForOne = 64, kBytesAlways = 1 << 16;

// Runs `parse`. It returns, or throws Error with one line of text; it holds no more memory than a small multiple of
// `size`. Otherwise says what is wrong on stderr and aborts.
void reads_or_refuses(size_t size, const std::function<void()>& parse);

// Ends the program, with the words, unless `holds`.
void must(bool holds, std::string_view words);

}  // namespace course::fuzz
