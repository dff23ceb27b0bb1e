// What one training step holds in memory, by formula, beside what the pool counted. The formulas know the model's sizes, the
// plan, the ranks and the batch; and they ask the device what its kernels take for themselves, which is not the same on each.
//
// A step's memory rises to a few moments and falls between them. Each moment is written down as a sum of what is held then,
// class by class; the highest of a class is the largest over the moments, the peak is the moment whose sum is the largest.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "chapters/08_parallel_plan/layer_plan.hpp"
#include "chapters/09_llama/training_options.hpp"
#include "common/backend/backend.hpp"

namespace course {

// B sequences and S tokens of a micro-batch on this rank; rank `rank` of the p of tp.
struct StepSizes {
  LlamaConfig config;
  PlanKind plan = PlanKind::Sequence;
  bool loss_parallel = false, recompute = false;
  int64_t B, S, p = 1, rank = 0, micro_batches = 1;
  int64_t norm_size = 0;  // elements of a norm that this rank owns: E, or what FSDP leaves of it
  Device device = Device::Cpu;  // whose kernels take scratch
  DType type = DType::F32;  // of activations, and of the copies of weights that modules compute with; what is owned is f32
};
// From the flags; tp_rank and norm_size as above.
StepSizes step_sizes(const TrainingOptions& options, int64_t tp_rank, int64_t norm_size, Backend& backend);

// A parameter as this rank computes with it: [rows, row] elements after the tensor-parallel cuts.
struct LocalParameter {
  int64_t rows, row;
  int64_t bytes() const { return 4 * rows * row; }  // in f32
};
std::vector<LocalParameter> layer_parameters(const StepSizes& z);  // of one decoder layer
std::vector<LocalParameter> top_parameters(const StepSizes& z);    // embedding, last norm, head

struct Moment {
  std::string name;     // "backward of gate, layer 3"
  int64_t layer;        // whose, or -1
  BytesByClass bytes;
  // Bytes of the gradients: those of embedding, norm and head so far, those of `layer` so far; and how many layers are done.
  int64_t top_gradients = 0, layer_gradients = 0, layers_done = 0;
  int64_t messages = 0;        // bytes of the buffers: what is there for this moment alone, packed messages and scratch
  bool last_sums = false;      // backward is over, the optimizer's step not begun
};

// Bytes that one decoder layer keeps for its backward: 4 for each of these, or 2 in mixed precision, and 4 for what stays f32
// (or i32). N = B·S tokens, n of them on this rank between the blocks; E hidden, D of a head, i intermediate:
//   2 n E    and 2 n, f32         the inputs of two norms, and one number a row
//   2 N E                         the inputs of the blocks, gathered
//   N (2h D + 2k D)  and N h, f32 q, k, v, the heads' result; one number a query and head
//   3 N i                         gate, up, their product
//   S, i32                        positions
// h, k, i are this rank's; under `article` h and k are all heads, and o_proj keeps its slice of their result beside it.
int64_t layer_keeps(const StepSizes& z);
// Bytes of the stream between two layers, of this rank.
int64_t stream_bytes(const StepSizes& z);

// The moments of a step of the last micro-batch, which has the most: before it, all gradients are there already.
std::vector<Moment> tensor_parallel_memory(const StepSizes& z);

// A table: class by class the highest measured and by formula, and the same at the peak of all together; a line that says
// where the peak is. When one differs by more than a tenth a second line says which. This rank's numbers; no communication.
void show_memory(std::ostream& out, const MemoryUse& measured, const std::vector<Moment>& moments);

BytesByClass highest_of(const std::vector<Moment>& moments);
const Moment& peak_of(const std::vector<Moment>& moments);
// "" where every class's highest, and the whole's, is so near the formula; else the first that is not.
std::string memory_differs(const MemoryUse& measured, const std::vector<Moment>& moments, double within = 0.1);

}  // namespace course
