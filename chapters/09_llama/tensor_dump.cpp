#include "chapters/09_llama/tensor_dump.hpp"

#include <filesystem>

#include "common/support/folder.hpp"
#include "common/support/safetensors.hpp"
#include "common/support/session.hpp"

namespace course {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostParameters = 20'000'000;

std::string file_of(int64_t step) {
  std::string number = std::to_string(step);
  return cat("step-", std::string(number.size() < 8 ? 8 - number.size() : 0, '0'), number, ".safetensors");
}

}  // namespace

TensorDump::TensorDump(std::string dir, const Parameters& parameters, Comm& world, bool goes_on)
    : dir_(std::move(dir)),
      parameters_(parameters),
      world_(&world),
      owners_(parameters, world),
      gradients_(parameters.size()) {
  int64_t size = 0;
  for (const Parameter* p : parameters_) size += numel(p->global());
  require_shared(size <= kMostParameters, "--dump-tensors ", dir_, ": a model of ", size,
                 " parameters is too large to dump, ", kMostParameters, " at the most");
  together(world, [&] {
    if (world.rank() != 0) return;
    make_writable_folder("--dump-tensors", dir_);
    for (const auto& entry : fs::directory_iterator(dir_))
      require(goes_on || !entry.path().filename().string().starts_with("step-"), "--dump-tensors ", dir_,
              ": holds the steps of an earlier run; take another folder");
  });
}

std::vector<float> TensorDump::whole(size_t i, const Tensor& part) {
  Backend& backend = parameters_[i]->backend();
  const Shape& global = parameters_[i]->global();
  std::vector<float> all(world_->rank() == 0 ? numel(global) : 0);
  for (const auto& [rank, box] : owners_.speakers(i)) {
    if (rank == world_->rank() && rank != 0) world_->send(part, 0).wait();
    if (world_->rank() != 0) continue;
    Tensor theirs;
    if (rank != 0) {
      theirs = backend.empty(box.size);
      world_->recv(theirs, rank).wait();
    }
    const auto values = backend.to_host(rank == 0 ? part : theirs);
    copy_shared(box, values.data(), whole_box(global), all.data(), sizeof(float));
  }
  return all;
}

void TensorDump::gradients() {
  for (size_t i = 0; i < parameters_.size(); ++i) gradients_[i] = whole(i, parameters_[i]->owned_gradient());
}

void TensorDump::write(int64_t step, double loss) {
  std::vector<std::vector<float>> weights;
  for (size_t i = 0; i < parameters_.size(); ++i) weights.push_back(whole(i, parameters_[i]->owned()));
  together(*world_, [&] {
    if (world_->rank() != 0) return;
    std::vector<TensorBytes> tensors = {{"loss", StoredType::F64, {1}, as_bytes_of(std::span(&loss, 1))}};
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Parameter& p = *parameters_[i];
      tensors.push_back({"grad." + p.name(), StoredType::F32, p.global(), as_bytes_of(gradients_[i])});
      tensors.push_back({"weight." + p.name(), StoredType::F32, p.global(), as_bytes_of(weights[i])});
    }
    write_safetensors((fs::path(dir_) / file_of(step)).string(), tensors, {{"step", std::to_string(step)}});
  });
}

}  // namespace course
