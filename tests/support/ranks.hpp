// The ranks a test runs on. Every rank runs every test case; assertions count on all of them.
#pragma once

#include <functional>
#include <string>

#include "common/backend/backend.hpp"
#include "common/comm/comm.hpp"
#include "common/rng.hpp"

namespace course::test {

Comm& world();
Backend& backend();

// A tensor of values in [-1, 1) that depend on (name, index) alone: alike on all ranks. Put the rank in the name for others.
Tensor random(const std::string& name, Shape shape, float size = 1);
Tensor half(const Tensor& x);  // a copy in bf16
Tensor wide(const Tensor& x);  // a copy in f32
Tensor make(Shape shape, const std::function<float(int64_t)>& value);

// "" where a and b agree: |a-b| ≤ tolerance·(|b| + rms(b)) everywhere; otherwise the first place that differs, with both
// values, how many differ, and this rank.
std::string differs(const Tensor& a, const Tensor& b, double tolerance = 0);
std::string differs(const std::vector<float>& a, const std::vector<float>& b, const Shape& shape, double tolerance = 0);

}  // namespace course::test
