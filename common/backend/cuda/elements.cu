// The same for every element: fill, cast, add, scale, the bias, and copies of runs.
#include "common/backend/cuda/four.cuh"
#include "common/backend/cuda/index.cuh"
#include "common/backend/cuda/kernels.hpp"

namespace course::cuda {

namespace {

//   for (i) x[i] = value;
template <typename T>
__global__ void fill_kernel(T* x, int64_t n, float value) {
  for (int64_t i = 4 * first_index(); i < n; i += 4 * index_step()) store(x + i, n - i, {value, value, value, value});
}

//   for (i) y[i] = x[i];          of another type
template <typename From, typename To>
__global__ void cast_kernel(const From* x, To* y, int64_t n) {
  for (int64_t i = 4 * first_index(); i < n; i += 4 * index_step()) store(y + i, n - i, load(x + i, n - i));
}

//   for (i) x[i] += y[i];
template <typename T, typename U>
__global__ void add_kernel(T* x, const U* y, int64_t n) {
  for (int64_t i = 4 * first_index(); i < n; i += 4 * index_step()) {
    Four a = load(x + i, n - i);
    const Four b = load(y + i, n - i);
    for (int j = 0; j < 4; ++j) a.at[j] += b.at[j];
    store(x + i, n - i, a);
  }
}

//   for (i) x[i] *= factor;
template <typename T>
__global__ void scale_kernel(T* x, int64_t n, float factor) {
  for (int64_t i = 4 * first_index(); i < n; i += 4 * index_step()) {
    Four a = load(x + i, n - i);
    for (float& v : a.at) v *= factor;
    store(x + i, n - i, a);
  }
}

//   for (n) for (e) y[n][e] += bias[e];          a block a row
template <typename T>
__global__ void add_bias_kernel(T* y, const T* bias, int64_t E) {
  T* const row = y + blockIdx.x * E;
  for (int64_t e = 4 * threadIdx.x; e < E; e += 4 * blockDim.x) {
    Four a = load(row + e, E - e);
    const Four b = load(bias + e, E - e);
    for (int j = 0; j < 4; ++j) a.at[j] += b.at[j];
    store(row + e, E - e, a);
  }
}

//   for (run) for (i) to[run * to_step + i] = from[run * from_step + i];          sizes in units, a thread a unit
template <typename Unit>
__global__ void copy_blocks_kernel(const Unit* from, int64_t from_step, Unit* to, int64_t to_step, int64_t runs,
                                   int64_t run_size) {
  for (int64_t i = first_index(); i < runs * run_size; i += index_step()) {
    const int64_t run = i / run_size, at = i % run_size;
    to[run * to_step + at] = from[run * from_step + at];
  }
}

template <typename Unit>
void copy_units(const void* from, int64_t from_step, void* to, int64_t to_step, int64_t blocks, int64_t block,
                cudaStream_t stream) {
  constexpr int64_t size = sizeof(Unit);
  launch(copy_blocks_kernel<Unit>, blocks_for(blocks * block / size), kThreads, 0, stream,
         static_cast<const Unit*>(from), from_step / size, static_cast<Unit*>(to), to_step / size, blocks,
         block / size);
}

}  // namespace

template <typename T>
void fill(T* x, int64_t n, float value, cudaStream_t stream) {
  launch(fill_kernel<T>, blocks_for_fours(n), kThreads, 0, stream, x, n, value);
}

template <typename From, typename To>
void cast(const From* x, To* y, int64_t n, cudaStream_t stream) {
  launch(cast_kernel<From, To>, blocks_for_fours(n), kThreads, 0, stream, x, y, n);
}

template <typename T, typename U>
void add(T* x, const U* y, int64_t n, cudaStream_t stream) {
  launch(add_kernel<T, U>, blocks_for_fours(n), kThreads, 0, stream, x, y, n);
}

template <typename T>
void scale(T* x, int64_t n, float factor, cudaStream_t stream) {
  launch(scale_kernel<T>, blocks_for_fours(n), kThreads, 0, stream, x, n, factor);
}

template <typename T>
void add_bias(T* y, const T* bias, int64_t N, int64_t E, cudaStream_t stream) {
  launch(add_bias_kernel<T>, N, threads_for_row(E), 0, stream, y, bias, E);
}

template void fill(float*, int64_t, float, cudaStream_t);
template void fill(bf16*, int64_t, float, cudaStream_t);
template void cast(const float*, bf16*, int64_t, cudaStream_t);
template void cast(const bf16*, float*, int64_t, cudaStream_t);
template void add(float*, const float*, int64_t, cudaStream_t);
template void add(float*, const bf16*, int64_t, cudaStream_t);
template void add(bf16*, const bf16*, int64_t, cudaStream_t);
template void scale(float*, int64_t, float, cudaStream_t);
template void scale(bf16*, int64_t, float, cudaStream_t);
template void add_bias(float*, const float*, int64_t, int64_t, cudaStream_t);
template void add_bias(bf16*, const bf16*, int64_t, int64_t, cudaStream_t);

// In the widest units that all runs consist of.
void copy_blocks(const void* from, int64_t from_step, void* to, int64_t to_step, int64_t blocks, int64_t block,
                 cudaStream_t stream) {
  if (blocks == 1) from_step = to_step = 0;  // no matter then
  const int64_t all = static_cast<int64_t>(reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to)) |
                      from_step | to_step | block;
  const auto copy = all % 16 == 0  ? copy_units<Four>
                    : all % 4 == 0 ? copy_units<uint32_t>
                    : all % 2 == 0 ? copy_units<uint16_t>
                                   : copy_units<uint8_t>;
  copy(from, from_step, to, to_step, blocks, block, stream);
}

}  // namespace course::cuda
