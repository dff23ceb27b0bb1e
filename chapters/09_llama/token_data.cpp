#include "chapters/09_llama/token_data.hpp"

#include <xxhash.h>

#include <algorithm>

namespace course {

SampleKind sample_kind(const std::string& name) {
  if (name == "stream") return SampleKind::Stream;
  if (name == "document") return SampleKind::Document;
  throw UsageError(cat("--samples ", name, ": there are stream, document"));
}

TokenData::TokenData(SampleKind kind, int64_t sequence, const Tokenizer& tokenizer, const std::vector<std::string>& documents)
    : stream_(kind == SampleKind::Stream), sequence_(sequence) {
  const auto begin = tokenizer.bos(), end = tokenizer.eos(), pad = tokenizer.pad();
  require_shared(begin && end && (stream_ || pad), "the tokenizer lacks [BOT], [EOT] or [PAD]: text cannot be cut into samples");
  if (!stream_) pad_ = *pad;
  for (const auto& document : documents) {
    std::vector<int32_t> ids = tokenizer.encode(document);
    ids.insert(ids.begin(), *begin);
    ids.push_back(*end);
    if (!stream_) ids.resize(sequence + 1, pad_);
    tokens_.insert(tokens_.end(), ids.begin(), ids.end());
  }
}

TokenData::TokenData(int64_t sequence, std::vector<int32_t> tokens) : sequence_(sequence), tokens_(std::move(tokens)) {}

TokenData TokenData::broadcast(TokenData data, Comm& world) {
  std::vector<int64_t> head = {data.stream_, data.sequence_, data.pad_, data.tokens()};
  world.broadcast(std::span(head), 0).wait();
  data.stream_ = head[0] != 0;
  data.sequence_ = head[1];
  data.pad_ = static_cast<int32_t>(head[2]);
  data.tokens_.resize(head[3]);
  world.broadcast(std::span(data.tokens_), 0).wait();
  return data;
}

int64_t TokenData::samples() const {
  return stream_ ? std::max<int64_t>(0, tokens() - 1) / sequence_ : tokens() / (sequence_ + 1);
}

TokenData TokenData::split_off(double part) {
  const int64_t all = samples(), held = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(all) * part));
  require_shared(all > held, "the text gives ", all, " samples of ", sequence_ + 1,
                 " tokens: too few to train on some and hold out others; more text, or a smaller --seq");
  TokenData rest;
  rest.stream_ = stream_;
  rest.sequence_ = sequence_;
  rest.pad_ = pad_;
  const int64_t stride = stream_ ? sequence_ : sequence_ + 1, cut = (all - held) * stride;
  rest.tokens_.assign(tokens_.begin() + cut, tokens_.end());
  tokens_.resize(cut + (stream_ ? 1 : 0));  // a stream's last label
  return rest;
}

std::vector<int32_t> TokenData::sample(int64_t i) const {
  require(i >= 0 && i < samples(), "sample ", i, " of ", samples());
  const auto begin = tokens_.begin() + i * (stream_ ? sequence_ : sequence_ + 1);
  return {begin, begin + sequence_ + 1};
}

Batch make_batch(Backend& backend, const TokenData& data, const std::vector<int64_t>& samples) {
  const int64_t B = static_cast<int64_t>(samples.size()), S = data.sequence();
  std::vector<int32_t> ids, targets, attend;
  bool padded = false;
  for (const int64_t i : samples) {
    const auto tokens = data.sample(i);
    ids.insert(ids.end(), tokens.begin(), tokens.end() - 1);
    targets.insert(targets.end(), tokens.begin() + 1, tokens.end());
    for (int64_t s = 0; s < S; ++s) {
      attend.push_back(tokens[s] != data.ignore());
      padded |= !attend.back();
    }
  }
  const MemoryScope scope(MemoryClass::Buffers);
  Batch batch{backend.from_host(ids, {B, S}), backend.from_host(targets, {B, S}), {}};
  if (padded) batch.attend = backend.from_host(attend, {B, S});
  batch.hash = XXH3_64bits_withSeed(targets.data(), targets.size() * sizeof(int32_t),
                                    XXH3_64bits(ids.data(), ids.size() * sizeof(int32_t)));
  return batch;
}

Sampler in_order(int64_t samples, int64_t batch) {
  const int64_t batches = samples / batch;
  require_shared(batches > 0, "the text gives ", samples, " samples, --batch ", batch, " takes more");
  return [=](int64_t b) {
    std::vector<int64_t> list(batch);
    for (int64_t i = 0; i < batch; ++i) list[i] = b % batches * batch + i;
    return list;
  };
}

}  // namespace course
