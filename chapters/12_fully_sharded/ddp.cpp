#include "chapters/12_fully_sharded/ddp.hpp"

#include <algorithm>

namespace course {

Ddp::Ddp(const Parameters& parameters, DeviceMesh dp, int64_t bucket_bytes) {
  std::vector<Parameters> parts;
  int64_t bytes = 0;
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
    const int64_t size = numel((*p)->owned_box().size) * size_of(DType::F32);
    if (parts.empty() || bytes + size > bucket_bytes) {
      parts.emplace_back();
      bytes = 0;
    }
    parts.back().push_back(*p);
    bytes += size;
  }
  for (Parameters& part : parts) buckets_.push_back({part, PackedSum(part, dp)});
}

std::vector<int64_t> Ddp::bucket_bytes() const {
  std::vector<int64_t> all;
  for (const Bucket& bucket : buckets_) {
    all.push_back(0);
    for (Parameter* p : bucket.parameters) all.back() += numel(p->owned_box().size) * size_of(DType::F32);
  }
  return all;
}

void Ddp::reduce_during_backward(Module& model, int64_t micro_batches, InFlight& in_flight) {
  micro_batches_ = micro_batches;
  in_flight_ = &in_flight;
  expect_all();
  for (const auto& [path, module] : named_modules(model))
    for (const auto& parameter : module->own_parameters())
      for (Bucket& bucket : buckets_)
        if (std::ranges::find(bucket.parameters, parameter.get()) != bucket.parameters.end())
          module->wrap({.after_backward = [this, &bucket](DTensor dx) {
            arrived(bucket);
            return dx;
          }});
}

void Ddp::expect_all() {
  for (Bucket& bucket : buckets_) bucket.missing = micro_batches_ * static_cast<int64_t>(bucket.parameters.size());
}

void Ddp::arrived(Bucket& bucket) {
  if (--bucket.missing == 0) bucket.sum.start(*in_flight_);
}

void Ddp::reduce_gradients() {
  for (Bucket& bucket : buckets_)
    if (!bucket.sum.started()) bucket.sum.start(*in_flight_);
  for (Bucket& bucket : buckets_) bucket.sum.finish();
  expect_all();
}

}  // namespace course
