// Where an element lies, in 64 bits: 16744 rows of 128256 logits are more than an int can count. Narrower arguments are
// widened before they are multiplied.
#pragma once

#include <cstdint>

namespace course::cpu {

constexpr int64_t at(int64_t row, int64_t columns, int64_t column = 0) { return row * columns + column; }

}  // namespace course::cpu
