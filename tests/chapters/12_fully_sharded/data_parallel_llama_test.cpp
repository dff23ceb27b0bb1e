// A Llama trained by FSDP and by DDP against one rank that does it all, with evaluation in between; and B18's and B05's
// (e) of tests/cases.
#include <filesystem>
#include <fstream>

#include "chapters/04_sharded_linear/linear.hpp"
#include "chapters/09_llama/clip.hpp"
#include "chapters/09_llama/trainer.hpp"
#include "chapters/10_tensor_parallel_training/checkpoint.hpp"
#include "chapters/10_tensor_parallel_training/gradient_norm.hpp"
#include "chapters/12_fully_sharded/ddp.hpp"
#include "chapters/12_fully_sharded/distributed_sampler.hpp"
#include "chapters/12_fully_sharded/shard_llama.hpp"
#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/check_module.hpp"

using namespace course;
using namespace course::test;
using nlohmann::json;

namespace {

enum class Way { Alone, Fsdp, Ddp };
constexpr int64_t B = 12, S = 7;  // 12 samples: shared evenly by 1, 2, 3 and 4 ranks

DeviceMesh dp_mesh(Comm& comm) { return DeviceMesh(comm, backend(), {{"dp", comm.size()}}); }

// The parts of chapter 12, put together as its main.cpp does.
struct Training {
  Training(Comm& comm, Way way, int64_t accumulate, const TokenData& data)
      : recorded(comm, traffic), mesh(dp_mesh(recorded)), llama(backend(), little_config()) {
    if (way == Way::Fsdp) units = fully_shard_llama(llama, mesh);
    initialize(llama, 5);
    optimizer = std::make_unique<AdamW>(parameters_of(llama));
    ddp = std::make_unique<Ddp>(optimizer->parameters(), mesh, 4096);
    GradientSteps gradients;
    gradients.finish = [this, way](const Parameters&) {
      if (way == Way::Ddp) ddp->reduce_gradients();
    };
    gradients.norm = [this](const Parameters& p) { return gradient_norm(p, mesh, recorded); };
    trainer = std::make_unique<Trainer>(llama, *optimizer, loss, data, in_order(data.samples(), B),
                                        TrainerOptions{.schedule = {0.01, 2, 12}, .accumulate = accumulate},
                                        share_over(mesh), gradients);
  }
  Traffic traffic;
  Recorder recorded;
  DeviceMesh mesh;
  Llama llama;
  FsdpUnits units;
  CrossEntropy loss{backend(), 0};  // id 0 counts for nothing, so ranks have different numbers of valid tokens
  std::unique_ptr<AdamW> optimizer;
  std::unique_ptr<Ddp> ddp;
  std::unique_ptr<Trainer> trainer;
};

// B18's parameters, in one unit over all ranks of comm, or whole on one.
struct Pieces {
  explicit Pieces(Comm& comm) : mesh(dp_mesh(comm)) {
    const auto sizes = the_case("B18").at("input").at("params").get<std::vector<std::string>>();
    for (const std::string& text : sizes) {
      const auto cross = text.find('x');
      Shape shape{std::stol(text)};
      if (cross != std::string::npos) shape.push_back(std::stol(text.substr(cross + 1)));
      all.push_back(std::make_unique<Parameter>(backend(), text, shape, Init{Init::Uniform, 1}));
    }
    if (comm.size() > 1) unit = std::make_unique<FsdpUnit>(parameters(), mesh);
    const Rng rng(18, "pieces");
    for (Parameter* p : parameters()) {
      std::vector<float> values(numel(p->global()));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(rng.normal(i));
      p->fill(values);
    }
    optimizer = std::make_unique<AdamW>(parameters());
  }
  std::vector<CheckpointTensor> tensors() {
    std::vector<CheckpointTensor> list;
    for (size_t i = 0; i < all.size(); ++i) {
      Parameter& p = *all[i];
      const bool speaks = p.speaks_for(mesh);
      list.push_back({p.name(), p.global(), p.owned_box(), &p.owned_to_write(), speaks});
      list.push_back({"exp_avg." + p.name(), p.global(), p.owned_box(), &optimizer->mean(i), speaks});
      list.push_back({"exp_avg_sq." + p.name(), p.global(), p.owned_box(), &optimizer->square(i), speaks});
    }
    return list;
  }
  Parameters parameters() {
    Parameters list;
    for (auto& p : all) list.push_back(p.get());
    return list;
  }
  // Adds rank r's gradient; alone, those of all `ranks`.
  void add_gradients(int64_t step, int64_t ranks) {
    if (unit) unit->unshard();
    for (Parameter* p : parameters())
      for (int64_t r = 0; r < ranks; ++r)
        if (!unit || r == mesh.coordinate())
          backend().add(p->gradient(), random(cat(p->name(), " step ", step, " rank ", r), p->global()));
    if (!unit) return;
    unit->reshard();
    unit->start_reduce();
    unit->finish_reduce();
  }
  DeviceMesh mesh;
  std::vector<std::unique_ptr<Parameter>> all;
  std::unique_ptr<FsdpUnit> unit;
  std::unique_ptr<AdamW> optimizer;
};

void check_equal(AdamW& sharded, AdamW& serial, double tolerance) {
  for (size_t i = 0; i < serial.parameters().size(); ++i) {
    Parameter &a = *sharded.parameters()[i], &b = *serial.parameters()[i];
    INFO(a.name());
    CHECK(differs(a.owned(), part_of(b.owned(), a.owned_box()), tolerance) == "");
    CHECK(differs(sharded.mean(i), part_of(serial.mean(i), a.owned_box()), tolerance) == "");
    CHECK(differs(sharded.square(i), part_of(serial.square(i), a.owned_box()), tolerance) == "");
  }
}

}  // namespace

TEST_CASE("FSDP and DDP train a Llama as one rank does, evaluation in between") {
  const TokenData data(S, random_ids("stream", 4 * B * S + 1, 61));
  const auto alone = world().split(world().rank(), 0, "alone");
  const int64_t P = world().size();
  for (const int64_t accumulate : {1, 2}) {
    Training serial(*alone, Way::Alone, accumulate, data);
    Training fsdp(world(), Way::Fsdp, accumulate, data), ddp(world(), Way::Ddp, accumulate, data);
    for (int64_t n = 1; n <= 3; ++n) {
      INFO("step " << n << " of " << accumulate << " micro-batches");
      const StepResult right = serial.trainer->step();
      const double held = serial.trainer->validate(data, 5, 7);  // 5: no multiple of the ranks
      for (Training* run : {&fsdp, &ddp}) {
        run->traffic.clear();
        const StepResult result = run->trainer->step();
        const Traffic step = run->traffic;
        CHECK(result.loss == Approx(right.loss).epsilon(1e-5));
        CHECK(result.grad_norm == Approx(right.grad_norm).epsilon(1e-5));
        CHECK(result.tokens == right.tokens);
        const auto expected = run == &fsdp ? fsdp_traffic(little_config(), PlanKind::Basic, 1, 0, P, accumulate)
                                           : ddp_traffic(little_config(), P, run->ddp->buckets());
        for (const ExpectedSent& e : expected) {
          CHECK(step.count(e.op, "dp") == e.calls);
          CHECK(step.bytes(e.op, "dp") == Approx(e.bytes));
        }
        CHECK(run->trainer->validate(data, 5, 7) == Approx(held).epsilon(1e-5));
        for (Parameter* p : run->optimizer->parameters()) CHECK(p->gathered() == !p->owns_part());
        check_equal(*run->optimizer, *serial.optimizer, 2e-4);
      }
    }
    CHECK(ddp.ddp->buckets() > 2);
    for (Parameter* p : fsdp.optimizer->parameters()) CHECK(p->owns_part() == (P > 1));
    {
      const Unsharded whole(fsdp.units);
      for (size_t i = 0; i < serial.optimizer->parameters().size(); ++i)
        CHECK(differs(fsdp.optimizer->parameters()[i]->value(), serial.optimizer->parameters()[i]->value(), 2e-4) ==
              "");
    }
    // What was held for generation is not what the next step computes with.
    CHECK(fsdp.trainer->step().loss == Approx(serial.trainer->step().loss).epsilon(1e-5));
    CHECK(fsdp.trainer->validate(data, 5, 7) == Approx(serial.trainer->validate(data, 5, 7)).epsilon(1e-5));
  }
}

TEST_CASE("B18: rows as torch.chunk, and three clipped steps") {
  const json right = the_case("B18").at("right");
  const int64_t P = world().size();
  const auto alone = world().split(world().rank(), 0, "alone");
  Pieces sharded(world()), serial(*alone);
  for (Parameter* p : sharded.parameters()) {
    INFO(p->name() << " on " << P);
    CHECK(p->owned_box().size[0] == right.at(p->name()).at(std::to_string(P)).at(world().rank()).get<int64_t>());
  }
  check_equal(*sharded.optimizer, *serial.optimizer, 0);
  for (int64_t step = 1; step <= 3; ++step) {
    for (Pieces* pieces : {&sharded, &serial}) {
      pieces->add_gradients(step, P);
      pieces->add_gradients(step + 10, P);
    }
    const double norm = gradient_norm(sharded.parameters(), sharded.mesh, world());
    CHECK(norm == Approx(gradient_norm(serial.parameters(), serial.mesh, *alone)).epsilon(1e-6));
    for (Pieces* pieces : {&sharded, &serial}) {
      clip_gradients(pieces->parameters(), norm, 0.5);
      pieces->optimizer->step(0.01);
      for (Parameter* p : pieces->parameters()) p->clear_gradient();
    }
    check_equal(*sharded.optimizer, *serial.optimizer, 1e-5);
  }
}

TEST_CASE(
    "B18: saved by all ranks, loaded by any number of them: values and moments bit by bit, no padding in the file") {
  const json B18 = the_case("B18");
  const int64_t P = world().size();
  Pieces saved(world());
  for (int64_t step = 1; step <= 3; ++step) {
    saved.add_gradients(step, P);
    clip_gradients(saved.parameters(), gradient_norm(saved.parameters(), saved.mesh, world()), 0.5);
    saved.optimizer->step(0.01);
    for (Parameter* p : saved.parameters()) p->clear_gradient();
  }
  const std::string dir =
      world().broadcast_text((std::filesystem::temp_directory_path() / cat("course_12_", getpid())).string(), 0);
  const std::string at = save_checkpoint(dir, 3, saved.tensors(), json::object(), world(), backend());

  std::map<std::string, int64_t> in_file;
  const json index = json::parse(std::ifstream(at + "/index.json"));
  for (const json& piece : index.at("pieces")) {
    CHECK(numel(piece.at("size").get<Shape>()) > 0);
    in_file[piece.at("tensor")] += numel(piece.at("size").get<Shape>());
  }
  for (const CheckpointTensor& tensor : saved.tensors()) CHECK(in_file[tensor.name] == numel(tensor.global));

  const auto alone = world().split(world().rank(), 0, "alone");
  Pieces whole(*alone);
  load_checkpoint(at, whole.tensors(), *alone, backend());
  check_equal(*saved.optimizer, *whole.optimizer, 0);
  for (const int64_t size : B18.at("input").at("load_at")) {
    const auto group = world().split(world().rank() / size, 0, "dp");
    INFO("saved by " << P << ", loaded in groups of " << size << ", this one has " << group->size());
    Pieces loaded(*group);
    for (Parameter* p : loaded.parameters()) p->fill(9);  // other values: all of them come from the file
    load_checkpoint(at, loaded.tensors(), *group, backend());
    for (Parameter* p : loaded.parameters()) {
      const json& rows = B18.at("right").at(p->name());
      CHECK(p->owned_box().size[0] == rows.at(std::to_string(group->size())).at(group->rank()).get<int64_t>());
    }
    check_equal(*loaded.optimizer, *whole.optimizer, 0);
  }
  world().barrier().wait();
  if (world().rank() == 0) std::filesystem::remove_all(dir);
}

TEST_CASE("B05 e: a rank with ignored labels only changes neither loss nor gradient") {
  const json B05 = the_case("B05");
  const bool first = world().rank() == 0;
  const auto row = B05.at("input").at("e").at("rank0").at("row").get<std::vector<float>>();
  const int32_t label = B05.at("input")
                            .at("e")
                            .at(first ? json::json_pointer("/rank0/label") : json::json_pointer("/rank1_label"))
                            .get<int32_t>();
  const DataShare share = share_over(dp_mesh(world()));
  CrossEntropy loss(backend(), -100);
  const Tensor targets = backend().from_host(std::vector<int32_t>{label}, {1});
  const double sum = share.sum(loss.forward(backend().from_host(row, {1, int64_t(row.size())}), targets));
  const double valid = share.sum(static_cast<double>(loss.valid(targets)));
  CHECK(sum / valid == Approx(B05.at("right").at("e").get<double>()));
  auto gradient = backend().to_host(loss.backward(valid).local());
  CHECK(gradient[label < 0 ? 0 : label] == Approx(first ? -0.875 : 0.0));
}

TEST_CASE("fully_shard refuses a mesh of two axes, and a module that is in a unit already") {
  const DeviceMesh both(world(), backend(), {{"dp", world().size()}, {"tp", 1}});
  Linear linear(backend(), 5, 3, true);
  CHECK_THROWS_WITH(fully_shard(linear, both), Catch::Contains("one axis"));
  const auto unit = fully_shard(linear, both["dp"]);
  CHECK_THROWS_WITH(fully_shard(linear, both["dp"]), Catch::Contains("belongs to a unit already"));
}
