// The tables of angles, and the order of rows that makes an interleaved weight a half-split one.
#include "chapters/06_sharded_attention/rope.hpp"

#include <cmath>

#include "tests/exercises/check.hpp"

using namespace course;

namespace {

// q·k of one head, both turned at their positions: pair i is (i, i + D/2), or (2i, 2i + 1) where `interleaved`.
double turned_product(const std::vector<double>& q, int64_t at_q, const std::vector<double>& k, int64_t at_k, bool interleaved) {
  const int64_t D = std::ssize(q);
  double sum = 0;
  for (int64_t i = 0; i < D / 2; ++i) {
    const int64_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + D / 2;
    const double angle = static_cast<double>(at_q - at_k) * std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(D));
    sum += (q[a] * k[a] + q[b] * k[b]) * std::cos(angle) + (q[b] * k[a] - q[a] * k[b]) * std::sin(angle);
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "rope", [](Check& check) {
    Backend& backend = check.backend();
    for (int round = 0; round < 3; ++round) {
      const int64_t D = 2 * check.random(cat("D", round), 3, 8), H = check.random(cat("H", round), 2, 4);
      const int64_t positions = check.random(cat("positions", round), 1200, 1400);
      const double theta = round == 1 ? 500000 : 10000;
      check.begin(cat("a head of ", D, ", theta ", theta));
      const RopeTable table(backend, positions, D, theta);
      for (const int64_t p : {int64_t{0}, int64_t{1}, check.random(cat("p", round), 2, 900), positions - 1}) {
        std::vector<float> cosines, sines;
        for (int64_t i = 0; i < D / 2; ++i) {
          const double angle = static_cast<double>(p) * std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(D));
          cosines.push_back(static_cast<float>(std::cos(angle)));
          sines.push_back(static_cast<float>(std::sin(angle)));
        }
        check.equal(cat("cos at position ", p), backend.slice(table.cos, 0, p, 1), backend.from_host(cosines, {1, D / 2}), 1e-6);
        check.equal(cat("sin at position ", p), backend.slice(table.sin, 0, p, 1), backend.from_host(sines, {1, D / 2}), 1e-6);
      }
      check.begin(cat(H, " heads of ", D));
      const auto rows = half_split_rows(H, D);
      std::vector<double> seen(H * D, 0);
      for (const int64_t row : rows)
        if (row >= 0 && row < H * D) ++seen[row];
      check.equal("half_split_rows: rows", static_cast<double>(rows.size()), static_cast<double>(H * D));
      for (int64_t r = 0; r < H * D; ++r) check.equal(cat("half_split_rows: how often row ", r, " comes"), seen[r], 1);
      // A row of an interleaved q or k is a number here; turned in its own order or put in the other, the products are the same.
      for (int64_t h = 0; h < H; ++h) {
        const auto numbers = [&](const char* name) { return backend.to_host(check.random(cat(name, round, ".", h), {H * D})); };
        const auto q = numbers("q"), k = numbers("k");
        const auto head = [&](const std::vector<float>& x) { return std::vector<double>(x.begin() + h * D, x.begin() + (h + 1) * D); };
        const auto split = [&](const std::vector<float>& x) {
          std::vector<double> y;
          for (int64_t i = 0; i < D; ++i) y.push_back(x[rows[h * D + i]]);
          return y;
        };
        const double as_it_was = turned_product(head(q), 17, head(k), 5, true), now = turned_product(split(q), 17, split(k), 5, false);
        check.equal(cat("head ", h, ": product of a turned query and key, rows in their new order"), now, as_it_was, 1e-9);
      }
    }
  });
}
