// The sum of many gradients over an axis: the values, one message, and the memory for it.
#include "chapters/10_tensor_parallel_training/packed_sum.hpp"

#include "tests/exercises/module_check.hpp"

using namespace course;

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "packed", [](Check& check) {
    Backend& backend = check.backend();
    const DeviceMesh dp(check.world(), backend, {{"dp", check.size()}});
    for (int round = 0; round < 3; ++round) {
      std::vector<std::unique_ptr<Parameter>> parameters;
      std::vector<Tensor> sums;
      Parameters all;
      int64_t total = 0;
      for (int i = 0; i < 2 + round; ++i) {
        const Shape shape = {check.random(cat("rows", round, i), 2, 9), 3};
        parameters.push_back(std::make_unique<Parameter>(backend, cat("p", i), shape, Init{Init::Constant, 1}));
        parameters.back()->fill(1);
        sums.push_back(backend.zeros(shape));
        for (int r = 0; r < check.size(); ++r) {
          const Tensor term = check.random(cat("gradient", round, i, " of rank ", r), shape);
          backend.add(sums.back(), term);
          if (r == check.rank()) parameters.back()->gradient() = backend.clone(term);
        }
        all.push_back(parameters.back().get());
        total += numel(shape);
      }
      check.begin(cat(all.size(), " gradients, ", total, " numbers"));
      InFlight in_flight;
      PackedSum sum(all, dp);
      const int64_t bytes = total * size_of(DType::F32), before = backend.memory_use().now_of[MemoryClass::Buffers];
      const auto buffers = [&] { return cat(backend.memory_use().now_of[MemoryClass::Buffers] - before, " bytes"); };
      sum.start(in_flight);
      check.equal("memory of class Buffers while it is under way", buffers(), cat(check.size() > 1 ? bytes : 0, " bytes"));
      sum.finish();
      check.equal("memory of class Buffers after finish", buffers(), "0 bytes");
      for (size_t i = 0; i < all.size(); ++i) check.equal(cat("gradient ", i), all[i]->gradient(), sums[i]);
      check.peak(MemoryClass::Buffers, bytes);
      check.sent({{Op::AllReduce, {1, ring_bytes(Op::AllReduce, static_cast<double>(bytes), check.size())}}});
    }
  });
}
