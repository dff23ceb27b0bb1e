#include "chapters/10_tensor_parallel_training/finish_gradients.hpp"

#include "chapters/10_tensor_parallel_training/packed_sum.hpp"

namespace course {

void finish_gradients(const Parameters& parameters, const DeviceMesh& tp) {
  Parameters partial;
  for (Parameter* p : parameters)
    if (is_partial(p->grad_placement(tp.name(0)))) partial.push_back(p);
  sum_packed_gradients(partial, tp);
}

}  // namespace course
