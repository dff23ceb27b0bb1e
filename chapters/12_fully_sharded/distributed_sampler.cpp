#include "chapters/12_fully_sharded/distributed_sampler.hpp"

#include <algorithm>
#include <numeric>

#include "common/rng.hpp"

namespace course {

std::vector<int64_t> DistributedSampler::order(int64_t epoch) const {
  require_shared(samples > 0 && ranks > 0 && rank >= 0 && rank < ranks, "cannot deal ", samples, " samples to rank ", rank,
                 " of ", ranks);
  std::vector<int64_t> all(samples);
  std::iota(all.begin(), all.end(), 0);
  if (shuffle) {
    // Fisher and Yates, from the end.
    const Rng rng(static_cast<uint64_t>(seed + epoch), "sampler");
    for (int64_t i = samples - 1; i > 0; --i) std::swap(all[i], all[static_cast<int64_t>(rng.uniform(i) * static_cast<double>(i + 1))]);
  }
  const int64_t each = drop_last ? samples / ranks : (samples + ranks - 1) / ranks;
  std::vector<int64_t> mine;
  for (int64_t i = 0; i < each; ++i) mine.push_back(all[(rank + i * ranks) % samples]);
  return mine;
}

DataShare share_over(const DeviceMesh& dp) {
  DataShare share;
  share.mine = [dp](const std::vector<int64_t>& samples) {
    std::vector<int64_t> mine;
    for (size_t i = dp.coordinate(); i < samples.size(); i += dp.size()) mine.push_back(samples[i]);
    return mine;
  };
  share.sum = [dp](double x) { return dp.comm().sum(x); };
  return share;
}

}  // namespace course
