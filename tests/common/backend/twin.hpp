// The plain twins of the kernels: loops in double, written for the eye alone. A kernel is right when it agrees with its
// twin. Letters as in common/backend/backend.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/ranks.hpp"

namespace course::test {

using Values = std::vector<double>;
using Ints = std::vector<int32_t>;

Values values_of(const Tensor& x);
Tensor ints(const Ints& values, Shape shape);
Ints random_ints(const std::string& name, int64_t n, int64_t begin, int64_t end);  // in begin..end-1

// "" where the tensor agrees with its twin; see differs() in tests/support/ranks.hpp.
std::string far(const Tensor& x, const Values& twin, double tolerance = 1e-6);

// d loss / d x by central differences. With loss = Σ dy·f(x) this is what f's backward should give.
Values slope(const std::function<double(const Values&)>& loss, Values x, double step = 1e-5);
double dot(const Values& a, const Values& b);

namespace twin {

Values matmul(const Values& a, bool transpose_a, const Values& b, bool transpose_b, int64_t M, int64_t N, int64_t K);
Values rms_norm(const Values& x, const Values& weight, double eps, int64_t E);
Values gelu(const Values& x, Gelu kind);
Values silu_mul(const Values& gate, const Values& up);
Values rope(const Values& x, const Values& cos, const Values& sin, const Ints& positions, int64_t S, int64_t H,
            int64_t D);
double cross_entropy(const Values& logits, const Ints& targets, int64_t ignore, int64_t V);  // the sum over valid rows

struct AttentionSizes {
  int64_t B, S, T, H, K, D;
};
struct Attended {
  Values y, lse;
};
Attended attention(const Values& q, const Values& k, const Values& v, const Ints& attend, const AttentionSizes& sizes);
struct AttentionSlopes {
  Values dq, dk, dv;
};
AttentionSlopes attention_backward(const Values& dy, const Values& q, const Values& k, const Values& v,
                                   const Ints& attend, const AttentionSizes& sizes);

}  // namespace twin

}  // namespace course::test
