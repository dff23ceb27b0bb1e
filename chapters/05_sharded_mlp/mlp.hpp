// Two MLPs of transformers. Both read like serial code; cut fc1 (gate, up) by columns and fc2 (down) by rows, and the
// only communication is one sum at the end: the activation between them works element by element, so it needs no
// neighbour.
#pragma once

#include "chapters/04_sharded_linear/linear.hpp"

namespace course {

// E hidden  I intermediate
// fc2(gelu(fc1(x))), with biases: the MLP of Megatron-LM (Shoeybi et al., arXiv:1909.08053) and GPT-2.
//   x, y [...,E]   fc1.weight [I,E]   fc2.weight [E,I]
class GeluMlp : public Module {
 public:
  GeluMlp(Backend& backend, int64_t hidden, int64_t intermediate, Gelu gelu = Gelu::Exact);
  std::string kind() const override { return "GeluMlp"; }

  Linear &fc1, &fc2;

 private:
  DTensor run_forward(DTensor x) override;
  DTensor run_backward(DTensor dy) override;
  Gelu gelu_;
  DTensor between_;  // fc1's output
};

// down_proj(silu(gate_proj(x)) · up_proj(x)), without biases: the MLP of Llama (Shazeer, arXiv:2002.05202).
//   x, y [...,E]   gate_proj.weight, up_proj.weight [I,E]   down_proj.weight [E,I]
// gate and up share their input: when its layout was made outside (x has one), their Partial gradients are added here
// and leave as one.
class SwiGluMlp : public Module {
 public:
  SwiGluMlp(Backend& backend, int64_t hidden, int64_t intermediate);
  std::string kind() const override { return "SwiGluMlp"; }

  Linear &gate_proj, &up_proj, &down_proj;

 private:
  DTensor run_forward(DTensor x) override;
  DTensor run_backward(DTensor dy) override;
  DTensor gate_, up_;
};

}  // namespace course
