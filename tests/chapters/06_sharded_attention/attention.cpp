#include "chapters/06_sharded_attention/attention.hpp"

#include <cmath>

#include "chapters/04_sharded_linear/conjugate_pair.hpp"
#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "common/chunk.hpp"
#include "common/comm/recorder.hpp"
#include "tests/chapters/05_sharded_mlp/sgd.hpp"
#include "tests/support/cases.hpp"

namespace course::test {
namespace {

DeviceMesh tp_mesh(Comm& comm = world()) { return DeviceMesh(comm, backend(), {{"tp", comm.size()}}); }

enum class Cut { Heads, Article };

struct Way {
  std::string name;
  Cut cut;
  bool sliced_input;  // the projections gather x [B,S/P,E] themselves
  ModuleCheck check;
};

std::vector<Way> ways(double tolerance = 1e-5) {
  std::vector<Way> all;
  for (const Cut cut : {Cut::Heads, Cut::Article}) {
    const std::string name = cut == Cut::Heads ? "by heads" : "as in the article";
    all.push_back({name + ", x plain", cut, false, {.tolerance = tolerance}});
    all.push_back(
        {name + ", x shared", cut, false, {.with_layout = true, .input_gradient = Partial(), .tolerance = tolerance}});
    all.push_back({name + ", x shared, y in slices",
                   cut,
                   false,
                   {.with_layout = true, .output = Shard(1), .input_gradient = Partial(), .tolerance = tolerance}});
    all.push_back({name + ", x and y in slices",
                   cut,
                   true,
                   {.input = Shard(1), .with_layout = true, .output = Shard(1), .tolerance = tolerance}});
  }
  return all;
}

void cut(Attention& attention, const AttentionSizes& sizes, const DeviceMesh& tp, const Way& way) {
  ColwiseParallel q, kv;
  RowwiseParallel o;
  if (way.cut == Cut::Heads) {
    q.block(sizes.query_block()), kv.block(sizes.kv_block()), o.block(sizes.query_block());
  } else {
    q.output(Replicate()), kv.output(Replicate()), o.input(Replicate());
  }
  if (way.sliced_input) q.input(Shard(1)), kv.input(Shard(1));
  o.output(way.check.output);
  q.apply(attention.q_proj, tp);
  kv.apply(attention.k_proj, tp);
  kv.apply(attention.v_proj, tp);
  o.apply(attention.o_proj, tp);
}

// Attention modules of some sizes that share a table and a context.
struct Makes {
  AttentionSizes sizes;
  std::shared_ptr<const RopeTable> rope;
  std::shared_ptr<SequenceContext> context = std::make_shared<SequenceContext>();

  explicit Makes(const AttentionSizes& s, int64_t positions = 64, double theta = 10000)
      : sizes(s), rope(std::make_shared<const RopeTable>(backend(), positions, s.head_dim, theta)) {}
  std::unique_ptr<Attention> serial() const { return std::make_unique<Attention>(backend(), sizes, rope, context); }
  std::unique_ptr<Attention> sharded(const DeviceMesh& tp, const Way& way) const {
    auto attention = serial();
    cut(*attention, sizes, tp, way);
    return attention;
  }
};

// A mask of so many tokens from the front; sequence b has lengths[b].
Tensor mask_of(const std::vector<int64_t>& lengths, int64_t S) {
  std::vector<int32_t> attend;
  for (const int64_t length : lengths)
    for (int64_t s = 0; s < S; ++s) attend.push_back(s < length);
  return backend().from_host(attend, {std::ssize(lengths), S});
}

std::string shown(const AttentionSizes& s) {
  return cat(s.heads, " heads, ", s.kv_heads, " key/value heads on rank ", world().rank(), " of ", world().size());
}

// Even, uneven, and fewer key/value heads than ranks.
const AttentionSizes all_sizes[] = {{10, 12, 3, 4}, {7, 6, 2, 2}, {9, 5, 5, 6}, {6, 4, 1, 8}, {5, 8, 4, 2}};

}  // namespace

TEST_CASE("RoPE: PyTorch's numbers", "[golden]") {
  for (const auto& path : golden_files("rope__")) {
    const Golden golden(path);
    INFO(golden.name());
    const Tensor at = golden.tensor("in.positions");
    const RopeTable table(backend(), golden.integer("offset") + golden.integer("seq"), golden.integer("head_dim"),
                          golden.number("rope_theta"));
    Tensor x = golden.tensor("in.x"), dy = golden.tensor("in.dout");
    backend().rope(x, table.cos, table.sin, at, false);
    CHECK(differs(x, golden.tensor("out.y"), golden_tolerance(golden)) == "");
    backend().rope(dy, table.cos, table.sin, at, true);
    CHECK(differs(dy, golden.tensor("grad.x"), golden_tolerance(golden)) == "");
  }
}

TEST_CASE("attention: PyTorch's numbers, serial and cut", "[golden]") {
  const DeviceMesh tp = tp_mesh();
  for (const auto& path : golden_files("attention__")) {
    const Golden golden(path);
    const Makes makes({golden.integer("hidden_size"), golden.integer("num_attention_heads"),
                       golden.integer("num_key_value_heads"), golden.integer("head_dim")},
                      golden.integer("offset") + golden.integer("seq"), golden.number("rope_theta"));
    const Tensor x = golden.tensor("in.x"), dy = golden.tensor("in.dout"), attend = golden.tensor("in.attend");
    makes.context->offset = golden.integer("offset");
    makes.context->attend = &attend;
    const auto run = [&](Attention& attention, const ModuleCheck& how) {
      fill_from(attention, golden);
      check_module(expected_of(golden), attention, tp, x, dy, how);
    };
    {
      INFO(golden.name() << ", serial");
      run(*makes.serial(), {.tolerance = golden_tolerance(golden)});
    }
    for (const Way& way : ways(golden_tolerance(golden))) {
      INFO(golden.name() << ", " << way.name);
      run(*makes.sharded(tp, way), way.check);
    }
  }
}

TEST_CASE("cut attention equals its serial self: output, every gradient, parameters after three steps") {
  const DeviceMesh tp = tp_mesh();
  const int64_t B = 3;
  for (const AttentionSizes& sizes : all_sizes)
    for (const int64_t S : {7, 2}) {
      const Makes makes(sizes);
      const Tensor attend = mask_of({S, S - 1, 0}, S);
      makes.context->attend = &attend;
      makes.context->offset = 5;
      const Shape shape = {B, S, sizes.hidden};
      for (const Way& way : ways()) {
        INFO(shown(sizes) << ", S " << S << ": " << way.name);
        const auto serial = makes.serial(), sharded = makes.sharded(tp, way);
        initialize(*serial, 11), initialize(*sharded, 11);
        check_module(*serial, *sharded, tp, random("x", shape), random("dy", shape), way.check);
        check_steps(*serial, *sharded, tp, shape, [&](const Tensor& x, const Tensor& dy) {
          DTensor in = part_of(x, tp, way.check.input);
          if (way.check.with_layout) in = DTensor::from_local(in, tp, {way.check.input}, shape);
          sharded->forward(std::move(in));
          sharded->backward(part_of(dy, tp, way.check.output));
        });
      }
    }
}

TEST_CASE("what attention sends") {
  Traffic traffic;
  Recorder seen(world(), traffic);
  const DeviceMesh tp = tp_mesh(seen);
  const int P = world().size();
  const int64_t B = 2, some = P > 1 ? 1 : 0;
  const double share = (P - 1.0) / P;
  const auto check_sent = [&](const char* direction, int64_t all_reduces, int64_t all_gathers, int64_t reduce_scatters,
                              double elements) {
    INFO(direction);
    CHECK(traffic.count(Op::AllReduce) == some * all_reduces);
    CHECK(traffic.count(Op::AllGather) == some * all_gathers);
    CHECK(traffic.count(Op::ReduceScatter) == some * reduce_scatters);
    CHECK(traffic.total().calls == some * (all_reduces + all_gathers + reduce_scatters));
    CHECK(traffic.total().bytes == Approx(4 * share * elements));
    traffic.clear();
  };
  for (const AttentionSizes& z : all_sizes)
    for (const int64_t S : {7, 2}) {
      const Makes makes(z);
      const Shape shape = {B, S, z.hidden};
      const double x = B * S * z.hidden, q = B * S * z.heads * z.head_dim, kv = B * S * z.kv_heads * z.head_dim;
      // By hand: the pair around it makes the layout once. Without: each projection reduces for itself.
      const auto run = [&](const Way& way, const Placement& outside, const ConjugatePair* pair) {
        const auto attention = makes.sharded(tp, way);
        initialize(*attention, 11);
        const Tensor own = part_of(random("x", shape), tp, outside);
        traffic.clear();
        DTensor in = backend().clone(own);
        if (pair) in = DTensor::from_local(pair->forward(backend(), tp.comm(), own, shape), tp, {Replicate()});
        attention->forward(std::move(in));
        const Traffic forward = std::exchange(traffic, {});
        const DTensor dx = attention->backward(part_of(random("dy", shape), tp, outside));
        if (pair) pair->backward(backend(), tp.comm(), dx.local(), shape);
        return std::pair(forward, std::exchange(traffic, {}));
      };
      const auto check = [&](const char* name, const std::pair<Traffic, Traffic>& sent,
                             const std::array<double, 4>& forward, const std::array<double, 4>& backward) {
        INFO(shown(z) << ", S " << S << ": " << name);
        for (const bool back : {false, true}) {
          traffic = back ? sent.second : sent.first;
          const auto& e = back ? backward : forward;
          check_sent(back ? "backward" : "forward", int64_t(e[0]), int64_t(e[1]), int64_t(e[2]), e[3]);
        }
      };
      const auto all = ways();
      check("heads, plain", run(all[0], Replicate(), nullptr), {1, 0, 0, 2 * x}, {3, 0, 0, 6 * x});
      check("heads, shared", run(all[0], Replicate(), &f), {1, 0, 0, 2 * x}, {1, 0, 0, 2 * x});
      check("heads, slices", run(all[2], Shard(1), &gather), {0, 1, 1, 2 * x}, {0, 1, 1, 2 * x});
      check("article, shared", run(all[4], Replicate(), &f), {1, 3, 0, q + 2 * kv + 2 * x}, {1, 1, 0, q + 2 * x});
      check("article, slices", run(all[6], Shard(1), &gather), {0, 4, 1, q + 2 * kv + 2 * x}, {0, 2, 1, q + 2 * x});
    }
}

TEST_CASE("heads that do not divide are cut by key/value group, any count of ranks works (B36)", "[B36]") {
  const auto given = the_case("B36")["input"]["Hq_Hkv_tp"];
  CHECK(given.size() >= 6);
  for (const auto& entry : given) {
    const AttentionSizes sizes = {6, entry[0], entry[1], 2};
    const int64_t ranks = entry[2], H = sizes.heads, K = sizes.kv_heads, D = sizes.head_dim;
    INFO(shown(sizes) << ", the case's tp is " << ranks);
    for (int64_t r = 0; r < ranks; ++r) {
      const auto rows = [&](int64_t n, int64_t block) {
        return local_box({ranks}, {r}, {Shard(0, block)}, {n}).size[0];
      };
      const int64_t q = rows(H * D, sizes.query_block()), kv = rows(K * D, sizes.kv_block());
      CHECK(q % D == 0);
      CHECK(kv % D == 0);
      CHECK(q * K == kv * H);
      const int64_t full = (K + ranks - 1) / ranks;  // torch.chunk's
      CHECK(kv / D == std::clamp<int64_t>(K - r * full, 0, full));
    }
    const DeviceMesh tp = tp_mesh();
    const Makes makes(sizes);
    for (const Way& way : ways()) {
      INFO(way.name);
      const auto serial = makes.serial(), sharded = makes.sharded(tp, way);
      initialize(*serial, 2), initialize(*sharded, 2);
      check_module(*serial, *sharded, tp, random("x", {2, 5, 6}), random("dy", {2, 5, 6}), way.check);
    }
  }
  const auto refuses = [](const AttentionSizes& sizes, const std::string& words) {
    const Makes makes({6, 2, 1, 2});
    CHECK_THROWS_WITH(Attention(backend(), sizes, makes.rope, makes.context), Catch::Matchers::Contains(words));
    CHECK_THROWS_AS(Attention(backend(), sizes, makes.rope, makes.context), SharedError);
  };
  refuses({6, 10, 3, 2}, "10 query heads cannot share 3 key/value heads");
  refuses({6, 4, 0, 2}, "key/value heads 0");
  refuses({6, -4, 2, 2}, "heads -4");
  CHECK_THROWS_WITH(RopeTable(backend(), 8, 5), Catch::Matchers::Contains("a head of 5 elements is odd"));
}

TEST_CASE("rows of q and k cut in the middle of a head or a group are refused") {
  const DeviceMesh tp = tp_mesh();
  const Makes makes({12, 12, 3, 4});
  Way even = ways()[0];
  const auto attention = makes.serial();
  ColwiseParallel().apply(attention->q_proj, tp);  // 48 rows: at 2 ranks 24 + 24, six heads
  ColwiseParallel().apply(attention->k_proj, tp);  // 12 rows: at 2 ranks 6 + 6, a head and a half
  ColwiseParallel().apply(attention->v_proj, tp);
  RowwiseParallel().apply(attention->o_proj, tp);
  initialize(*attention, 3);
  if (tp.size() == 2)
    CHECK_THROWS_WITH(attention->forward(random("x", {1, 3, 12})),
                      Catch::Matchers::Contains("a rank got 6 columns of a projection, not whole heads of 4"));
  if (tp.size() == 1 || tp.size() == 3) CHECK_NOTHROW(attention->forward(random("x", {1, 3, 12})));
}

TEST_CASE("a shared key/value head gets the gradient of all its query heads (B06)") {
  const auto given = the_case("B06");
  const auto& in = given["input"];
  const auto column = [](const nlohmann::json& values) {
    const auto v = values.get<std::vector<float>>();
    return backend().from_host(v, {1, std::ssize(v), 1, 1});
  };
  // q and dO [1,2,2,1]: 0 at position 0.
  const auto at_position_1 = [](const nlohmann::json& values) {
    return backend().from_host(std::vector<float>{0, 0, values[0], values[1]}, {1, 2, 2, 1});
  };
  const Tensor q = at_position_1(in["Q_at_position_1"]), dy = at_position_1(in["dO_at_position_1"]);
  const Tensor k = column(in["K"]), v = column(in["V"]);
  Tensor y = backend().empty(q.shape()), lse = backend().empty({1, 2, 2});
  backend().attention(q, k, v, nullptr, y, lse);
  Tensor dq = backend().empty(q.shape()), dk = backend().empty(k.shape()), dv = backend().empty(v.shape());
  backend().attention_backward(dy, q, k, v, nullptr, y, lse, dq, dk, dv);
  CHECK(differs(dk, column(given["right"]["dK"]), 1e-6) == "");
  CHECK(differs(dv, column(given["right"]["dV"]), 1e-6) == "");

  // (b) at every rank count here: no rank shares a head with another, so none needs another's gradient.
  const DeviceMesh tp = tp_mesh();
  for (const int64_t kv_heads : {1, 2}) {
    const Makes makes({16, 4, kv_heads, 4});
    for (const Way& way : ways()) {
      INFO(kv_heads << " key/value heads, " << way.name);
      const auto serial = makes.serial(), sharded = makes.sharded(tp, way);
      initialize(*serial, 7), initialize(*sharded, 7);
      check_module(*serial, *sharded, tp, random("x", {2, 5, 16}), random("dy", {2, 5, 16}), way.check);
      if (way.cut != Cut::Heads) continue;
      int64_t holders = 0;
      for (int64_t r = 0; r < tp.size(); ++r) holders += chunk(kv_heads * 4, tp.size(), r, 4).size > 0;
      CHECK(tp.comm().sum(sharded->k_proj.weight.box().size[0]) == kv_heads * 4);
      CHECK(tp.comm().sum(sharded->k_proj.weight.box().size[0] > 0) == holders);
    }
  }
}

TEST_CASE("query head h reads key/value head h / G (B39)") {
  const auto given = the_case("B39");
  const int64_t H = given["input"]["Hq"], K = given["input"]["Hkv"], D = given["input"]["hd"], S = given["input"]["S"];
  const DeviceMesh tp = tp_mesh();
  // x's feature 0 is 1, so a weight's column 0 is what it adds: v_proj gives h all over head h. o_proj changes nothing.
  const int64_t E = H * D;
  const Makes makes({E, H, K, D});
  std::vector<float> v(K * D * E), one(E * E);
  for (int64_t i = 0; i < K * D; ++i) v[i * E] = static_cast<float>(i / D);
  for (int64_t i = 0; i < E; ++i) one[i * E + i] = 1;
  const Rng rng(9, "x");
  const Tensor x = make({2, S, E}, [&](int64_t i) { return i % E == 0 ? 1.0F : static_cast<float>(rng.normal(i)); });
  const auto right = given["right"]["head_value"].get<std::vector<float>>();
  const Tensor expected = make({2, S, E}, [&](int64_t i) { return right[i % E / D]; });
  const auto run = [&](std::unique_ptr<Attention> attention) {
    initialize(*attention, 4);
    attention->v_proj.weight.fill(v);
    attention->o_proj.weight.fill(one);
    CHECK(differs(attention->forward(backend().clone(x)).local(), expected, 1e-6) == "");
  };
  run(makes.serial());
  run(makes.sharded(tp, ways()[0]));
  run(makes.sharded(tp, ways()[4]));
}

TEST_CASE("RoPE turns element i with element i + D/2 (B22)") {
  const auto given = the_case("B22");
  const int64_t D = given["input"]["hd"];
  const RopeTable table(backend(), 4, D, given["input"]["theta"]);
  Tensor x = backend().from_host(given["input"]["x"].get<std::vector<float>>(), {1, 1, 1, D});
  backend().rope(x, table.cos, table.sin, backend().from_host(std::vector<int32_t>{given["input"]["position"]}, {1}),
                 false);
  CHECK(differs(backend().to_host(x), given["right"]["half_split"].get<std::vector<float>>(), {D}, 1e-6) == "");
}

TEST_CASE("the two orders of RoPE's rows are each other's inverse, head by head, and give the same (B22)") {
  const auto given = the_case("B22");
  const auto &in = given["input"], &right = given["right"], &faulty = given["faulty"];
  using Rows = std::vector<int64_t>;
  const int64_t D = in["hd_of_rows"], H = in["Hq"], K = in["Hkv"];
  CHECK(half_split_rows(1, D) == right["order"].get<Rows>());
  CHECK(interleaved_rows(1, D) == right["inverse"].get<Rows>());
  CHECK(half_split_rows(K, D) == right["k_order"].get<Rows>());
  CHECK(half_split_rows(H, K * D / H) == faulty["k_order_with_Hq"].get<Rows>());  // k's rows taken for q's heads
  CHECK(half_split_rows(0, D).empty());

  // Interleaved RoPE turns 1 with 2, and 3 with 4: what another library gives for the same numbers in its own order.
  const int64_t hd = in["hd"];
  const RopeTable table(backend(), 4, hd, in["theta"]);
  const auto x = floats_of(in["x"]);
  std::vector<float> sorted, turned;
  for (const int64_t r : half_split_rows(1, hd)) sorted.push_back(x[r]);
  Tensor t = backend().from_host(sorted, {1, 1, 1, hd});
  backend().rope(t, table.cos, table.sin, ids_of(nlohmann::json::array({in["position"]})), false);
  for (const int64_t r : interleaved_rows(1, hd)) turned.push_back(backend().to_host(t)[r]);
  CHECK(differs(turned, floats_of(faulty["interleaved"]), {hd}, 1e-6) == "");
}

TEST_CASE("positions end with the table: refused on every rank with both numbers (B44)") {
  const DeviceMesh tp = tp_mesh();
  const AttentionSizes sizes = {6, 4, 2, 2};
  const int64_t limit = 16;
  for (const Way& way : ways()) {
    if (way.sliced_input) continue;
    INFO(way.name);
    const Makes makes(sizes, limit);
    const auto attention = makes.sharded(tp, way);
    initialize(*attention, 5);
    const auto run = [&](int64_t S) {
      DTensor x = random("x", {2, S, 6});
      if (way.check.with_layout) x = DTensor::from_local(x, tp, {Replicate()}, Shape{2, S, 6});
      return attention->forward(x).global()[1];
    };
    CHECK_NOTHROW(run(limit));
    CHECK_THROWS_AS(run(limit + 1), SharedError);
    CHECK_THROWS_WITH(run(limit + 1), Catch::Matchers::Contains("17") && Catch::Matchers::Contains("16"));
    makes.context->offset = 9;
    CHECK_NOTHROW(run(7));
    CHECK_THROWS_WITH(run(8), Catch::Matchers::Contains("17") && Catch::Matchers::Contains("16"));
    makes.context->offset = 0;
    CHECK_NOTHROW(run(0));
    // One by one: the 17th token is refused, and the cache is as it was.
    attention->set_training(false);
    makes.context->cache = true;
    for (makes.context->offset = 0; makes.context->offset < limit; ++makes.context->offset) CHECK_NOTHROW(run(1));
    CHECK_THROWS_WITH(run(1), Catch::Matchers::Contains("17") && Catch::Matchers::Contains("16"));
  }
}

TEST_CASE("causal: a token changes nothing before it, and padding changes nothing at all") {
  const DeviceMesh tp = tp_mesh();
  const int64_t B = 3, S = 9, changed = 4;
  for (const AttentionSizes& sizes : all_sizes)
    for (const Way& way : {ways()[0], ways()[4]}) {
      INFO(shown(sizes) << ": " << way.name);
      const int64_t E = sizes.hidden;
      const Makes makes(sizes);
      const auto attention = makes.sharded(tp, way);
      initialize(*attention, 8);
      const Tensor x = random("x", {B, S, E});
      const Tensor other = make({B, S, E}, [&, values = backend().to_host(x)](int64_t i) {
        return i / E % S == changed ? -2 * values[i] + 1 : values[i];
      });
      const auto y = [&](const Tensor& in) { return attention->forward(backend().clone(in)).take(backend()); };
      const Tensor before = y(x), after = y(other);
      CHECK(differs(backend().slice(after, 1, 0, changed), backend().slice(before, 1, 0, changed)) == "");
      for (int64_t s = changed; s < S; ++s)
        CHECK(differs(backend().slice(after, 1, s, 1), backend().slice(before, 1, s, 1), 1e-3) != "");

      // The same token hidden: now it does not matter, and gives 0 itself. The last sequence is hidden altogether.
      std::vector<int32_t> counts(B * S, 1);
      for (int64_t i = 0; i < B * S; ++i) counts[i] = i % S != changed && i / S != B - 1;
      const Tensor attend = backend().from_host(counts, {B, S});
      makes.context->attend = &attend;
      const Tensor hidden = y(x), hidden_other = y(other);
      CHECK(differs(hidden_other, hidden) == "");
      CHECK(differs(backend().slice(hidden, 1, changed, 1), backend().zeros({B, 1, E})) == "");
      CHECK(differs(backend().slice(hidden, 0, B - 1, 1), backend().zeros({1, S, E})) == "");
      for (int64_t s = changed + 1; s < S; ++s)
        CHECK(differs(backend().slice(hidden, 1, s, 1), backend().slice(before, 1, s, 1), 1e-3) != "");
    }
}

TEST_CASE("with the cache, token by token or in pieces equals the whole") {
  Traffic traffic;
  Recorder seen(world(), traffic);
  const DeviceMesh tp = tp_mesh(seen);
  const int64_t B = 2, S = 9;
  const double share = (world().size() - 1.0) / world().size();
  for (const AttentionSizes& sizes : all_sizes)
    for (const bool padded : {false, true}) {
      const Makes makes(sizes);
      const int64_t E = sizes.hidden;
      // Padding on the left of sequence 1, as a prompt that is shorter than the other has it.
      std::vector<int32_t> counts(B * S, 1);
      for (int64_t s = 0; s < 3; ++s) counts[S + s] = 0;
      const Tensor attend = backend().from_host(counts, {B, S}), x = random("x", {B, S, E});
      const auto serial = makes.serial();
      initialize(*serial, 13);
      makes.context->attend = padded ? &attend : nullptr;
      const Tensor whole = serial->forward(backend().clone(x)).take(backend());
      const auto in_pieces = [&](Attention& attention, const std::vector<int64_t>& pieces) {
        attention.set_training(false);
        attention.forget_cache();
        *makes.context = {.cache = true};
        for (const int64_t n : pieces) {
          const int64_t end = makes.context->offset + n;
          const Tensor seen_mask = backend().slice(attend, 1, 0, end);
          makes.context->attend = padded ? &seen_mask : nullptr;
          const DTensor y = attention.forward(backend().slice(x, 1, makes.context->offset, n));
          INFO("tokens " << makes.context->offset << " to " << end - 1);
          CHECK(differs(y.local(), backend().slice(whole, 1, makes.context->offset, n), 1e-5) == "");
          makes.context->offset = end;
        }
        *makes.context = {};
      };
      const std::vector<int64_t> one_by_one(S, 1);
      for (const auto& pieces : {one_by_one, std::vector<int64_t>{4, 1, 1, 3}, std::vector<int64_t>{S}}) {
        INFO(shown(sizes) << (padded ? ", padded" : "") << ", first piece " << pieces[0]);
        in_pieces(*serial, pieces);
        for (const Way& way : {ways()[0], ways()[4]}) {
          INFO(way.name);
          const auto sharded = makes.sharded(tp, way);
          initialize(*sharded, 13);
          traffic.clear();
          in_pieces(*sharded, pieces);
          if (way.cut == Cut::Heads) {
            CHECK(traffic.total().calls == (world().size() > 1 ? std::ssize(pieces) : 0));
            CHECK(traffic.total().bytes == Approx(2 * share * 4 * B * S * E));
          }
        }
      }
    }
}

TEST_CASE("a cache that does not fit the next call is refused") {
  const Makes makes({6, 4, 2, 2});
  const auto attention = makes.serial();
  initialize(*attention, 5);
  makes.context->cache = true;
  const auto token = [] { return random("x", {2, 1, 6}); };
  CHECK_THROWS_WITH(attention->forward(token()), Catch::Matchers::Contains("set_training(false)"));
  attention->set_training(false);
  CHECK_NOTHROW(attention->forward(token()));
  CHECK_THROWS_WITH(attention->forward(token()),
                    Catch::Matchers::Contains("the cache holds 1 tokens, the next call is to continue at 0"));
  attention->forget_cache();
  CHECK_NOTHROW(attention->forward(token()));
  attention->set_training(true);
  CHECK_THROWS_WITH(attention->backward(token()), Catch::Matchers::Contains("backward without a forward"));
}

TEST_CASE("attention's memory is linear in the sequence") {
  const AttentionSizes sizes = {8, 6, 2, 4};
  const auto peak = [&](int64_t S) {
    const Makes makes(sizes, S);
    const auto attention = makes.serial();
    initialize(*attention, 6);
    Tensor x = random("x", {1, S, 8}), dy = random("dy", {1, S, 8});
    const int64_t before = backend().memory_use().now;
    backend().reset_peak();
    attention->forward(std::move(x));
    attention->backward(std::move(dy));
    return backend().memory_use().peak - before;
  };
  const int64_t S = 128, once = peak(S), twice = peak(2 * S), four_times = peak(4 * S);
  CAPTURE(once, twice, four_times);
  CHECK(twice > once);
  CHECK(double(four_times - twice) / double(twice - once) == Approx(2).epsilon(0.05));  // 4 if it were quadratic
}

}  // namespace course::test
