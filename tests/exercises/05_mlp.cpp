// Llama's MLP, cut over ranks, against the formula number by number.
#include <cmath>

#include "chapters/04_sharded_linear/conjugate_pair.hpp"
#include "chapters/05_sharded_mlp/mlp.hpp"
#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "tests/exercises/module_check.hpp"

using namespace course;

namespace {

// The same parameters; between the projections, a loop over the numbers on the host.
class ByTheFormula : public Module {
 public:
  ByTheFormula(Backend& backend, int64_t E, int64_t I)
      : Module(backend),
        gate(add("gate_proj", std::make_unique<Linear>(backend, E, I))),
        up(add("up_proj", std::make_unique<Linear>(backend, E, I))),
        down(add("down_proj", std::make_unique<Linear>(backend, I, E))) {}
  std::string kind() const override { return "ByTheFormula"; }
  Linear &gate, &up, &down;

 private:
  DTensor run_forward(DTensor x) override {
    const DTensor g = gate.forward(x), u = up.forward(x);
    shape_ = g.local().shape();
    g_ = backend().to_host(g.local());
    u_ = backend().to_host(u.local());
    std::vector<float> active(g_.size());
    for (size_t i = 0; i < active.size(); ++i) active[i] = static_cast<float>(double(g_[i]) * sigmoid(g_[i]) * u_[i]);
    return down.forward(backend().from_host(active, shape_));
  }
  DTensor run_backward(DTensor dy) override {
    const DTensor da = down.backward(std::move(dy));
    const auto d = backend().to_host(da.local());
    std::vector<float> dg(d.size()), du(d.size());
    for (size_t i = 0; i < d.size(); ++i) {
      const double s = sigmoid(g_[i]);
      dg[i] = static_cast<float>(d[i] * u_[i] * s * (1 + g_[i] * (1 - s)));
      du[i] = static_cast<float>(d[i] * g_[i] * s);
    }
    const DTensor by_gate = gate.backward(backend().from_host(dg, shape_)), by_up = up.backward(backend().from_host(du, shape_));
    Tensor dx = backend().clone(by_gate.local());
    backend().add(dx, by_up.local());
    return dx;
  }
  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
  Shape shape_;
  std::vector<float> g_, u_;
};

}  // namespace

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "mlp", [](Check& check) {
    Backend& backend = check.backend();
    const DeviceMesh tp(check.world(), backend, {{"tp", check.size()}});
    for (int round = 0; round < 3; ++round) {
      const int64_t N = check.random(cat("N", round), 1, 5), E = check.random(cat("E", round), 3, 8), I = check.random(cat("I", round), 4, 11);
      check.begin(cat("x [", N, ",", E, "], ", I, " between"));
      ByTheFormula whole(backend, E, I);
      SwiGluMlp mlp(backend, E, I);
      for (Linear* linear : {&mlp.gate_proj, &mlp.up_proj}) ColwiseParallel().apply(*linear, tp);
      RowwiseParallel().apply(mlp.down_proj, tp);
      initialize(whole, 5);
      initialize(mlp, 5);
      const Tensor x = check.random(cat("x", round), {N, E}), dy = check.random(cat("dy", round), {N, E});
      const Tensor y = whole.forward(backend.clone(x)).take(backend), dx = whole.backward(backend.clone(dy)).take(backend);

      check.begin(cat("forward of x [", N, ",", E, "], ", I, " between"));
      const std::map<Op, Sent> once = {{Op::AllReduce, {1, ring_bytes(Op::AllReduce, 4.0 * static_cast<double>(N * E), check.size())}}};
      DTensor in = DTensor::from_local(f.forward(backend, check.world(), x, x.shape()), tp, {Replicate()});
      check.equal("SwiGluMlp: output", mlp.forward(std::move(in)).to_local().take(backend), y);
      check.sent(once);

      check.begin(cat("backward of x [", N, ",", E, "], ", I, " between"));
      const DTensor partial = mlp.backward(backend.clone(dy));
      check.equal("SwiGluMlp: gradient of the input", f.backward(backend, check.world(), partial.local(), x.shape()), dx);
      check.sent(once);
      const Parameters all = parameters_of(whole), mine = parameters_of(mlp);
      for (size_t i = 0; i < all.size(); ++i)
        check.equal(cat("gradient of ", mine[i]->name()), mine[i]->gradient(),
                    part_of(check, all[i]->gradient(), tp, mine[i]->placement("tp")));
    }
  });
}
