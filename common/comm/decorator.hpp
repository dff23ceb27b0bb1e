// A Comm around another, which does something beside each call: what recorders, clocks and checks have in common.
#pragma once

#include <memory>
#include <utility>

#include "common/comm/comm.hpp"

namespace course {

// Left to write: start(), which hands the Call to inner(), and split(), which puts the same around the part.
class CommDecorator : public Comm {
 public:
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }
  void look() override { inner_->look(); }

 protected:
  explicit CommDecorator(Comm& inner) : inner_(&inner) {}  // someone else's, which outlives this
  explicit CommDecorator(std::unique_ptr<Comm> inner) : owned_(std::move(inner)), inner_(owned_.get()) {}
  Comm& inner() { return *inner_; }

 private:
  std::unique_ptr<Comm> owned_;
  Comm* inner_;
};

}  // namespace course
