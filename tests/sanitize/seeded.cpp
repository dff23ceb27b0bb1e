// One fault, by name, for the sanitizer that must find it: a watcher that sleeps would pass everything.
// In the folder's CMakeLists.txt stands what each must be told as.
#include <omp.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "common/backend/cpu/cpu_backend.hpp"

using namespace course;

namespace {

// The last element of a row is read as if the row had one more. The pool's rounding would hide it.
float behind_a_tensor(Backend& backend) {
  const Tensor x = backend.zeros({5, 3});
  return x.data<float>()[5 * 3];
}

float given_back_to_the_pool(Backend& backend) {
  const float* old = nullptr;
  {
    const Tensor x = backend.zeros({5, 3});
    old = x.data<float>();
  }
  return old[0];
}

int64_t overflow(int64_t one) { return std::numeric_limits<int64_t>::max() + one; }

void leak() {
  auto* lost = new std::vector<float>(1000);
  std::cout << lost->size() << '\n';
}

// Both threads add to one sum.
float race() {
  float sum = 0;
#pragma omp parallel for num_threads(2)
  for (int i = 0; i < 100000; ++i) sum += 0.5f;
  return sum;
}

// One thread reads what the other wrote. With a barrier between, that is no race, and none may be reported. The loop
// that reads is one that a compiler makes wide. The reader comes late: the write is then 100,000 accesses in the past.
float across(bool barrier) {
  const int half = 1 << 16;  // whole vectors, no tail
  std::vector<float> x(2 * half), y(half);
#pragma omp parallel num_threads(2)
  {
    if (omp_get_thread_num() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
#pragma omp for nowait
    for (int i = 0; i < 2 * half; ++i) x[i] = static_cast<float>(i);
    if (barrier) {
#pragma omp barrier
    }
#pragma omp for simd
    for (int i = 0; i < half; ++i) y[i] = 2 * x[half + i];
  }
  return y[0];
}

}  // namespace

int main(int argc, char** argv) {
  const std::string fault = argc > 1 ? argv[1] : "";
  CpuBackend backend(2);
  if (fault == "behind_a_tensor")
    std::cout << behind_a_tensor(backend) << '\n';
  else if (fault == "given_back_to_the_pool")
    std::cout << given_back_to_the_pool(backend) << '\n';
  else if (fault == "overflow")
    std::cout << overflow(argc - 1) << '\n';
  else if (fault == "leak")
    leak();
  else if (fault == "race")
    std::cout << race() << '\n';
  else if (fault == "race_in_a_wide_loop" || fault == "barrier")
    std::cout << across(fault == "barrier") << '\n';
  else
    return 2;
  std::cout << "nobody saw it\n";
}
