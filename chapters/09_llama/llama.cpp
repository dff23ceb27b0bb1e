#include "chapters/09_llama/llama.hpp"

#include <set>

#include "common/support/safetensors.hpp"

namespace course {

DecoderLayer& DecoderStack::append(std::unique_ptr<DecoderLayer> layer) {
  layers_.push_back(&add(std::to_string(layers_.size()), std::move(layer)));
  return *layers_.back();
}

DTensor DecoderStack::run_forward(DTensor x) {
  for (DecoderLayer* layer : layers_) x = layer->forward(std::move(x));
  return x;
}

DTensor DecoderStack::run_backward(DTensor dy) {
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) dy = (*layer)->backward(std::move(dy));
  return dy;
}

LlamaModel::LlamaModel(Backend& backend, const LlamaConfig& c, std::shared_ptr<const SequenceContext> context)
    : Module(backend),
      embed_tokens(add("embed_tokens", std::make_unique<Embedding>(backend, c.vocab_size, c.hidden_size))),
      layers(add("layers", std::make_unique<DecoderStack>(backend))),
      norm(add("norm", std::make_unique<RmsNorm>(backend, c.hidden_size, c.rms_norm_eps))) {
  const auto rope =
      std::make_shared<const RopeTable>(backend, c.max_position_embeddings, c.attention().head_dim, c.rope_theta);
  for (int64_t i = 0; i < c.num_hidden_layers; ++i)
    layers.append(
        std::make_unique<DecoderLayer>(backend, c.attention(), c.intermediate_size, c.rms_norm_eps, rope, context));
}

DTensor LlamaModel::run_forward(DTensor ids) {
  return norm.forward(layers.forward(embed_tokens.forward(std::move(ids))));
}

DTensor LlamaModel::run_backward(DTensor dy) {
  return embed_tokens.backward(layers.backward(norm.backward(std::move(dy))));
}

namespace {

const LlamaConfig& checked(const LlamaConfig& config) {
  check(config);
  return config;
}

}  // namespace

Llama::Llama(Backend& backend, const LlamaConfig& config)
    : Module(backend),
      config_(checked(config)),
      model(add("model", std::make_unique<LlamaModel>(backend, config, context_))),
      lm_head(add("lm_head", std::make_unique<Linear>(backend, config.hidden_size, config.vocab_size))) {}

DTensor Llama::run_forward(DTensor ids) { return lm_head.forward(model.forward(std::move(ids))); }

DTensor Llama::run_backward(DTensor dlogits) { return model.backward(lm_head.backward(std::move(dlogits))); }

void Llama::forget_cache() {
  for (DecoderLayer* layer : model.layers.layers()) layer->self_attn.forget_cache();
}

namespace {

using RowOrder = std::vector<int64_t>(int64_t heads, int64_t head_dim);

// The rows of q_proj or k_proj in the other order of RoPE, where the files of this model have it; others unchanged.
std::vector<float> other_order(const Llama& llama, const Parameter& p, std::vector<float> values, RowOrder* order) {
  const AttentionSizes sizes = llama.config().attention();
  const bool q = p.name().ends_with("q_proj.weight"), k = p.name().ends_with("k_proj.weight");
  if (!llama.config().rope_interleave || !(q || k)) return values;
  std::vector<float> rows;
  for (const int64_t row : order(q ? sizes.heads : sizes.kv_heads, sizes.head_dim)) {
    const auto begin = values.begin() + row * sizes.hidden;
    rows.insert(rows.end(), begin, begin + sizes.hidden);
  }
  return rows;
}

}  // namespace

void load_weights(Llama& llama, const std::string& path) {
  const SafetensorsFile file(path);
  std::set<std::string> known;
  for (Parameter* p : parameters_of(llama)) known.insert(p->name());
  for (const auto& name : file.names())  // older files store RoPE's angles too
    require(known.contains(name) || name.ends_with(".rotary_emb.inv_freq"), path, ": ", name,
            " has no place in this model");
  for (Parameter* p : parameters_of(llama)) {
    require(file.has(p->name()), path, ": has no tensor ", p->name());
    require(file.info(p->name()).shape == p->global(), path, ": ", p->name(), " has shape ",
            show(file.info(p->name()).shape), " there, ", show(p->global()), " in this model");
    p->fill(other_order(llama, *p, file.read<float>(p->name()), half_split_rows));
  }
}

void save_weights(Llama& llama, const std::string& path) {
  std::vector<TensorSpec> specs;
  for (Parameter* p : parameters_of(llama)) {
    require(p->box() == whole_box(p->global()), p->name(), ": only a part is here, ", show(p->box()), " of ",
            show(p->global()));
    specs.push_back({p->name(), StoredType::F32, p->global()});
  }
  SafetensorsWriter out(path, specs, {{"format", "pt"}});
  for (Parameter* p : parameters_of(llama)) {
    const auto values = other_order(llama, *p, llama.backend().to_host(p->owned()), interleaved_rows);
    out.append(p->name(), as_bytes_of(values));
  }
  out.finish();
}

}  // namespace course
