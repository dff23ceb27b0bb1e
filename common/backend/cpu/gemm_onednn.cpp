#include <algorithm>
#include <array>
#include <map>
#include <type_traits>

#include <dnnl.hpp>
#include <omp.h>

#include "common/backend/cpu/gemm.hpp"
#include "common/backend/cpu/plain_gemm.hpp"
#include "common/check.hpp"

namespace course::cpu {

const char* gemm_name() { return "oneDNN"; }

namespace {

// Whether that was all: oneDNN 2.6 divides by an empty size.
template <typename C>
bool empty(int64_t M, int64_t N, int64_t K, bool add, C* c, int64_t stride_c) {
  for (int64_t m = 0; m < M && K == 0 && !add; ++m) std::fill_n(c + m * stride_c, N, C(0.0f));
  return M == 0 || N == 0 || K == 0;
}

}  // namespace

void gemm(int64_t M, int64_t N, int64_t K, float factor, Matrix a, Matrix b, bool add, float* c, int64_t stride_c) {
  if (empty(M, N, K, add, c, stride_c)) return;
  const dnnl_status_t status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', M, N, K, factor, a.data,
                                          a.stride, b.data, b.stride, add ? 1.0f : 0.0f, c, stride_c);
  require(status == dnnl_success, "oneDNN refused a matrix product ", M, "x", N, "x", K, ": status ", status);
}

namespace {

using Memory = dnnl::memory;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

template <typename T>
constexpr auto kType = std::is_same_v<T, float> ? Memory::data_type::f32 : Memory::data_type::bf16;

template <typename T>
Memory::desc matrix(int64_t rows, int64_t columns, int64_t stride, bool transposed = false) {
  return {{rows, columns}, kType<T>, transposed ? Memory::dims{1, stride} : Memory::dims{stride, 1}};
}

// oneDNN 2 wants an operation's descriptor in between, oneDNN 3 has none.
template <typename Product>
Product make(const Memory::desc& a, const Memory::desc& b, const Memory::desc& c, const dnnl::primitive_attr& attr) {
  using Made = typename Product::primitive_desc;
  if constexpr (std::is_constructible_v<Made, dnnl::engine, Memory::desc, Memory::desc, Memory::desc,
                                        dnnl::primitive_attr>)
    return Product(Made(engine(), a, b, c, attr));
  else
    return Product(Made(typename Product::desc(a, b, c), attr, engine()));
}

// Making one costs more than a small product takes, so each is kept; it works with the threads that it was made for. A
// training step asks for a few dozen.
template <typename C>
void multiply(int64_t M, int64_t N, int64_t K, HalfMatrix a, HalfMatrix b, bool add, C* c, int64_t stride_c) {
  const Memory::desc of_a = matrix<BFloat16>(M, K, a.stride, a.transposed),
                     of_b = matrix<BFloat16>(K, N, b.stride, b.transposed), of_c = matrix<C>(M, N, stride_c);
  using Key = std::array<int64_t, 10>;
  thread_local std::map<Key, dnnl::matmul> kept;
  const Key key = {M, N, K, a.stride, a.transposed, b.stride, b.transposed, stride_c, add, omp_get_max_threads()};
  auto found = kept.find(key);
  if (found == kept.end()) {
    dnnl::post_ops sum;
    if (add) sum.append_sum(1);
    dnnl::primitive_attr attr;
    attr.set_post_ops(sum);
    found = kept.emplace(key, make<dnnl::matmul>(of_a, of_b, of_c, attr)).first;
  }
  thread_local dnnl::stream stream(engine());
  found->second.execute(stream, {{DNNL_ARG_SRC, {of_a, engine(), const_cast<BFloat16*>(a.data)}},
                                 {DNNL_ARG_WEIGHTS, {of_b, engine(), const_cast<BFloat16*>(b.data)}},
                                 {DNNL_ARG_DST, {of_c, engine(), c}}});
  stream.wait();
}

template <typename C>
void half_gemm(int64_t M, int64_t N, int64_t K, HalfMatrix a, HalfMatrix b, bool add, C* c, int64_t stride_c) {
  if (empty(M, N, K, add, c, stride_c)) return;
  if (half_is_fast())
    multiply(M, N, K, a, b, add, c, stride_c);
  else
    plain_gemm(M, N, K, a, b, add, c, stride_c);
}

}  // namespace

void gemm(int64_t M, int64_t N, int64_t K, HalfMatrix a, HalfMatrix b, bool add, float* c, int64_t stride_c) {
  half_gemm(M, N, K, a, b, add, c, stride_c);
}

void gemm(int64_t M, int64_t N, int64_t K, HalfMatrix a, HalfMatrix b, bool add, BFloat16* c, int64_t stride_c) {
  half_gemm(M, N, K, a, b, add, c, stride_c);
}

// oneDNN's names of processors are sets of bits: a newer one has those of the older ones too.
bool half_is_fast() {
  static const bool fast =
      (static_cast<int>(dnnl::get_effective_cpu_isa()) & static_cast<int>(dnnl::cpu_isa::avx512_core_bf16)) ==
      static_cast<int>(dnnl::cpu_isa::avx512_core_bf16);
  return fast;
}

}  // namespace course::cpu
