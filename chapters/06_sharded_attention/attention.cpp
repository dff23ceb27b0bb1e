#include "chapters/06_sharded_attention/attention.hpp"

#include <numeric>

namespace course {

Attention::Attention(Backend& backend, AttentionSizes sizes, std::shared_ptr<const RopeTable> rope,
                     std::shared_ptr<const SequenceContext> context)
    : Module(backend),
      q_proj(add("q_proj", std::make_unique<Linear>(backend, sizes.hidden, sizes.heads * sizes.head_dim))),
      k_proj(add("k_proj", std::make_unique<Linear>(backend, sizes.hidden, sizes.kv_heads * sizes.head_dim))),
      v_proj(add("v_proj", std::make_unique<Linear>(backend, sizes.hidden, sizes.kv_heads * sizes.head_dim))),
      o_proj(add("o_proj", std::make_unique<Linear>(backend, sizes.heads * sizes.head_dim, sizes.hidden))),
      sizes_(sizes),
      rope_(std::move(rope)),
      context_(std::move(context)) {
  check(sizes_);
}

Tensor Attention::positions(int64_t count) const {
  const int64_t begin = context_->offset;
  require_shared(begin + count <= rope_->positions, "a sequence of ", begin + count,
                 " tokens, the model's positions end at ", rope_->positions);
  std::vector<int32_t> at(count);
  std::iota(at.begin(), at.end(), static_cast<int32_t>(begin));
  return backend().from_host(at, {count});
}

Tensor Attention::heads(DTensor projected) const {
  // exercise heads {
  Tensor flat = std::move(projected).take(backend());
  const int64_t D = sizes_.head_dim;
  require(flat.dim(2) % D == 0, "a rank got ", flat.dim(2), " columns of a projection, not whole heads of ", D,
          ": cut it with block(", D, ")");
  Shape shape = {flat.dim(0), flat.dim(1), flat.dim(2) / D, D};
  return std::move(flat).reshape(std::move(shape));
  // } exercise
}

void Attention::append(Tensor& cached, const Tensor& fresh) const {
  const int64_t before = cached.defined() ? cached.dim(1) : 0;
  Shape shape = fresh.shape();
  shape[1] += before;
  Tensor all = backend().empty(std::move(shape), fresh.dtype());
  if (before > 0) backend().copy_slice(cached, 0, all, 0, 1, before);
  backend().copy_slice(fresh, 0, all, before, 1, fresh.dim(1));
  cached = std::move(all);
}

void Attention::require_cache_fits() const {
  const int64_t held = cached_k_.defined() ? cached_k_.dim(1) : 0;
  require_shared(!training(), "keys and values are cached for generation, which has no backward: set_training(false)");
  require_shared(held == context_->offset, "the cache holds ", held, " tokens, the next call is to continue at ",
                 context_->offset);
}

void Attention::forget_cache() {
  cached_k_ = {};
  cached_v_ = {};
}

DTensor Attention::run_forward(DTensor x) {
  // exercise heads {
  // H and K are this rank's from here on.
  Tensor q = heads(q_proj.forward(x));             // [B,S,H,D]
  Tensor k = heads(k_proj.forward(x));             // [B,S,K,D]
  Tensor v = heads(v_proj.forward(std::move(x)));  // [B,S,K,D]
  const int64_t B = q.dim(0), S = q.dim(1), H = q.dim(2), K = k.dim(2);
  require(H * sizes_.kv_heads == K * sizes_.heads, "a rank got ", H, " query heads for ", K,
          " key/value heads: cut both by key/value group");
  Tensor at = positions(S);
  backend().rope(q, rope_->cos, rope_->sin, at, false);
  backend().rope(k, rope_->cos, rope_->sin, at, false);
  if (context_->cache) {
    require_cache_fits();
    append(cached_k_, k);  // [B,T,K,D]
    append(cached_v_, v);
  }
  const Tensor &keys = context_->cache ? cached_k_ : k, &values = context_->cache ? cached_v_ : v;
  Tensor mixed = backend().empty_like(q), lse = backend().empty({B, H, S});
  backend().attention(q, keys, values, context_->attend, mixed, lse);
  DTensor y = std::move(mixed).reshape({B, S, H * sizes_.head_dim});
  y_ = keep(y);
  if (training()) q_ = std::move(q), k_ = std::move(k), v_ = std::move(v), lse_ = std::move(lse), at_ = std::move(at);
  return o_proj.forward(std::move(y));
  // } exercise
}

DTensor Attention::run_backward(DTensor dout) {
  require(q_.defined(), "attention: backward without a forward");
  // exercise heads {
  const Tensor q = std::move(q_), k = std::move(k_), v = std::move(v_), lse = std::move(lse_), at = std::move(at_);
  const int64_t B = q.dim(0), S = q.dim(1), D = sizes_.head_dim;
  const Tensor dy = heads(o_proj.backward(std::move(dout)));
  const Tensor y = heads(std::exchange(y_, {}));  // o_proj shared it until here
  Tensor dq = backend().empty_like(q), dk = backend().empty_like(k), dv = backend().empty_like(v);
  backend().attention_backward(dy, q, k, v, context_->attend, y, lse, dq, dk, dv);
  backend().rope(dq, rope_->cos, rope_->sin, at, true);
  backend().rope(dk, rope_->cos, rope_->sin, at, true);
  const auto flat = [&](Tensor t) { return std::move(t).reshape({B, S, t.dim(2) * D}); };
  DTensor dx = q_proj.backward(flat(std::move(dq)));
  dx = course::add(backend(), std::move(dx), k_proj.backward(flat(std::move(dk))));
  return course::add(backend(), std::move(dx), v_proj.backward(flat(std::move(dv))));
  // } exercise
}

}  // namespace course

// Exercise 06 heads
// Task: Attention on the heads that this rank has. heads: a projection's columns [B,S,n·D] as n heads of D, whatever n
// is here. run_forward: q, k and v by their projections; q and k turned by rope at positions(S); with context_->cache,
// require_cache_fits(), append k and v to the cache and attend over all that it holds; then backend().attention and
// o_proj. Keep q_, k_, v_, lse_, at_ and y_ while training(). run_backward: the same way back, to the gradient of x.
// The projections may be cut by columns, o_proj by rows: this is serial code, and nothing is sent here.
// Hint: sizes_ holds the numbers of the whole layer. How many heads are here, the projected tensor says.
// Hint: a query head reads key/value head h / (H/K). Cut by whole groups, that is the same ratio on every rank:
// backend().attention knows it.
// Hint: a rotation's backward is the rotation back (backend().rope(..., true)), of the gradients of what was turned.
// Hint: x went into three projections, so its gradient has three terms: course::add.
// Why: Heads do not see each other before o_proj adds them up. A rank with whole groups of query heads and their
// key/value head needs nothing from others until then, and o_proj by rows makes that one sum.
// Wrong global_head_count: y is given the columns of all heads of the layer. A rank has its own only; q's shape says
// how many.
//   - DTensor y = std::move(mixed).reshape({B, S, H * sizes_.head_dim});
//   + DTensor y = std::move(mixed).reshape({B, S, sizes_.heads * sizes_.head_dim});
// Wrong heads_across: The columns are taken as D groups of n numbers. The numbers of one head lie together: n heads of
// D.
//   - return std::move(flat).reshape(std::move(shape));
//   + Tensor across = backend().empty(shape, flat.dtype());
//   + const int64_t n = shape[2], rows = shape[0] * shape[1];
//   + for (int64_t h = 0; h < n; ++h)
//   +   for (int64_t d = 0; d < D; ++d) backend().copy_blocks(flat, d * n + h, n * D, across, h * D + d, n * D, rows, 1);
//   + return across;
// Wrong keys_not_turned: Only the queries are turned. The product of a turned query and a key as it was depends on the
// query's position, not on how far the two are apart.
//   - backend().rope(k, rope_->cos, rope_->sin, at, false);
// Wrong values_turned: The values are turned too. What is mixed would then depend on where it stood; only q and k are
// turned.
//   - backend().rope(k, rope_->cos, rope_->sin, at, false);
//   + backend().rope(k, rope_->cos, rope_->sin, at, false);
//   + backend().rope(v, rope_->cos, rope_->sin, at, false);
// Wrong turned_on_again: Backward turns the gradients on. The backward of a rotation is the rotation back.
//   - backend().rope(dq, rope_->cos, rope_->sin, at, true);
//   - backend().rope(dk, rope_->cos, rope_->sin, at, true);
//   + backend().rope(dq, rope_->cos, rope_->sin, at, false);
//   + backend().rope(dk, rope_->cos, rope_->sin, at, false);
// Wrong not_turned_back: The gradients of q and k go to the projections as they come. They are those of the turned q
// and k.
//   - backend().rope(dq, rope_->cos, rope_->sin, at, true);
//   - backend().rope(dk, rope_->cos, rope_->sin, at, true);
// Wrong query_way_only: The gradient of x is that of the query's way alone. x went into keys and values too.
//   - dx = course::add(backend(), std::move(dx), k_proj.backward(flat(std::move(dk))));
//   - return course::add(backend(), std::move(dx), v_proj.backward(flat(std::move(dv))));
//   + k_proj.backward(flat(std::move(dk)));
//   + v_proj.backward(flat(std::move(dv)));
//   + return dx;
// Wrong cache_not_read: The fresh keys and values are put into the cache, and only they are attended to. A new token
// sees all before it.
//   - const Tensor &keys = context_->cache ? cached_k_ : k, &values = context_->cache ? cached_v_ : v;
//   + const Tensor &keys = k, &values = v;
