#include "chapters/06_sharded_attention/rope.hpp"

#include <cmath>

namespace course {

RopeTable::RopeTable(Backend& backend, int64_t count, int64_t head_dim, double theta) : positions(count) {
  require_shared(head_dim % 2 == 0, "RoPE turns pairs: a head of ", head_dim, " elements is odd");
  const int64_t half = head_dim / 2;
  std::vector<float> cosines(count * half), sines(count * half);
  for (int64_t p = 0; p < count; ++p)
    for (int64_t i = 0; i < half; ++i) {
      const double angle = p * std::pow(theta, -2.0 * i / head_dim);
      cosines[p * half + i] = static_cast<float>(std::cos(angle));
      sines[p * half + i] = static_cast<float>(std::sin(angle));
    }
  const MemoryScope scope(MemoryClass::Buffers);
  cos = backend.from_host(cosines, {count, half});
  sin = backend.from_host(sines, {count, half});
}

std::vector<int64_t> half_split_rows(int64_t heads, int64_t head_dim) {
  std::vector<int64_t> rows;
  for (int64_t h = 0; h < heads; ++h)
    for (const int64_t odd : {0, 1})
      for (int64_t i = 0; i < head_dim / 2; ++i) rows.push_back(h * head_dim + 2 * i + odd);
  return rows;
}

std::vector<int64_t> interleaved_rows(int64_t heads, int64_t head_dim) {
  const auto from = half_split_rows(heads, head_dim);
  std::vector<int64_t> rows(from.size());
  for (size_t r = 0; r < from.size(); ++r) rows[from[r]] = static_cast<int64_t>(r);
  return rows;
}

}  // namespace course
