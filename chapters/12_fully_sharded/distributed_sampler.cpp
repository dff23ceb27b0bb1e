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
  // exercise sampler {
  const int64_t each = drop_last ? samples / ranks : (samples + ranks - 1) / ranks;
  std::vector<int64_t> mine;
  for (int64_t i = 0; i < each; ++i) mine.push_back(all[(rank + i * ranks) % samples]);
  return mine;
  // } exercise
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

// Exercise 12 sampler
// Task: `all` holds the samples of an epoch in their order, alike on every rank. Deal them: rank r takes every
// `ranks`-th from place r on. Every rank takes as many. Where they do not divide, the order goes on from its start, or,
// with drop_last, the rest is dropped.
// Hint: how many does each rank take? Round up, or down with drop_last.
// Hint: place (rank + i · ranks) may lie past the end: it goes on from the start, as often as it takes.
// Why: Ranks that step together must have as many batches, or one waits for ever for a gradient. Dealt one by one, each
// global batch is the same set of samples whatever the number of ranks.
// Wrong once_around: Past the end it goes on from the start, but once. With more than twice as many ranks as samples it must go
// round again.
//   - for (int64_t i = 0; i < each; ++i) mine.push_back(all[(rank + i * ranks) % samples]);
//   + for (int64_t i = 0; i < each; ++i) {
//   +   const int64_t at = rank + i * ranks;
//   +   mine.push_back(all.at(at < samples ? at : std::min(at - samples, samples - 1)));
//   + }
// Wrong in_blocks: Each rank takes a run of neighbours. The global batch then holds other samples for another number of
// ranks: deal them one by one.
//   - for (int64_t i = 0; i < each; ++i) mine.push_back(all[(rank + i * ranks) % samples]);
//   + for (int64_t i = 0; i < each; ++i) mine.push_back(all[(rank * each + i) % samples]);
// Wrong rest_dropped: What is left over is dropped though drop_last is off.
//   - const int64_t each = drop_last ? samples / ranks : (samples + ranks - 1) / ranks;
//   + const int64_t each = samples / ranks;
// Wrong uneven: Some ranks get one sample more than others. They would wait for the others' gradients in their last
// step.
//   - for (int64_t i = 0; i < each; ++i) mine.push_back(all[(rank + i * ranks) % samples]);
//   + for (int64_t i = 0; i < each && rank + i * ranks < samples; ++i) mine.push_back(all[rank + i * ranks]);
// Wrong rest_kept: With drop_last what is left over must go, and every rank has samples / ranks of them.
//   - const int64_t each = drop_last ? samples / ranks : (samples + ranks - 1) / ranks;
//   + const int64_t each = (samples + ranks - 1) / ranks;
