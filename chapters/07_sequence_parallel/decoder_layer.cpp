#include "chapters/07_sequence_parallel/decoder_layer.hpp"

namespace course {

DecoderLayer::DecoderLayer(Backend& backend, AttentionSizes sizes, int64_t intermediate, double eps,
                           std::shared_ptr<const RopeTable> rope, std::shared_ptr<const SequenceContext> context)
    : Module(backend),
      input_layernorm(add("input_layernorm", std::make_unique<RmsNorm>(backend, sizes.hidden, eps))),
      self_attn(add("self_attn", std::make_unique<Attention>(backend, sizes, std::move(rope), std::move(context)))),
      post_attention_layernorm(add("post_attention_layernorm", std::make_unique<RmsNorm>(backend, sizes.hidden, eps))),
      mlp(add("mlp", std::make_unique<SwiGluMlp>(backend, sizes.hidden, intermediate))) {}

DTensor DecoderLayer::run_forward(DTensor x) {
  const DTensor middle = course::add(backend(), self_attn.forward(input_layernorm.forward(x)), x);
  return course::add(backend(), mlp.forward(post_attention_layernorm.forward(middle)), middle);
}

DTensor DecoderLayer::run_backward(DTensor dy) {
  const DTensor dmiddle = course::add(backend(), post_attention_layernorm.backward(mlp.backward(dy)), dy);
  return course::add(backend(), input_layernorm.backward(self_attn.backward(dmiddle)), dmiddle);
}

}  // namespace course
