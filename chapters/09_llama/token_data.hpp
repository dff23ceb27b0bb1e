// Token ids as samples of S+1: what a step reads, and what it is to predict.
//
//   stream     all documents one after the other, [BOT] ids [EOT]; sample i begins at token i·S
//   document   one document a sample: [BOT] ids [EOT], cut at S+1 or filled up with [PAD], as the article does
//
// The label of a token is the one behind it, so a stream of n tokens has (n-1)/S samples: the last label must exist.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "chapters/09_llama/tokenizer.hpp"
#include "common/backend/backend.hpp"
#include "common/comm/comm.hpp"

namespace course {

enum class SampleKind { Stream, Document };
SampleKind sample_kind(const std::string& name);  // throws UsageError

class TokenData {
 public:
  // The tokens of the documents. Throws SharedError when the tokenizer lacks [BOT], [EOT] or (document) [PAD].
  TokenData(SampleKind kind, int64_t sequence, const Tokenizer& tokenizer, const std::vector<std::string>& documents);
  // A stream that is tokens already.
  TokenData(int64_t sequence, std::vector<int32_t> tokens);
  // The same data on every rank, from rank 0, which alone need have read and encoded it. Collective.
  static TokenData broadcast(TokenData data, Comm& world);

  int64_t samples() const;
  int64_t sequence() const { return sequence_; }
  int64_t tokens() const { return static_cast<int64_t>(tokens_.size()); }
  const std::vector<int32_t>& ids() const { return tokens_; }
  int32_t ignore() const { return pad_; }  // the target that does not count: [PAD], or -100 in a stream

  // The last `part` of the samples, taken away from this: the held-out text. At least one sample stays on either side, or it
  // throws SharedError with the numbers.
  TokenData split_off(double part);  // 0.1: the last tenth
  // Sample i: S+1 ids. Throws Error when there is no such sample.
  std::vector<int32_t> sample(int64_t i) const;

  TokenData() = default;  // no samples

 private:
  bool stream_ = true;
  int64_t sequence_ = 1;
  int32_t pad_ = -100;
  std::vector<int32_t> tokens_;  // a stream, or samples of S+1
};

struct Batch {
  Tensor ids, targets;  // [B,S] i32
  Tensor attend;        // [B,S] i32, 0 where ids is padding; undefined where nothing is
  uint64_t hash = 0;    // of ids and targets: equal for the same samples in the same order
};

// The samples of this list, as tensors.
Batch make_batch(Backend& backend, const TokenData& data, const std::vector<int64_t>& samples);

// Which samples this rank reads for batch b (from 0): chapter 12 puts its sampler here.
using Sampler = std::function<std::vector<int64_t>(int64_t batch)>;
// All of them: b·B … b·B + B - 1, over again from the start when less than a batch is left. Throws SharedError when there is
// not one whole batch.
Sampler in_order(int64_t samples, int64_t batch);

}  // namespace course
