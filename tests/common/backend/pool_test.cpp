#include "common/backend/cpu/pool.hpp"

#include <cstdint>
#include <thread>

#include "tests/support/catch.hpp"

using namespace course;

TEST_CASE("pool: a repeated step asks the system for nothing") {
  Pool pool;
  auto step = [&] {
    Tensor a(pool, {300, 7}, DType::F32), b(pool, {1 << 20}, DType::F32), c(pool, {3}, DType::U8);
    a = Tensor(pool, {300, 7}, DType::F32);
    Tensor d(pool, {300, 5}, DType::I64);
  };
  step();
  const int64_t taken = pool.use().from_system;
  CHECK(taken > 4 << 20);
  for (int i = 0; i < 5; ++i) step();
  CHECK(pool.use().from_system == taken);
  CHECK(pool.use().now == 0);
}

TEST_CASE("pool: now and peak count the bytes of live tensors") {
  Pool pool;
  {
    Tensor a(pool, {100}, DType::F32);
    CHECK(pool.use().now == 400);
    { Tensor b(pool, {1000}, DType::F32); }
    Tensor c(pool, {10}, DType::F32);
    CHECK(pool.use().now == 440);
    CHECK(pool.use().peak == 4400);
    pool.reset_peak();
    CHECK(pool.use().peak == 440);
  }
  CHECK(pool.use().now == 0);
  CHECK(pool.use().peak == 440);
}

TEST_CASE("pool: blocks are aligned, apart and wholly usable") {
  Pool pool;
  std::vector<Tensor> tensors;
  for (int64_t n : {1, 3, 63, 64, 65, 1000, 4097, 70001, (5 << 20) + 1})
    tensors.emplace_back(pool, Shape{n}, DType::U8);
  uint8_t mark = 1;
  for (Tensor& x : tensors) {
    CHECK(reinterpret_cast<uintptr_t>(x.raw()) % 64 == 0);
    std::fill_n(x.data<uint8_t>(), x.numel(), mark++);
  }
  mark = 1;
  for (Tensor& x : tensors) {
    CHECK(std::all_of(x.data<uint8_t>(), x.data<uint8_t>() + x.numel(), [&](uint8_t b) { return b == mark; }));
    ++mark;
  }
}

TEST_CASE("pool: rounding up wastes at most an eighth, beyond the first 64 bytes") {
  for (int64_t n = 1; n < 1 << 20; n += n / 50 + 1) {
    const int64_t size = Pool::rounded(n);
    CAPTURE(n, size);
    CHECK(size >= n);
    CHECK(size % 64 == 0);
    CHECK(size - n < std::max<int64_t>(64, n / 8 + 1));
    CHECK(Pool::rounded(size) == size);
  }
}

TEST_CASE("pool: more than the system has is an error that says how much") {
  Pool pool;
  CHECK_THROWS_WITH(pool.allocate(int64_t{1} << 60, MemoryClass::Buffers), Catch::Contains("1152921504606846976 bytes"));
  CHECK(pool.use().now == 0);
}

TEST_CASE("pool: each class is counted by itself, whatever is moved, reshaped or freed elsewhere") {
  using enum MemoryClass;
  Pool pool;
  const auto of = [&](MemoryClass c) { return pool.use().now_of[c]; };
  Tensor kept;
  {
    const MemoryScope outer(Parameters);
    Tensor a(pool, {100}, DType::F32);
    {
      const MemoryScope inner(Gradients);
      Tensor b(pool, {10}, DType::F32);
      kept = std::move(b).reshape({2, 5});
      std::thread([&] { Tensor c(pool, {1000}, DType::F32); }).join();  // another thread: no scope there
    }
    Tensor d(pool, {7}, DType::F32);
    CHECK(of(Parameters) == 428);
    CHECK(of(Gradients) == 40);
    CHECK(pool.use().peak == 4440);
    CHECK(pool.use().peak_of[Activations] == 4000);
    CHECK(pool.use().at_peak[Parameters] == 400);
    CHECK(pool.use().at_peak[Gradients] == 40);
    CHECK(pool.use().at_peak.total() == pool.use().peak);
  }
  const MemoryScope elsewhere(Optimizer);
  CHECK(of(Parameters) == 0);
  CHECK(of(Gradients) == 40);
  pool.reset_peak();
  CHECK(pool.use().peak_of[Activations] == 0);
  CHECK(pool.use().at_peak[Gradients] == 40);
  kept = Tensor(pool, {3}, DType::F32);
  CHECK(of(Gradients) == 0);
  CHECK(of(Optimizer) == 12);
  CHECK(pool.use().now_of.total() == pool.use().now);
}
