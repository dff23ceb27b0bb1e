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

  Tensor picked = backend_->empty({N});
  max_ = backend_->empty({N});
  sum_ = backend_->empty({N});
  // exercise loss_parallel {
  backend_->row_max(logits.local(), max_);
  tp.all_reduce(max_, Reduce::Max).wait();

  backend_->row_sum_exp(logits.local(), max_, sum_);
  tp.all_reduce(sum_).wait();

  backend_->pick(logits.local(), targets, begin_, picked);
  tp.all_reduce(picked).wait();
  // } exercise

  const double total = add_up(max_, sum_, picked, targets);
  targets_ = backend_->clone(targets);
  logits_ = std::move(logits);
  return total;
}

DTensor LossParallel::backward(double divisor) {
  const Layout layout = logits_.layout();
  Tensor gradient = std::move(logits_).take(*backend_);
  const Tensor max = std::move(max_), sum = std::move(sum_), targets = std::move(targets_);
  // exercise loss_parallel {
  backend_->cross_entropy_backward(gradient, max, sum, targets, begin_, ignore_, factor(divisor));
  // } exercise
  return DTensor(std::move(gradient), layout);
}

}  // namespace course

// Exercise 11 loss_parallel
// Task: The cross-entropy of logits that stay cut by vocabulary. Forward: fill max_, sum_ and picked, [N] each, with
// what holds for the whole row: the largest logit, the sum of exp(logit - max), the target's logit. Three all-reduces
// of one number a token. begin_ is this rank's first column. Backward: this rank's columns of the gradient, with no
// message.
// Hint: row_max, row_sum_exp and pick work on this rank's columns. What is each one's answer where the target lies
// elsewhere?
// Hint: the sum must be taken with the maximum of the whole row, on every rank the same; so the maximum is reduced
// first.
// Why: softmax needs two numbers of a row beside the row itself, and the loss one more. Whoever shares three numbers a
// token need not share V logits.
// Wrong own_maximum: Each rank takes exp(logit - max) with its own columns' maximum, so the sums do not belong
// together. Reduce the maximum before it is used.
//   - tp.all_reduce(max_, Reduce::Max).wait();
// Wrong maximum_reduced_too_late: The maximum is reduced, but after the sum was taken with this rank's own. Reduce it before it is
// used.
//   - tp.all_reduce(max_, Reduce::Max).wait();
//   -
//   - backend_->row_sum_exp(logits.local(), max_, sum_);
//   + backend_->row_sum_exp(logits.local(), max_, sum_);
//   + tp.all_reduce(max_, Reduce::Max).wait();
// Wrong maxima_added: The maxima of the ranks are added. Any number that all ranks share would do on paper, but with one
// that is too large every exp is 0. The largest of the row is the largest of them: Reduce::Max.
//   - tp.all_reduce(max_, Reduce::Max).wait();
//   + tp.all_reduce(max_).wait();
// Wrong sum_not_reduced: The sum of exponentials is of this rank's columns alone. The softmax divides by the sum of the
// row.
//   - tp.all_reduce(sum_).wait();
// Wrong offset_forgotten: The target is looked up as if this rank's columns began at 0: column begin_ of the vocabulary
// is its first.
//   - backend_->pick(logits.local(), targets, begin_, picked);
//   + backend_->pick(logits.local(), targets, 0, picked);
// Wrong target_not_reduced: The target's logit is 0 on all ranks but the one that holds it. Add them up.
//   - tp.all_reduce(picked).wait();
// Wrong offset_forgotten_in_backward: In backward the target's 1 is taken off in the wrong column on every rank but the
// first.
//   - backend_->cross_entropy_backward(gradient, max, sum, targets, begin_, ignore_, factor(divisor));
//   + backend_->cross_entropy_backward(gradient, max, sum, targets, 0, ignore_, factor(divisor));
// Wrong padding_counted: The gradient of tokens to be ignored is not 0.
//   - backend_->cross_entropy_backward(gradient, max, sum, targets, begin_, ignore_, factor(divisor));
//   + backend_->cross_entropy_backward(gradient, max, sum, targets, begin_, -1000000, factor(divisor));
// Wrong gathers_the_logits: Right, and it gathers everything: every rank holds all columns of the logits, the largest tensor
// of a training, and sends them. Three numbers of a row are enough.
//   - backend_->row_max(logits.local(), max_);
//   - tp.all_reduce(max_, Reduce::Max).wait();
//   + const DTensor all = logits.redistribute({Replicate()});
//   + backend_->row_max(all.local(), max_);
//   - backend_->row_sum_exp(logits.local(), max_, sum_);
//   - tp.all_reduce(sum_).wait();
//   + backend_->row_sum_exp(all.local(), max_, sum_);
//   - backend_->pick(logits.local(), targets, begin_, picked);
//   - tp.all_reduce(picked).wait();
//   + backend_->pick(all.local(), targets, 0, picked);
