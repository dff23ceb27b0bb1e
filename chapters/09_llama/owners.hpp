// Which rank holds which box of each parameter, found out once: no mesh is assumed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "chapters/04_sharded_linear/parameter.hpp"

namespace course {

class Owners {
 public:
  // Collective over world: every rank has the same parameters, in pieces or whole.
  Owners(const Parameters& parameters, Comm& world);

  // Whether this rank is the first that holds its box of parameter i, so the one that counts it. Not for empty boxes.
  bool speaks(size_t i) const { return speakers(i).count(rank_) > 0; }
  // The boxes of parameter i that together are the whole, by the rank that speaks for them.
  const std::map<int, Box>& speakers(size_t i) const { return speakers_[i]; }

 private:
  int rank_;
  std::vector<std::map<int, Box>> speakers_;
};

}  // namespace course
