#include "chapters/10_tensor_parallel_training/same_tokens.hpp"

#include <span>
#include <vector>

namespace course {

std::function<void(uint64_t)> same_tokens(const DeviceMesh& tp) {
  return [tp](uint64_t tokens) {
    const auto mine = static_cast<int64_t>(tokens);
    std::vector<int64_t> all(tp.size());
    tp.comm().all_gather(std::span(&mine, 1), std::span(all), Counts(tp.size(), 1)).wait();
    std::string others;
    for (int64_t r = 1; r < tp.size(); ++r)
      if (all[r] != all[0]) others += cat(others.empty() ? "" : ", ", r);
    require(others.empty(), "the ranks of one ", tp.name(0), " group read different tokens: rank ", others, " of ",
            tp.size(), " not those of rank 0; which samples a rank reads may depend on dp alone");
  };
}

}  // namespace course
