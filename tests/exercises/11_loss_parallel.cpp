// Cross-entropy on a shard of the vocabulary, against one rank's: loss, gradient, and what is sent.
#include "chapters/11_loss_parallel/loss_parallel.hpp"

#include <cmath>

#include "tests/exercises/module_check.hpp"

using namespace course;

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "loss_parallel", [](Check& check) {
    Backend& backend = check.backend();
    const DeviceMesh tp(check.world(), backend, {{"tp", check.size()}});
    constexpr int32_t ignore = -100;
    for (int round = 0; round < 4; ++round) {
      const int64_t N = check.random(cat("N", round), 4, 7), V = check.random(cat("V", round), 9, 15);
      // The largest logit and the target lie on each rank in turn; one token is to be ignored.
      std::vector<float> logits = backend.to_host(check.random(cat("logits", round), {N, V}));
      std::vector<int32_t> targets(N);
      for (int64_t n = 0; n < N; ++n) {
        logits[n * V + (n * V / N + round) % V] += 3;
        targets[n] = n == N - 2 ? ignore : static_cast<int32_t>((V - 1 - n * V / N + round) % V);
      }
      if (round % 2 == 1)
        for (float& x : logits) x += 200;  // past exp in f32: only the row's own maximum will do
      std::vector<float> gradient(N * V, 0);
      const double divisor = static_cast<double>(N - 1);
      double loss = 0;
      for (int64_t n = 0; n < N; ++n) {
        if (targets[n] == ignore) continue;
        double sum = 0;
        for (int64_t c = 0; c < V; ++c) sum += std::exp(double(logits[n * V + c]));
        loss += std::log(sum) - logits[n * V + targets[n]];
        for (int64_t c = 0; c < V; ++c)
          gradient[n * V + c] = static_cast<float>((std::exp(double(logits[n * V + c])) / sum - (c == targets[n])) / divisor);
      }
      const Tensor whole = backend.from_host(logits, {N, V});
      LossParallel parallel(backend, ignore);
      DTensor columns = DTensor::from_local(part_of(check, whole, tp, Shard(1)), tp, {Shard(1)}, Shape{N, V});
      const Tensor labels = backend.from_host(targets, {N});
      check.begin(cat(N, " tokens, ", V, " columns"));
      const double got = parallel.forward(std::move(columns), labels);
      check.equal("loss", got, loss, 1e-5);
      check.peak(MemoryClass::Activations, 4 * N * size_of(DType::F32));  // three numbers of a row, and the targets
      check.sent({{Op::AllReduce, {3, 3 * ring_bytes(Op::AllReduce, 4.0 * static_cast<double>(N), check.size())}}});
      check.begin(cat("backward, ", N, " tokens, ", V, " columns"));
      check.equal("gradient", parallel.backward(divisor).to_local().take(backend),
                  part_of(check, backend.from_host(gradient, {N, V}), tp, Shard(1)));
      check.sent({});
    }
  });
}
