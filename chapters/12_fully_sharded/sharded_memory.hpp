// What a step holds in memory once parameters, gradients and moments are shared over dp: chapter 10's moments, changed.
#pragma once

#include "chapters/10_tensor_parallel_training/step_memory.hpp"

namespace course {

// FSDP over dp ranks, of which this is dp_rank. A layer takes W bytes whole and w of them here; embedding, norm and head, the
// root, R and r.
//   parameters    L·w + r, the moments twice that
//   gradients     w of each layer whose reduce-scatter is over; whole those of the layer in work, and of the root to the end
//   buffers       R from the root's forward to the end of its backward, W while a layer works; the next layer's all-gather
//                 under way, W + w; the last layer's reduce-scatter under way, W + w
// In mixed precision what is gathered (R, W, w under way) takes 2 bytes an element, gradients and what is owned 4.
// What FSDP gathers counts as buffers: it is borrowed for a while, what a rank owns are its parts. The moments as they were
// for dp 1.
std::vector<Moment> fully_sharded_memory(std::vector<Moment> moments, const StepSizes& sizes, int64_t dp, int64_t dp_rank);

// DDP: as they were, and the buckets that are packed by then, `bucket_bytes` in the order in which backward fills them. They
// wait for the end of backward, so they pile up on the way. Of the layer in work nothing is counted: it has packed a bucket
// or two, less than a layer's gradients.
std::vector<Moment> data_parallel_memory(std::vector<Moment> moments, const StepSizes& sizes, int64_t dp,
                                         const std::vector<int64_t>& bucket_bytes);

}  // namespace course
