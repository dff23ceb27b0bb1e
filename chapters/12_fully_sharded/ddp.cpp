#include "chapters/12_fully_sharded/ddp.hpp"

#include "chapters/10_tensor_parallel_training/packed_sum.hpp"

namespace course {

Ddp::Ddp(const Parameters& parameters, DeviceMesh dp, int64_t bucket_bytes) : dp_(std::move(dp)) {
  int64_t bytes = 0;
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
    const int64_t size = numel((*p)->owned_box().size) * size_of(DType::F32);
    if (buckets_.empty() || bytes + size > bucket_bytes) {
      buckets_.emplace_back();
      bytes = 0;
    }
    buckets_.back().push_back(*p);
    bytes += size;
  }
}

void Ddp::reduce_gradients() {
  for (const Parameters& bucket : buckets_) sum_packed_gradients(bucket, dp_);
}

}  // namespace course
