#include "chapters/11_loss_parallel/two_losses.hpp"

#include <cmath>

#include "common/rng.hpp"
#include "common/support/table.hpp"

namespace course {
namespace {

struct Outcome {
  double loss = 0;
  Sent sent;
  int64_t peak = 0;
  std::vector<float> gradient;  // this rank's columns
};

// My columns of one random [1,N,V] tensor.
DTensor random_logits(const DeviceMesh& tp, int64_t N, int64_t V) {
  const Layout layout{tp, {Shard(2)}, {1, N, V}};
  const Box box = local_box(tp, layout.placements, layout.global);
  std::vector<float> values(numel(box.size));
  const Rng rng(1, "logits");
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    const int64_t row = i / box.size[2], column = box.offset[2] + i % box.size[2];
    values[i] = static_cast<float>(4 * rng.uniform(row * V + column) - 2);
  }
  return DTensor(tp.backend().from_host(values, box.size), layout);
}

Outcome measure(const DeviceMesh& tp, const Traffic& traffic, Loss& loss, const Tensor& targets, int64_t V, bool gathered) {
  Backend& backend = tp.backend();
  DTensor logits = random_logits(tp, targets.numel(), V);
  const Traffic before = traffic;
  backend.reset_peak();
  const int64_t held = backend.memory_use().now;
  Outcome outcome;
  if (gathered) logits = logits.redistribute({Replicate()});
  outcome.loss = loss.forward(std::move(logits), targets) / static_cast<double>(targets.numel());
  DTensor gradient = loss.backward(static_cast<double>(targets.numel()));
  outcome.peak = backend.memory_use().peak - held;
  outcome.sent = traffic.since(before).total();
  if (gathered) gradient = gradient.redistribute({Shard(2)});
  outcome.gradient = backend.to_host(gradient.local());
  return outcome;
}

}  // namespace

void compare_losses(std::ostream& out, const DeviceMesh& tp, const Traffic& traffic, const TrainingOptions& options) {
  const int64_t V = options.config().vocab_size, N = options.batch / options.accumulate * options.seq;
  const Rng rng(2, "targets");
  std::vector<int32_t> ids(N);
  for (int64_t i = 0; i < N; ++i) ids[i] = static_cast<int32_t>(rng.uniform(i) * static_cast<double>(V));
  const Tensor targets = tp.backend().from_host(ids, {N});

  CrossEntropy whole(tp.backend(), -100);
  LossParallel parts(tp.backend(), -100);
  const Outcome a = measure(tp, traffic, whole, targets, V, true), b = measure(tp, traffic, parts, targets, V, false);
  double worst = std::abs(a.loss - b.loss) / a.loss, largest = 0, apart = 0;
  for (size_t i = 0; i < a.gradient.size(); ++i) {
    largest = std::max(largest, std::abs(double(a.gradient[i])));
    apart = std::max(apart, std::abs(double(a.gradient[i]) - b.gradient[i]));
  }
  if (largest > 0) worst = std::max(worst, apart / largest);

  out << "loss of " << N << " tokens, vocabulary " << V << ", on " << tp.size() << (tp.size() == 1 ? " rank" : " ranks") << "\n";
  Table table({"", "|", "loss", "calls", "bytes sent", "memory beyond the shard"});
  table.row("logits gathered", a.loss, a.sent.calls, group_digits(std::llround(a.sent.bytes)), human_bytes(a.peak));
  table.row("loss parallel", b.loss, b.sent.calls, group_digits(std::llround(b.sent.bytes)), human_bytes(b.peak));
  out << table.str() << "largest difference, loss and gradient: " << worst << "\n" << std::endl;
  worst = tp.comm().max(worst);
  require_shared(worst <= 1e-5, "the two losses differ by ", worst);
}

}  // namespace course
