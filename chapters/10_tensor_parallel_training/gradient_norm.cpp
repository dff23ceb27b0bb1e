#include "chapters/10_tensor_parallel_training/gradient_norm.hpp"

#include <cmath>

#include "chapters/09_llama/clip.hpp"

namespace course {

double gradient_norm(const Parameters& parameters, const DeviceMesh& mesh, Comm& world) {
  Parameters mine;
  for (Parameter* p : parameters)
    if (p->speaks_for(mesh)) mine.push_back(p);
  return std::sqrt(world.sum(squared_norm(mine)));
}

}  // namespace course
