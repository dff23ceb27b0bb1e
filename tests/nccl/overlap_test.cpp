// FSDP and DDP over NCCL: their collectives go on beside compute. The last rank comes to one collective only after rank 0 has
// computed, and read back, what lies behind its start. Were compute to wait for that collective, all would hang.
#include <mpi.h>

#include "chapters/12_fully_sharded/ddp.hpp"
#include "chapters/12_fully_sharded/shard_llama.hpp"
#include "common/comm/decorator.hpp"
#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/nccl/nccl_world.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;

namespace {

// On the last rank, the start of one collective waits until rank 0 lets it go: the one before which `left` of its kind come.
class Late : public CommDecorator {
 public:
  explicit Late(Comm& inner) : CommDecorator(inner) {}
  explicit Late(std::unique_ptr<Comm> inner) : CommDecorator(std::move(inner)) {}
  std::unique_ptr<Comm> split(int color, int key, const std::string& name, Site at) override {
    return std::make_unique<Late>(inner().split(color, key, name, at));
  }
  Work start(const Call& call) override {
    if (call.op == op && left-- == 0) {
      if (rank() == size() - 1) wait_for_rank_0();
      if (rank() == 0) under_way = true;
    }
    return inner().start(call);
  }
  static void let_go(int last) { MPI_Send(nullptr, 0, MPI_BYTE, last, kTag, MPI_COMM_WORLD); }
  static inline Op op;
  static inline int left = -1;  // -1: none waits
  static inline bool under_way = false;

 private:
  static constexpr int kTag = 7;
  void wait_for_rank_0() {
    MPI_Request go;
    MPI_Irecv(nullptr, 0, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &go);
    for (int there = 0; !there; MPI_Test(&go, &there, MPI_STATUS_IGNORE)) look();
  }
};

// On rank 0, after a layer's forward or backward: reads the result, which only a device that has computed it can give, and
// lets the last rank go on. True once it has.
bool computed_beside = false;
DTensor computed(DTensor x) {
  if (world().rank() == 0 && Late::under_way && !computed_beside) {
    CHECK(backend().to_host(x.local()).size() > 0);
    computed_beside = true;
    Late::let_go(world().size() - 1);
  }
  return x;
}

constexpr int64_t B = 3, S = 4;

// A Llama of three layers, forward and backward: once to warm up (nccl_world.hpp), then with the collective `number` of its kind
// late.
struct Run {
  Run() : late(*nccl.comm), mesh(late, backend(), {{"dp", late.size()}}), llama(backend(), three_layers()) {}
  static LlamaConfig three_layers() {
    LlamaConfig c = little_config();
    c.num_hidden_layers = 3;
    return c;
  }
  void is_late(Op op, int number) {
    Late::op = op;
    Late::left = number;
    Late::under_way = computed_beside = false;
    pass();
    Late::left = -1;
    if (world().rank() == 0) CHECK(computed_beside);
  }
  void pass() {
    const auto ids = random_ids(cat("ids of rank ", world().rank()), B * S, llama.config().vocab_size);
    llama.forward(backend().from_host(ids, {B, S}));
    llama.backward(random(cat("gradient of rank ", world().rank()), {B, S, llama.config().vocab_size}));
  }
  NcclWorld nccl;
  Late late;
  DeviceMesh mesh;
  Llama llama;
  InFlight in_flight;
};

bool can_run() { return nccl_can_run() && world().size() > 1; }

// With FSDP, what `beside` names of layer `layer` computes beside that collective.
void fsdp_computes(int layer, const Hooks& beside, Op op, int number) {
  if (!can_run()) return;
  Run run;
  run.llama.model.layers.layers()[layer]->wrap(beside);
  const FsdpUnits units = fully_shard_llama(run.llama, run.mesh, &run.in_flight);
  initialize(run.llama, 5);
  run.pass();
  run.is_late(op, number);
}

}  // namespace

TEST_CASE("FSDP over NCCL: layer 0 computes while layer 1 is gathered") {
  fsdp_computes(0, {.after_forward = computed}, Op::AllGather, 2);  // the root's, layer 0's, layer 1's
}

TEST_CASE("FSDP over NCCL: layer 1's backward computes while layer 2's gradients are summed") {
  fsdp_computes(1, {.after_backward = computed}, Op::ReduceScatter, 0);
}

TEST_CASE("DDP over NCCL: the layers below compute while a bucket is summed") {
  if (!can_run()) return;
  Run run;
  run.llama.model.layers.layers()[0]->wrap({.after_backward = computed});
  initialize(run.llama, 5);
  Ddp ddp(parameters_of(run.llama), run.mesh, 1);  // a bucket a parameter
  ddp.reduce_during_backward(run.llama, 1, run.in_flight);
  run.pass();
  ddp.reduce_gradients();
  run.is_late(Op::AllReduce, 0);
  ddp.reduce_gradients();
}
