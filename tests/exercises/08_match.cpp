// Patterns of a plan, and paths that they do and do not name.
#include "chapters/08_parallel_plan/parallel_plan.hpp"
#include "tests/exercises/check.hpp"

using namespace course;

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "match", [](Check& check) {
    const std::string layer = std::to_string(check.random("layer", 0, 31));
    const struct {
      std::string pattern, path;
      bool right;
    } rows[] = {
        {"lm_head", "lm_head", true},
        {"lm_head", "model.lm_head", false},
        {"mlp", "mlp.gate_proj", false},
        {"mlp.gate_proj", "mlp", false},
        {"layers.*.mlp", "layers." + layer + ".mlp", true},
        {"layers.*.mlp", "layers." + layer + ".self_attn", false},
        {"layers.*", "layers." + layer + ".mlp", false},
        {"layers.*.gate_proj", "layers." + layer + ".mlp.gate_proj", false},
        {"model.layers.*.self_attn.[qk]_proj", "model.layers." + layer + ".self_attn.q_proj", true},
        {"model.layers.*.self_attn.[qk]_proj", "model.layers." + layer + ".self_attn.v_proj", false},
        {"model.layers.?.mlp", "model.layers.7.mlp", true},
        {"model.layers.?.mlp", "model.layers.17.mlp", false},
        {"*_proj", "down_proj", true},
        {"*", "mlp", true},
        {"*", "mlp.up_proj", false},
        {"*", "", false},
        {"", "", true},
        {"", "mlp", false},
        {"mlp", "", false},
        {"model.norm", "modelnorm", false},
        {"model.norm", "model.norm", true},
    };
    for (const auto& [pattern, path, right] : rows) {
      check.begin(cat("pattern '", pattern, "', path '", path, "'"));
      check.equal("matches", matches(pattern, path) ? "yes" : "no", right ? "yes" : "no");
    }
  });
}
