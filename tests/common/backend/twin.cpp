#include "tests/common/backend/twin.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace course::test {

Values values_of(const Tensor& x) {
  const std::vector<float> values = backend().to_host(x);
  return Values(values.begin(), values.end());
}

Tensor ints(const Ints& values, Shape shape) { return backend().from_host(values, std::move(shape)); }

Ints random_ints(const std::string& name, int64_t n, int64_t begin, int64_t end) {
  const Rng rng(11, name);
  Ints values(n);
  for (int64_t i = 0; i < n; ++i) values[i] = begin + static_cast<int64_t>(rng.uniform(i) * (end - begin));
  return values;
}

std::string far(const Tensor& x, const Values& twin, double tolerance) {
  return differs(backend().to_host(x), std::vector<float>(twin.begin(), twin.end()), x.shape(), tolerance);
}

Values slope(const std::function<double(const Values&)>& loss, Values x, double step) {
  Values d(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + step;
    const double above = loss(x);
    x[i] = at - step;
    d[i] = (above - loss(x)) / (2 * step);
    x[i] = at;
  }
  return d;
}

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

namespace twin {

Values matmul(const Values& a, bool transpose_a, const Values& b, bool transpose_b, int64_t M, int64_t N, int64_t K) {
  Values c(M * N);
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t k = 0; k < K; ++k)
        c[m * N + n] += (transpose_a ? a[k * M + m] : a[m * K + k]) * (transpose_b ? b[n * K + k] : b[k * N + n]);
  return c;
}

Values rms_norm(const Values& x, const Values& weight, double eps, int64_t E) {
  Values y(x.size());
  for (size_t row = 0; row < x.size(); row += E) {
    double squares = 0;
    for (int64_t e = 0; e < E; ++e) squares += x[row + e] * x[row + e];
    for (int64_t e = 0; e < E; ++e) y[row + e] = x[row + e] / std::sqrt(squares / E + eps) * weight[e];
  }
  return y;
}

Values gelu(const Values& x, Gelu kind) {
  Values y;
  for (double v : x)
    y.push_back(kind == Gelu::Exact ? v * 0.5 * std::erfc(-v / std::sqrt(2.0))
                                    : 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))));
  return y;
}

Values silu_mul(const Values& gate, const Values& up) {
  Values y(gate.size());
  for (size_t i = 0; i < y.size(); ++i) y[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
  return y;
}

Values rope(const Values& x, const Values& cos, const Values& sin, const Ints& positions, int64_t S, int64_t H,
            int64_t D) {
  Values y(x.size());
  for (size_t row = 0; row < x.size() / D; ++row) {
    const int64_t position = positions[row / H % S];
    for (int64_t i = 0; i < D / 2; ++i) {
      const double c = cos[position * (D / 2) + i], s = sin[position * (D / 2) + i];
      const double a = x[row * D + i], b = x[row * D + i + D / 2];
      y[row * D + i] = a * c - b * s;
      y[row * D + i + D / 2] = a * s + b * c;
    }
  }
  return y;
}

double cross_entropy(const Values& logits, const Ints& targets, int64_t ignore, int64_t V) {
  double loss = 0;
  for (size_t n = 0; n < targets.size(); ++n) {
    if (targets[n] == ignore) continue;
    const double* row = logits.data() + n * V;
    const double top = *std::max_element(row, row + V);
    double sum = 0;
    for (int64_t c = 0; c < V; ++c) sum += std::exp(row[c] - top);
    loss += std::log(sum) + top - row[targets[n]];
  }
  return loss;
}

namespace {

// The weights of one query: softmax over the keys it sees, empty if it sees none.
Values weights(const Values& q, const Values& k, const Ints& attend, const AttentionSizes& z, int64_t b, int64_t h,
               int64_t i, double* lse) {
  const int64_t stands = z.T - z.S + i, c = h / (z.H / z.K);
  *lse = -std::numeric_limits<double>::infinity();
  if (!attend.empty() && !attend[b * z.T + stands]) return {};
  Values p(stands + 1);
  double sum = 0;
  for (int64_t j = 0; j <= stands; ++j) {
    double score = 0;
    for (int64_t d = 0; d < z.D; ++d)
      score += q[((b * z.S + i) * z.H + h) * z.D + d] * k[((b * z.T + j) * z.K + c) * z.D + d];
    const bool seen = attend.empty() || attend[b * z.T + j];
    sum += p[j] = seen ? std::exp(score / std::sqrt(double(z.D))) : 0;
  }
  for (double& x : p) x /= sum;
  *lse = std::log(sum);
  return p;
}

}  // namespace

Attended attention(const Values& q, const Values& k, const Values& v, const Ints& attend, const AttentionSizes& z) {
  Attended out = {Values(q.size()), Values(z.B * z.H * z.S)};
  for (int64_t b = 0; b < z.B; ++b)
    for (int64_t h = 0; h < z.H; ++h)
      for (int64_t i = 0; i < z.S; ++i) {
        const Values p = weights(q, k, attend, z, b, h, i, &out.lse[(b * z.H + h) * z.S + i]);
        for (size_t j = 0; j < p.size(); ++j)
          for (int64_t d = 0; d < z.D; ++d)
            out.y[((b * z.S + i) * z.H + h) * z.D + d] += p[j] * v[((b * z.T + j) * z.K + h / (z.H / z.K)) * z.D + d];
      }
  return out;
}

AttentionSlopes attention_backward(const Values& dy, const Values& q, const Values& k, const Values& v,
                                   const Ints& attend, const AttentionSizes& z) {
  AttentionSlopes out = {Values(q.size()), Values(k.size()), Values(v.size())};
  const double factor = 1 / std::sqrt(double(z.D));
  for (int64_t b = 0; b < z.B; ++b)
    for (int64_t h = 0; h < z.H; ++h)
      for (int64_t i = 0; i < z.S; ++i) {
        double lse;
        const Values p = weights(q, k, attend, z, b, h, i, &lse);
        const int64_t query = ((b * z.S + i) * z.H + h) * z.D;
        auto key = [&](size_t j) { return ((b * z.T + int64_t(j)) * z.K + h / (z.H / z.K)) * z.D; };
        Values dp(p.size());
        for (size_t j = 0; j < p.size(); ++j)
          for (int64_t d = 0; d < z.D; ++d) dp[j] += dy[query + d] * v[key(j) + d];
        const double mean = dot(p, dp);
        for (size_t j = 0; j < p.size(); ++j) {
          const double ds = p[j] * (dp[j] - mean) * factor;
          for (int64_t d = 0; d < z.D; ++d) {
            out.dq[query + d] += ds * k[key(j) + d];
            out.dk[key(j) + d] += ds * q[query + d];
            out.dv[key(j) + d] += p[j] * dy[query + d];
          }
        }
      }
  return out;
}

}  // namespace twin

}  // namespace course::test
