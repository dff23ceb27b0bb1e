#include "chapters/04_sharded_linear/embedding.hpp"

namespace course {

Embedding::Embedding(Backend& backend, int64_t vocabulary, int64_t hidden, std::optional<int64_t> padding)
    : Module(backend), weight(add_parameter("weight", {vocabulary, hidden}, {Init::Normal, 1})), padding_(padding) {
  require_shared(!padding || (*padding >= 0 && *padding < vocabulary), "padding id ", padding.value_or(0),
                 " is not in the vocabulary of ", vocabulary);
}

DTensor Embedding::run_forward(DTensor ids) {
  const Tensor &in = ids.local(), &table = weight.value();
  const int64_t vocabulary = weight.global()[0];
  if (const auto bad = backend().first_outside(in, vocabulary))
    fail(cat(weight.name(), ": id ", backend().to_host<int32_t>(in)[*bad], " at place ", *bad,
             " is not in the vocabulary of ", vocabulary));
  Shape shape = in.shape();
  shape.push_back(table.dim(1));
  Tensor y = backend().empty(std::move(shape), table.dtype());
  backend().embedding(in, table, weight.box().offset[0], y);
  ids_ = keep(ids);
  return y;
}

DTensor Embedding::run_backward(DTensor dy) {
  const DTensor ids = std::exchange(ids_, {});
  require(ids.defined(), weight.name(), ": backward without a forward");
  const Box& mine = weight.box();
  backend().embedding_backward(ids.local(), dy.local(), mine.offset[0], weight.gradient());
  const int64_t row = padding_.value_or(-1) - mine.offset[0];
  if (row >= 0 && row < mine.size[0])
    backend().copy_slice(backend().zeros({1, mine.size[1]}), 0, weight.gradient(), row, 0, 1);
  return backend().empty({0});
}

}  // namespace course
