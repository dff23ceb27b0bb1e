// That communication goes on while layers compute, seen from the order of starts and ends; and that nothing else changes.
#include <algorithm>

#include "chapters/12_fully_sharded/ddp.hpp"
#include "chapters/12_fully_sharded/shard_llama.hpp"
#include "common/comm/decorator.hpp"
#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/check_module.hpp"

using namespace course;
using namespace course::test;

namespace {

using Diary = std::vector<std::string>;

// Writes down when each collective starts, and when its Work is found complete.
class Witness : public CommDecorator {
 public:
  Witness(Comm& inner, Diary& diary) : CommDecorator(inner), diary_(&diary) {}
  Witness(std::unique_ptr<Comm> inner, Diary& diary) : CommDecorator(std::move(inner)), diary_(&diary) {}
  std::unique_ptr<Comm> split(int color, int key, const std::string& name, Site at) override {
    return std::make_unique<Witness>(inner().split(color, key, name, at), *diary_);
  }
  Work start(const Call& call) override {
    diary_->push_back(cat(name_of(call.op), " starts"));
    auto work = std::make_shared<Work>(inner().start(call));
    return Work([this, op = call.op, work](Until until) {
      const bool done = work->reached(until);
      if (done) diary_->push_back(cat(name_of(op), " ends"));
      return done;
    });
  }

 private:
  Diary* diary_;
};

// Inside all other hooks: what the layers themselves do.
void watch(Llama& llama, Diary& diary) {
  const auto layers = llama.model.layers.layers();
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto note = [&diary, i](const char* what) {
      return [&diary, i, what](DTensor x) {
        diary.push_back(cat("layer ", i, what));
        return x;
      };
    };
    layers[i]->wrap({.before_forward = note(" forward"), .before_backward = note(" backward")});
  }
}

constexpr int64_t B = 3, S = 4;

// Forward and backward of one micro-batch, other values on each rank.
void pass(Llama& llama) {
  const auto ids = random_ids(cat("ids of rank ", world().rank()), B * S, llama.config().vocab_size);
  llama.forward(backend().from_host(ids, {B, S}));
  llama.backward(random(cat("gradient of rank ", world().rank()), {B, S, llama.config().vocab_size}));
}

// A Llama of three layers over all ranks, with a diary.
struct Run {
  Run() : witness(world(), diary), mesh(witness, backend(), {{"dp", witness.size()}}), llama(backend(), three_layers()) {}
  static LlamaConfig three_layers() {
    LlamaConfig c = little_config();
    c.num_hidden_layers = 3;
    return c;
  }
  Diary diary;
  Witness witness;
  DeviceMesh mesh;
  Llama llama;
  InFlight in_flight;
};

// The summed gradients of both are equal, bit by bit.
void check_equal_gradients(Run& a, Run& b) {
  const Parameters left = parameters_of(a.llama), right = parameters_of(b.llama);
  for (size_t i = 0; i < left.size(); ++i) {
    INFO(left[i]->name());
    CHECK(differs(left[i]->owned_gradient(), right[i]->owned_gradient()) == "");
  }
}

}  // namespace

TEST_CASE("FSDP gathers the next unit and reduces the last one while a layer computes") {
  if (world().size() == 1) return;  // no units
  Run run, plain;
  watch(run.llama, run.diary);
  fully_shard_llama(run.llama, run.mesh, &run.in_flight);
  fully_shard_llama(plain.llama, plain.mesh);
  for (Run* each : {&run, &plain}) initialize(each->llama, 5);

  run.diary.clear();
  pass(run.llama);
  // Nothing polls here, so an end is where someone waits.
  const std::string gather = "all-gather starts", gathered = "all-gather ends";
  const std::string reduce = "reduce-scatter starts", reduced = "reduce-scatter ends";
  CHECK(run.diary == Diary{gather, gathered,                            // the root's, which nothing can hide
                           gather, gathered, gather, "layer 0 forward",  // layer 1's weights come while layer 0 computes
                           gathered, gather, "layer 1 forward",          //
                           gathered, "layer 2 forward",                  //
                           gather, gathered, gather, "layer 2 backward",  // layer 1's again, and so back
                           reduce, gathered, gather, "layer 1 backward",  // layer 2's gradients go while layer 1 computes
                           reduced, reduce, gathered, "layer 0 backward",  //
                           reduced, reduce, reduced, reduce, reduced});    // layer 0's, then the root's

  pass(plain.llama);
  check_equal_gradients(run, plain);
}

TEST_CASE("what is under way is polled between kernels") {
  if (world().size() == 1) return;
  Run run;
  fully_shard_llama(run.llama, run.mesh, &run.in_flight);
  initialize(run.llama, 5);
  pass(run.llama);
  const auto before = run.diary.size();
  const int64_t n = 5;
  Tensor x = backend().full({n}, 1);
  const auto work = run.in_flight.add(run.mesh.comm().all_reduce(x));
  while (run.diary.size() < before + 2) run.in_flight.poll();  // it ends without a wait
  CHECK(run.diary.back() == "all-reduce ends");
  run.in_flight.poll();  // and is not polled again
  CHECK(run.diary.size() == before + 2);
  CHECK(differs(x, backend().full({n}, static_cast<float>(world().size()))) == "");
}

TEST_CASE("DDP starts a bucket in the last micro-batch, as soon as backward is done with it") {
  Run run, plain;
  for (Run* each : {&run, &plain}) initialize(each->llama, 5);
  const int64_t small = 1;  // a bucket a parameter
  Ddp ddp(parameters_of(run.llama), run.mesh, small), at_the_end(parameters_of(plain.llama), plain.mesh, small);
  ddp.reduce_during_backward(run.llama, 2, run.in_flight);
  watch(run.llama, run.diary);
  const std::string starts = "all-reduce starts";
  for (int step = 0; step < 2; ++step) {
    for (Run* each : {&run, &plain}) clear_gradients(each->llama);
    run.diary.clear();
    pass(run.llama);
    CHECK(std::ranges::count(run.diary, starts) == 0);
    run.diary.clear();
    pass(run.llama);
    if (world().size() > 1) {
      const auto layer_0 = std::ranges::find(run.diary, "layer 0 backward");
      // The head, the last norm, and 9 parameters in each of two layers are on their way by then.
      CHECK(std::count(run.diary.begin(), layer_0, starts) == 2 + 2 * 9);
      CHECK(std::ranges::count(run.diary, starts) == ddp.buckets());
    }
    ddp.reduce_gradients();
    for (int i = 0; i < 2; ++i) pass(plain.llama);
    at_the_end.reduce_gradients();
    check_equal_gradients(run, plain);
  }
}

TEST_CASE("units in an order that does not begin with the root are refused") {
  if (world().size() == 1) return;
  Run run;
  const FsdpUnits units = fully_shard_llama(run.llama, run.mesh);  // the root is the last here
  CHECK_THROWS_WITH(run_in_order(units, run.in_flight), Catch::Contains("the one around the others"));
  CHECK_THROWS_WITH(run_in_order({}, run.in_flight), Catch::Contains("the one around the others"));
}
