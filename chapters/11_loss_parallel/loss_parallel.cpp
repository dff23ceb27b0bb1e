#include "chapters/11_loss_parallel/loss_parallel.hpp"

namespace course {

double LossParallel::forward(DTensor logits, const Tensor& targets) {
  require_shared(logits.has_layout(), "loss parallelism takes logits with a layout, not a plain ", show(logits.global()),
                 ": style the head with use_local_output(false)");
  const Layout layout = logits.layout();
  const int64_t last = static_cast<int64_t>(layout.global.size()) - 1;
  require_shared(layout.mesh.dims() == 1, "loss parallelism takes a mesh of one axis, not ", layout.mesh.show());
  const Shard* cut = as_shard(layout.placements[0]);
  require_shared(cut && cut->dim == last, "loss parallelism takes logits cut by vocabulary, S(", last, "), not ", show(layout));

  Comm& tp = layout.mesh.comm();
  const int64_t V = layout.global[last], N = numel(layout.global) / V;
  check_targets(targets, N, V);
  begin_ = local_box(layout.mesh, layout.placements, layout.global).offset[last];

  max_ = backend_->empty({N});
  backend_->row_max(logits.local(), max_);
  tp.all_reduce(max_, Reduce::Max).wait();

  sum_ = backend_->empty({N});
  backend_->row_sum_exp(logits.local(), max_, sum_);
  tp.all_reduce(sum_).wait();

  Tensor picked = backend_->empty({N});
  backend_->pick(logits.local(), targets, begin_, picked);
  tp.all_reduce(picked).wait();

  const double total = add_up(max_, sum_, picked, targets);
  targets_ = backend_->clone(targets);
  logits_ = std::move(logits);
  return total;
}

DTensor LossParallel::backward(double divisor) {
  const Layout layout = logits_.layout();
  Tensor gradient = std::move(logits_).take(*backend_);
  const Tensor max = std::move(max_), sum = std::move(sum_), targets = std::move(targets_);
  backend_->cross_entropy_backward(gradient, max, sum, targets, begin_, ignore_, factor(divisor));
  return DTensor(std::move(gradient), layout);
}

}  // namespace course
