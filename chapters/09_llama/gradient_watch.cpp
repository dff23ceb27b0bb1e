#include "chapters/09_llama/gradient_watch.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "chapters/09_llama/non_finite.hpp"
#include "common/support/table.hpp"

namespace course {
namespace {

constexpr size_t kShown = 5;  // at each end of the table

}  // namespace

GradientWatch::GradientWatch(Module& model, Comm& world)
    : world_(&world),
      parameters_(parameters_of(model)),
      owners_(parameters_, world),
      squares_(parameters_.size()),
      sum_of_norms_(parameters_.size()) {
  for (const auto& [path, module] : named_modules(model)) {
    Hooks hooks;
    hooks.after_forward = [seen = outputs_, rank = world.rank(), path = path.empty() ? module->kind() : path,
                           module = module](DTensor y) {
      if (!module->training() || !seen->bad.empty()) return y;
      ++seen->count;
      const Tensor& local = y.local();
      if (const auto place = first_non_finite(module->backend(), local)) {
        seen->bad_at = seen->count;
        seen->bad = cat("in forward, output of ", path, " on rank ", rank, ", ", show(index_in(local.shape(), *place)),
                        " of its ", show(local.shape()), ": ", module->backend().floats(local)[*place]);
      }
      return y;
    };
    module->wrap(std::move(hooks));
  }
}

bool GradientWatch::look(int64_t step) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& p = *parameters_[i];
    squares_[i] = owners_.speaks(i) && p.owned_gradient().defined() ? p.backend().squared_norm(p.owned_gradient()) : 0;
  }
  world_->all_reduce(std::span(squares_)).wait();
  ++looks_;
  bool wrong = world_->max(outputs_->bad.empty() ? 0 : 1) > 0;
  for (size_t i = 0; i < squares_.size(); ++i) {
    sum_of_norms_[i] += std::sqrt(squares_[i]);
    wrong = wrong || !std::isfinite(squares_[i]);
  }
  const bool first = wrong && bad_.empty();
  if (first) find(step);
  *outputs_ = {};
  return first;
}

void GradientWatch::find(int64_t step) {
  // Backward reaches the last parameter first. Of two ranks, who came to it earlier in the order of computation.
  int64_t order = outputs_->bad_at;
  std::string mine = outputs_->bad;
  for (size_t i = parameters_.size(); i-- > 0 && mine.empty();)
    if (const std::string where = bad_gradient(*parameters_[i]); !where.empty()) {
      mine = cat("in backward, gradient of ", parameters_[i]->name(), " on rank ", world_->rank(), ", ", where);
      order = std::int64_t{1'000'000'000} + static_cast<int64_t>(parameters_.size() - i);
    }
  const auto all = world_->all_gather_text(mine.empty() ? "" : cat(order, " ", mine));
  int64_t best = INT64_MAX;
  for (const std::string& text : all) {
    if (text.empty() || std::stoll(text) >= best) continue;
    best = std::stoll(text);
    bad_ = text.substr(text.find(' ') + 1);
    bad_step_ = step;
  }
}

std::string GradientWatch::first_bad() const {
  return bad_.empty() ? "" : cat("step ", bad_step_, ": ", kFirstBad, bad_);
}

double GradientWatch::norm() const { return std::sqrt(std::accumulate(squares_.begin(), squares_.end(), 0.0)); }

double GradientWatch::norm(size_t parameter) const { return std::sqrt(squares_[parameter]); }

nlohmann::json GradientWatch::json(int64_t step) const {
  nlohmann::json norms = nlohmann::json::object();
  for (size_t i = 0; i < squares_.size(); ++i) norms[parameters_[i]->name()] = norm(i);
  return {{"step", step}, {"norm", norm()}, {"norms", norms}};
}

std::string GradientWatch::table() const {
  std::vector<size_t> order(parameters_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sum_of_norms_[a] > sum_of_norms_[b]; });
  Table table({"gradient norms", "|", cat("mean of ", looks_), "last step"});
  for (size_t k = 0; k < order.size(); ++k) {
    if (k >= kShown && k + kShown < order.size()) continue;
    const size_t i = order[k];
    table.row(parameters_[i]->name(), sum_of_norms_[i] / static_cast<double>(std::max<int64_t>(1, looks_)),
              std::sqrt(squares_[i]));
  }
  return table.str();
}

}  // namespace course
