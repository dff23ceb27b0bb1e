#include "chapters/06_sharded_attention/rope.hpp"

#include <cmath>

namespace course {

RopeTable::RopeTable(Backend& backend, int64_t count, int64_t head_dim, double theta) : positions(count) {
  require_shared(head_dim % 2 == 0, "RoPE turns pairs: a head of ", head_dim, " elements is odd");
  const int64_t half = head_dim / 2;
  std::vector<float> cosines(count * half), sines(count * half);
  // exercise rope {
  for (int64_t p = 0; p < count; ++p)
    for (int64_t i = 0; i < half; ++i) {
      const double angle = p * std::pow(theta, -2.0 * i / head_dim);
      cosines[p * half + i] = static_cast<float>(std::cos(angle));
      sines[p * half + i] = static_cast<float>(std::sin(angle));
    }
  // } exercise
  const MemoryScope scope(MemoryClass::Buffers);
  cos = backend.from_host(cosines, {count, half});
  sin = backend.from_host(sines, {count, half});
}

std::vector<int64_t> half_split_rows(int64_t heads, int64_t head_dim) {
  // exercise rope {
  std::vector<int64_t> rows;
  for (int64_t h = 0; h < heads; ++h)
    for (const int64_t odd : {0, 1})
      for (int64_t i = 0; i < head_dim / 2; ++i) rows.push_back(h * head_dim + 2 * i + odd);
  return rows;
  // } exercise
}

std::vector<int64_t> interleaved_rows(int64_t heads, int64_t head_dim) {
  const auto from = half_split_rows(heads, head_dim);
  std::vector<int64_t> rows(from.size());
  for (size_t r = 0; r < from.size(); ++r) rows[from[r]] = static_cast<int64_t>(r);
  return rows;
}

}  // namespace course

// Exercise 06 rope
// Task: Fill the tables of cosines and sines, count positions by half of a head's elements: pair i turns by position ·
// theta^(-2i/D). Compute in double. Then write half_split_rows, which says for each row of a half-split weight which
// row of an interleaved one it is.
// Hint: pair 0 turns by one radian a position, the last pair hardly at all.
// Hint: interleaved, a pair is 2i and 2i + 1 of one head; half split, it is i and i + D/2. Heads do not mix.
// Why: Only the difference of two positions is left in the product of a turned query and a turned key, whatever pairs
// are turned together. So weights for the one order serve the other once their rows are put where the pairs are.
// Wrong no_factor_two: The exponent is -i/D. Pair i turns by theta^(-2i/D): there are D/2 pairs, and their exponents go
// from 0 nearly to -1.
//   - const double angle = p * std::pow(theta, -2.0 * i / head_dim);
//   + const double angle = p * std::pow(theta, -1.0 * i / head_dim);
// Wrong in_float: The angle is a float. At position 1000 it is off by 6e-5, and the cosine with it. Compute in double,
// round at the end.
//   - const double angle = p * std::pow(theta, -2.0 * i / head_dim);
//   + const float angle = static_cast<float>(p) * std::pow(static_cast<float>(theta), -2.0f * static_cast<float>(i) / static_cast<float>(head_dim));
// Wrong from_one: Positions count from 1. The first token stands at 0 and is not turned.
//   - const double angle = p * std::pow(theta, -2.0 * i / head_dim);
//   + const double angle = (p + 1) * std::pow(theta, -2.0 * i / head_dim);
// Wrong over_all_heads: All rows are taken for one head, so the halves of different heads mix. The order is head by
// head.
//   - for (int64_t h = 0; h < heads; ++h)
//   -   for (const int64_t odd : {0, 1})
//   -     for (int64_t i = 0; i < head_dim / 2; ++i) rows.push_back(h * head_dim + 2 * i + odd);
//   + for (const int64_t odd : {0, 1})
//   +   for (int64_t i = 0; i < heads * head_dim / 2; ++i) rows.push_back(2 * i + odd);
// Wrong inverse: This is the order of the way back: which row of a half-split weight a row of an interleaved one is.
//   - for (int64_t h = 0; h < heads; ++h)
//   -   for (const int64_t odd : {0, 1})
//   -     for (int64_t i = 0; i < head_dim / 2; ++i) rows.push_back(h * head_dim + 2 * i + odd);
//   + for (int64_t h = 0; h < heads; ++h)
//   +   for (int64_t i = 0; i < head_dim; ++i) rows.push_back(h * head_dim + i / 2 + i % 2 * (head_dim / 2));
