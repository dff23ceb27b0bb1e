// Grouped-query attention, cut by key/value group, against loops over the numbers on the host; then token by token, with the cache.
#include <cmath>

#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "chapters/06_sharded_attention/attention.hpp"
#include "tests/exercises/module_check.hpp"

using namespace course;

namespace {

constexpr double kTheta = 10000;

// The same parameters, whole; between the projections everything is a loop in double.
class ByTheFormula : public Module {
 public:
  ByTheFormula(Backend& backend, AttentionSizes sizes)
      : Module(backend),
        H(sizes.heads),
        K(sizes.kv_heads),
        D(sizes.head_dim),
        q_proj(add("q_proj", std::make_unique<Linear>(backend, sizes.hidden, H * D))),
        k_proj(add("k_proj", std::make_unique<Linear>(backend, sizes.hidden, K * D))),
        v_proj(add("v_proj", std::make_unique<Linear>(backend, sizes.hidden, K * D))),
        o_proj(add("o_proj", std::make_unique<Linear>(backend, H * D, sizes.hidden))) {}
  std::string kind() const override { return "ByTheFormula"; }

 private:
  using Numbers = std::vector<double>;
  int64_t H, K, D, B = 0, S = 0;
  Linear &q_proj, &k_proj, &v_proj, &o_proj;
  Numbers q_, k_, v_, p_;  // q and k turned; p [B,H,S,S], what a query takes of each value

  Numbers numbers(const DTensor& x) {
    const auto floats = backend().to_host(x.local());
    return {floats.begin(), floats.end()};
  }
  Tensor tensor(const Numbers& x, int64_t columns) {
    return backend().from_host(std::vector<float>(x.begin(), x.end()), {B, S, columns});
  }
  // [B,S,n,D], turned on (sign 1) or back (-1).
  void turn(Numbers& x, int64_t n, double sign) const {
    for (int64_t at = 0; at < B * S * n; ++at)
      for (int64_t i = 0; i < D / 2; ++i) {
        const double angle = sign * static_cast<double>(at / n % S) * std::pow(kTheta, -2.0 * static_cast<double>(i) / static_cast<double>(D));
        double &a = x[at * D + i], &b = x[at * D + i + D / 2];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a * std::sin(angle);
        a = turned;
      }
  }
  int64_t query(int64_t b, int64_t s, int64_t h) const { return ((b * S + s) * H + h) * D; }
  int64_t key(int64_t b, int64_t s, int64_t h) const { return ((b * S + s) * K + h / (H / K)) * D; }
  double& share(Numbers& p, int64_t b, int64_t h, int64_t s, int64_t t) const { return p[((b * H + h) * S + s) * S + t]; }
  double dot(const Numbers& x, int64_t i, const Numbers& y, int64_t j) const {
    double sum = 0;
    for (int64_t d = 0; d < D; ++d) sum += x[i + d] * y[j + d];
    return sum;
  }
  // For all b, h, s and t ≤ s.
  void each(const std::function<void(int64_t, int64_t, int64_t, int64_t)>& f) const {
    for (int64_t b = 0; b < B; ++b)
      for (int64_t h = 0; h < H; ++h)
        for (int64_t s = 0; s < S; ++s)
          for (int64_t t = 0; t <= s; ++t) f(b, h, s, t);
  }

  DTensor run_forward(DTensor x) override {
    B = x.local().dim(0), S = x.local().dim(1);
    q_ = numbers(q_proj.forward(x)), k_ = numbers(k_proj.forward(x)), v_ = numbers(v_proj.forward(x));
    turn(q_, H, 1);
    turn(k_, K, 1);
    p_.assign(B * H * S * S, 0);
    Numbers y(B * S * H * D, 0), sums(B * H * S, 0);
    const auto sum = [&](int64_t b, int64_t h, int64_t s) -> double& { return sums[(b * H + h) * S + s]; };
    each([&](auto b, auto h, auto s, auto t) {
      share(p_, b, h, s, t) = std::exp(dot(q_, query(b, s, h), k_, key(b, t, h)) / std::sqrt(static_cast<double>(D)));
      sum(b, h, s) += share(p_, b, h, s, t);
    });
    each([&](auto b, auto h, auto s, auto t) {
      share(p_, b, h, s, t) /= sum(b, h, s);
      for (int64_t d = 0; d < D; ++d) y[query(b, s, h) + d] += share(p_, b, h, s, t) * v_[key(b, t, h) + d];
    });
    return o_proj.forward(tensor(y, H * D));
  }
  DTensor run_backward(DTensor dout) override {
    const Numbers dy = numbers(o_proj.backward(std::move(dout)));
    Numbers dq(q_.size(), 0), dk(k_.size(), 0), dv(v_.size(), 0), mean(B * H * S, 0);
    each([&](auto b, auto h, auto s, auto t) {
      mean[(b * H + h) * S + s] += share(p_, b, h, s, t) * dot(dy, query(b, s, h), v_, key(b, t, h));
    });
    each([&](auto b, auto h, auto s, auto t) {
      const double p = share(p_, b, h, s, t), dp = dot(dy, query(b, s, h), v_, key(b, t, h));
      const double ds = p * (dp - mean[(b * H + h) * S + s]) / std::sqrt(static_cast<double>(D));
      for (int64_t d = 0; d < D; ++d) {
        dv[key(b, t, h) + d] += p * dy[query(b, s, h) + d];
        dq[query(b, s, h) + d] += ds * k_[key(b, t, h) + d];
        dk[key(b, t, h) + d] += ds * q_[query(b, s, h) + d];
      }
    });
    turn(dq, H, -1);
    turn(dk, K, -1);
    Tensor dx = q_proj.backward(tensor(dq, H * D)).take(backend());
    backend().add(dx, k_proj.backward(tensor(dk, K * D)).local());
    backend().add(dx, v_proj.backward(tensor(dv, K * D)).local());
    return dx;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "heads", [](Check& check) {
    Backend& backend = check.backend();
    const DeviceMesh tp(check.world(), backend, {{"tp", check.size()}});
    for (int round = 0; round < 3; ++round) {
      const int64_t B = check.random(cat("B", round), 1, 2), S = check.random(cat("S", round), 4, 7), D = 4 + 2 * round;
      const int64_t E = check.random(cat("E", round), 5, 9), K = check.random(cat("K", round), 2, 4), G = 1 + (round + 1) % 3;
      const AttentionSizes sizes{E, K * G, K, D};
      const auto context = std::make_shared<SequenceContext>();
      ByTheFormula whole(backend, sizes);
      Attention sharded(backend, sizes, std::make_shared<RopeTable>(backend, 16, D, kTheta), context);
      ColwiseParallel().block(sizes.query_block()).apply(sharded.q_proj, tp);
      for (Linear* linear : {&sharded.k_proj, &sharded.v_proj}) ColwiseParallel().block(sizes.kv_block()).apply(*linear, tp);
      RowwiseParallel().block(sizes.query_block()).apply(sharded.o_proj, tp);
      for (Module* m : std::initializer_list<Module*>{&whole, &sharded}) initialize(*m, 3);

      const Tensor x = check.random(cat("x", round), {B, S, E}), dy = check.random(cat("dy", round), {B, S, E});
      const std::string what = cat("B ", B, ", S ", S, ", ", K * G, " heads of ", D, " on ", K);
      check.begin(what);
      check_module(check, "Attention", whole, sharded, tp, x, dy, {});
      check.sent({{Op::AllReduce, {4, 4 * ring_bytes(Op::AllReduce, 4.0 * static_cast<double>(B * S * E), check.size())}}});

      // The prompt, then a token at a time.
      const Tensor y = whole.forward(backend.clone(x)).take(backend);
      sharded.set_training(false);
      context->cache = true;
      for (int64_t begin = 0, count = S - 2; begin < S; begin += count, count = 1) {
        context->offset = begin;
        check.begin(cat("with the cache, tokens ", begin, " to ", begin + count - 1, "; ", what));
        check.equal("output", sharded.forward(backend.slice(x, 1, begin, count)).take(backend), backend.slice(y, 1, begin, count));
      }
    }
  });
}
