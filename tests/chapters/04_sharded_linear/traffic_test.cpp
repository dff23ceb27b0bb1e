// What the styles send: never more calls than PyTorch, and the bytes of the formula.
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "chapters/04_sharded_linear/embedding.hpp"
#include "chapters/04_sharded_linear/linear.hpp"
#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "common/comm/recorder.hpp"
#include "tests/support/check_module.hpp"

namespace course::test {
namespace {

// B batch  S sequence  I in  O out, or hidden  V vocabulary
constexpr int64_t B = 3, S = 5, I = 6, O = 7, V = 11;

Placement placement_of(const std::string& text) {
  if (text == "Replicate()") return Replicate();
  std::smatch match;
  require(std::regex_match(text, match, std::regex(R"(Shard\((?:dim=)?(-?\d+)\))")), "unknown placement ", text);
  return Shard(std::stoll(match[1]));
}

struct Calls {
  Traffic forward, backward;
};

// One forward and backward of a module under a style as PyTorch writes it: "Linear:
// ColwiseParallel(input_layouts=Shard(1))". Throws for words that it does not know.
Calls run(const std::string& text) {
  std::smatch match;
  require(std::regex_match(text, match, std::regex(R"((Linear|Embedding): (Colwise|Rowwise)Parallel\((.*)\))")),
          "unknown case ", text);
  const bool linear = match[1] == "Linear", colwise = match[2] == "Colwise";
  std::optional<Placement> input, output;
  const std::string arguments = match[3];
  const std::regex argument(R"((input|output)_layouts=((?:Replicate|Shard)\([^)]*\))(?:, |$))");
  size_t read = 0;
  for (std::sregex_iterator a(arguments.begin(), arguments.end(), argument), end; a != end; ++a) {
    (a->str(1) == "input" ? input : output) = placement_of(a->str(2));
    read += a->length();
  }
  require(read == arguments.size(), "unknown arguments in ", text);

  Traffic traffic;
  Recorder recorder(world(), traffic);
  const DeviceMesh tp(recorder, backend(), {{"tp", world().size()}});
  std::unique_ptr<Module> module;
  if (linear)
    module = std::make_unique<Linear>(backend(), I, O, true);
  else
    module = std::make_unique<Embedding>(backend(), V, O);
  if (colwise) {
    ColwiseParallel style;
    if (input) style.input(*input);
    if (output) style.output(*output);
    style.apply(*module, tp);
  } else {
    RowwiseParallel style;
    if (input) style.input(*input);
    if (output) style.output(*output);
    style.apply(*module, tp);
  }
  initialize(*module, 3);
  const Placement given = input.value_or(colwise ? Placement(Replicate()) : Shard(-1));
  const Placement produced = output.value_or(colwise ? Placement(Shard(-1)) : Replicate());
  // Plain where that can be, so that the module's own hooks reduce, as in PyTorch's run. 5 positions over 2 ranks need
  // a layout.
  const Shape shape = linear ? Shape{B, S, I} : Shape{B, S};
  const Tensor x = linear ? random("x", shape) : backend().from_host(std::vector<int32_t>(B * S, 4), shape);
  DTensor mine = part_of(x, tp, given);
  if (as_shard(given)) mine = DTensor::from_local(mine, tp, {given}, shape);
  Calls calls;
  traffic.clear();
  module->forward(std::move(mine));
  calls.forward = traffic;
  traffic.clear();
  module->backward(part_of(random("dy", {B, S, O}), tp, produced));
  calls.backward = traffic;
  return calls;
}

const std::map<std::string, Op> op_names = {{"all_gather", Op::AllGather},
                                            {"all_reduce", Op::AllReduce},
                                            {"reduce_scatter", Op::ReduceScatter},
                                            {"all_to_all", Op::AllToAll},
                                            {"broadcast", Op::Broadcast}};

void check_calls(const std::string& direction, const Traffic& ours, const nlohmann::json& theirs) {
  INFO(direction << ": PyTorch " << theirs.dump());
  for (const auto& [name, count] : theirs.items()) require(op_names.contains(name), "unknown collective ", name);
  for (const auto& [name, op] : op_names) {
    INFO(name);
    CHECK(ours.count(op) <= theirs.value(name, 0));
  }
  int64_t most = 0;
  for (const auto& [name, count] : theirs.items()) most += count.get<int64_t>();
  CHECK(ours.total().calls <= most);
}

void check_sent(const Traffic& traffic, std::optional<Op> op, double bytes) {
  const bool several = world().size() > 1;
  CHECK(traffic.total().calls == (op && several ? 1 : 0));
  if (op) CHECK(traffic.count(*op) == several);
  CHECK(traffic.total().bytes == Approx(bytes).epsilon(1e-9));
}

}  // namespace

TEST_CASE("never more calls than PyTorch makes for one module under one style", "[golden]") {
  std::ifstream file(golden_dir() + "/comm_counts.json");
  const auto styles = nlohmann::json::parse(file).at("styles");
  int walked = 0;
  for (const auto& entry : styles) {
    const std::string text = entry.at("case");
    INFO(text << ", PyTorch on " << entry.at("tp") << " ranks");
    if (text.starts_with("RMSNorm: ")) continue;  // chapter 07 brings it, and its test
    const Calls calls = run(text);
    check_calls("forward", calls.forward, entry.at("forward"));
    check_calls("backward", calls.backward, entry.at("backward"));
    ++walked;
  }
  CHECK(walked > 0);
  CHECK_THROWS_WITH(run("Linear: DiagonalParallel()"), Catch::Matchers::Contains("unknown case"));
  CHECK_THROWS_WITH(run("Linear: ColwiseParallel(input_layouts=Partial())"),
                    Catch::Matchers::Contains("unknown arguments"));
}

TEST_CASE("the calls and bytes of each case") {
  const int P = world().size();
  const double share = (P - 1.0) / P * 4;  // a gather's or a scatter's part of so many f32
  constexpr std::optional<Op> none;
  struct Case {
    std::string text;
    std::optional<Op> forward;
    double forward_bytes;
    std::optional<Op> backward;
    double backward_bytes;
  };
  const double x = share * B * S * I, y = share * B * S * O, ids = share * B * S;
  for (const Case& c : {Case{"Linear: ColwiseParallel()", none, 0, Op::AllReduce, 2 * x},
                        {"Linear: ColwiseParallel(input_layouts=Shard(1))", Op::AllGather, x, Op::ReduceScatter, x},
                        {"Linear: ColwiseParallel(output_layouts=Replicate())", Op::AllGather, y, Op::AllReduce, 2 * x},
                        {"Linear: RowwiseParallel()", Op::AllReduce, 2 * y, none, 0},
                        {"Linear: RowwiseParallel(output_layouts=Shard(1))", Op::ReduceScatter, y, Op::AllGather, y},
                        {"Linear: RowwiseParallel(input_layouts=Replicate())", Op::AllReduce, 2 * y, Op::AllGather, x},
                        {"Embedding: ColwiseParallel()", none, 0, none, 0},
                        {"Embedding: ColwiseParallel(input_layouts=Shard(1))", Op::AllGather, ids, none, 0},
                        {"Embedding: ColwiseParallel(output_layouts=Replicate())", Op::AllGather, y, none, 0},
                        {"Embedding: RowwiseParallel(input_layouts=Replicate())", Op::AllReduce, 2 * y, none, 0},
                        {"Embedding: RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))",
                         Op::ReduceScatter, y, Op::AllGather, y}}) {
    INFO(c.text);
    const Calls calls = run(c.text);
    check_sent(calls.forward, c.forward, c.forward_bytes);
    check_sent(calls.backward, c.backward, c.backward_bytes);
  }
}

}  // namespace course::test
