#include <cmath>

#include "common/backend/cpu/kernels.hpp"
#include "common/backend/cpu/parallel.hpp"

namespace course::cpu {

// The order of operations is that of torch.optim.AdamW.
void adamw(float* value, const float* grad, float* mean, float* square, const AdamWStep& step, int64_t n) {
  const double correction1 = 1 - std::pow(step.beta1, step.step), correction2 = 1 - std::pow(step.beta2, step.step);
  const float keep = 1 - step.lr * step.weight_decay, rate = step.lr / correction1, root = std::sqrt(correction2);
  const float new1 = 1 - step.beta1, old2 = step.beta2, new2 = 1 - step.beta2, eps = step.eps;
#pragma omp parallel for simd if (n > kWorthThreads / 4)
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad[i], m = mean[i] + new1 * (g - mean[i]), v = square[i] * old2 + new2 * g * g;
    mean[i] = m;
    square[i] = v;
    value[i] = value[i] * keep - rate * (m / (std::sqrt(v) / root + eps));
  }
}

}  // namespace course::cpu
