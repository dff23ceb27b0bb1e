// PrepareModuleInput, PrepareModuleOutput and both: what the body gets, what leaves, and the way back of the gradient.
#include "chapters/04_sharded_linear/conjugate_pair.hpp"
#include "chapters/07_sequence_parallel/sequence_style.hpp"
#include "common/comm/recorder.hpp"
#include "tests/chapters/07_sequence_parallel/layers.hpp"

namespace course::test {
namespace {

// Hands on what it is given, both ways, and remembers how it came.
class Window : public Module {
 public:
  explicit Window(Backend& backend) : Module(backend) {}
  std::string kind() const override { return "Window"; }
  DTensor in, dout;
  std::function<DTensor(DTensor)> output = [](DTensor x) { return x; }, gradient = [](DTensor dy) { return dy; };

 private:
  DTensor run_forward(DTensor x) override { return output(in = std::move(x)); }
  DTensor run_backward(DTensor dy) override { return gradient(dout = std::move(dy)); }
};

std::string lies(const DTensor& x) { return x.has_layout() ? show(x.layout().placements) : "plain"; }

// A tensor as `p`: a part of the whole; as Partial a term that differs by rank, of which the whole is the sum.
DTensor placed(const Tensor& whole, const DeviceMesh& tp, const Placement& p) {
  Tensor part = part_of(whole, tp, p);
  if (is_partial(p)) {
    const auto share = static_cast<float>(tp.coordinate() + 1) / static_cast<float>(tp.size() * (tp.size() + 1) / 2);
    backend().scale(part, share);
  }
  return DTensor::from_local(std::move(part), tp, {p}, whole.shape());
}

std::string check_part(const DTensor& got, const Tensor& whole, const DeviceMesh& tp, const Placement& p) {
  return differs(got.local(), part_of(whole, tp, p), 1e-6);
}

const Placement R = Replicate(), S1 = Shard(1), P = Partial();
const Shape shape = {3, 7, 2};

}  // namespace

TEST_CASE("PrepareModuleInput redistributes on the way in, and the gradient on its way out") {
  Traffic traffic;
  Recorder seen(world(), traffic);
  const DeviceMesh tp = tp_mesh(seen);
  const int64_t some = tp.size() > 1;
  const Tensor x = random("x", shape), dx = random("dx", shape);
  struct Case {
    Placement input, desired, gradient;  // gradient: how the body gives it back
    int64_t gathers, scatters, reduces;  // backward
  };
  for (const Case& c :
       {Case{S1, R, P, 0, 1, 0}, {S1, R, R, 0, 0, 0}, {R, R, R, 0, 0, 0}, {R, S1, S1, 1, 0, 0}, {S1, S1, S1, 0, 0, 0}})
    for (const bool plain : {false, true}) {
      if (plain && as_shard(c.input) && shape[1] % tp.size()) continue;  // uneven parts need their layout
      INFO(show(c.input) << " → " << show(c.desired) << ", gradient " << show(c.gradient) << (plain ? ", plain" : ""));
      Window window(backend());
      PrepareModuleInput(c.input, c.desired).apply(window, tp);
      window.gradient = [&](const DTensor&) { return placed(dx, tp, c.gradient); };
      const DTensor given = placed(x, tp, c.input);
      traffic.clear();
      window.forward(plain ? given.to_local() : given);
      CHECK(lies(window.in) == show(Placements{c.desired}));
      CHECK(check_part(window.in, x, tp, c.desired) == "");
      CHECK(traffic.count(Op::AllGather) == some * (as_shard(c.input) && is_replicate(c.desired)));
      CHECK(traffic.total().calls == traffic.count(Op::AllGather));
      traffic.clear();
      const DTensor back = window.backward(DTensor());
      CHECK(lies(back) == (plain ? "plain" : show(Placements{c.input})));
      CHECK(check_part(back, dx, tp, c.input) == "");
      CHECK(traffic.count(Op::AllGather) == some * c.gathers);
      CHECK(traffic.count(Op::ReduceScatter) == some * c.scatters);
      CHECK(traffic.count(Op::AllReduce) == some * c.reduces);
    }
}

TEST_CASE("a Partial gradient of a replicated input: reduced for a plain input, handed on to whoever made the layout") {
  Traffic traffic;
  Recorder seen(world(), traffic);
  const DeviceMesh tp = tp_mesh(seen);
  const Tensor x = random("x", shape), dx = random("dx", shape);
  for (const bool plain : {true, false}) {
    Window window(backend());
    PrepareModuleInput(R, R).apply(window, tp);
    window.gradient = [&](const DTensor&) { return placed(dx, tp, P); };
    window.forward(plain ? DTensor(backend().clone(x)) : placed(x, tp, R));
    traffic.clear();
    const DTensor back = window.backward(DTensor());
    CHECK(lies(back) == (plain ? "plain" : "[P]"));
    CHECK(traffic.count(Op::AllReduce) == (plain && tp.size() > 1));
    if (plain) CHECK(check_part(back, dx, tp, R) == "");
  }
}

TEST_CASE("with use_local_output the body gets a plain tensor, and its plain gradient is taken as the layout it got") {
  const DeviceMesh tp = tp_mesh();
  const Tensor x = random("x", shape), dx = random("dx", shape);
  Window window(backend());
  PrepareModuleInput(S1, R).use_local_output(true).apply(window, tp);
  window.gradient = [&](const DTensor&) { return DTensor(backend().clone(dx)); };
  window.forward(placed(x, tp, S1));
  CHECK(lies(window.in) == "plain");
  CHECK(check_part(window.in, x, tp, R) == "");
  const DTensor back = window.backward(DTensor());
  CHECK(lies(back) == "[S(1)]");
  CHECK(check_part(back, dx, tp, S1) == "");
}

TEST_CASE("PrepareModuleOutput redistributes what leaves, and hands the body the gradient of what it made") {
  Traffic traffic;
  Recorder seen(world(), traffic);
  const DeviceMesh tp = tp_mesh(seen);
  const int64_t some = tp.size() > 1;
  const Tensor y = random("y", shape), dy = random("dy", shape);
  struct Case {
    Placement output, desired;
    int64_t gathers, scatters, reduces;  // forward
    std::string gradient;                // as the body sees it
    int64_t back_gathers;
  };
  for (const Case& c : {Case{P, S1, 0, 1, 0, "[R]", 1},
                        {P, R, 0, 0, 1, "[R]", 0},
                        {S1, R, 1, 0, 0, "[S(1)]", 0},
                        {R, S1, 0, 0, 0, "[R]", 1}})
    for (const bool local : {true, false}) {
      INFO(show(c.output) << " → " << show(c.desired) << (local ? " local" : ""));
      Window window(backend());
      PrepareModuleOutput style(c.output, c.desired);
      if (!local) style.use_local_output(false);  // true is the default
      style.apply(window, tp);
      window.output = [&](const DTensor&) { return placed(y, tp, c.output); };
      traffic.clear();
      const DTensor left = window.forward(DTensor());
      CHECK(lies(left) == (local ? "plain" : show(Placements{c.desired})));
      CHECK(check_part(left, y, tp, c.desired) == "");
      CHECK(traffic.count(Op::AllGather) == some * c.gathers);
      CHECK(traffic.count(Op::ReduceScatter) == some * c.scatters);
      CHECK(traffic.count(Op::AllReduce) == some * c.reduces);
      traffic.clear();
      const DTensor given = placed(dy, tp, c.desired);
      window.backward(local ? given.to_local() : given);
      CHECK(lies(window.dout) == c.gradient);
      CHECK(check_part(window.dout, dy, tp, gradient_of(c.output)) == "");
      CHECK(traffic.count(Op::AllGather) == some * c.back_gathers);
      CHECK(traffic.total().calls == some * c.back_gathers);
    }
}

TEST_CASE("PrepareModuleInputOutput does both") {
  const DeviceMesh tp = tp_mesh();
  const Tensor x = random("x", shape), dy = random("dy", shape);
  for (const bool local : {false, true}) {
    Window window(backend());
    PrepareModuleInputOutput style(S1, R, P, S1);
    CHECK(style.show() == "PrepareModuleInputOutput(S(1) → R) (P → S(1))");
    style.use_local_input(local).use_local_output(local).apply(window, tp);
    window.output = [&](const DTensor& in) { return placed(in.local(), tp, P); };
    window.gradient = [&](const DTensor& dout) { return placed(dout.local(), tp, P); };
    const DTensor y = window.forward(placed(x, tp, S1));
    CHECK(lies(window.in) == (local ? "plain" : "[R]"));
    CHECK(lies(y) == (local ? "plain" : "[S(1)]"));
    CHECK(check_part(y, x, tp, S1) == "");
    const DTensor dx = window.backward(local ? placed(dy, tp, S1).to_local() : placed(dy, tp, S1));
    CHECK(lies(dx) == "[S(1)]");
    CHECK(check_part(dx, dy, tp, S1) == "");
  }
}

TEST_CASE("nothing is made Partial on purpose") {
  if (world().size() == 1) return;
  const DeviceMesh tp = tp_mesh();
  Window window(backend());
  PrepareModuleInput(R, P).apply(window, tp);
  CHECK_THROWS_WITH(window.forward(random("x", shape)), Catch::Matchers::Contains("Partial on purpose"));
}

TEST_CASE("an all-reduce is a reduce-scatter and an all-gather: the same sum, the same bytes, a slice in between") {
  Traffic traffic;
  Recorder seen(world(), traffic);
  const int ranks = world().size();
  for (const Shape& whole : {Shape{2, 8, 3}, {3, 7, 5}, {2, 3, 4}, {1, 1, 6}}) {
    INFO(show(whole) << " on " << ranks << " ranks");
    const Tensor term = random(cat("term ", world().rank()), whole);
    traffic.clear();
    const Tensor sum = g.forward(backend(), seen, term, whole);
    const Sent at_once = traffic.total();
    traffic.clear();
    const Tensor slice = scatter.forward(backend(), seen, term, whole);
    const Tensor joined = gather.forward(backend(), seen, slice, whole);
    const Sent halves = traffic.total();
    CHECK(differs(joined, sum, 1e-6) == "");
    CHECK(at_once.calls == (ranks > 1 ? 1 : 0));
    CHECK(halves.calls == 2 * at_once.calls);
    CHECK(halves.bytes == Approx(at_once.bytes).epsilon(1e-12));
    CHECK(at_once.bytes == Approx(2.0 * (ranks - 1) / ranks * term.bytes()).epsilon(1e-12));
    CHECK(world().sum(static_cast<double>(slice.bytes())) == term.bytes());
  }
}

}  // namespace course::test
