#include "tests/common/comm/conforms.hpp"

#include <cstring>
#include <numeric>
#include <type_traits>

#include "common/chunk.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

namespace course::test {
namespace {

// Element i of what rank r brings to the test `name`: an integer in -1000..1000, so that sums are exact in every type.
// 64-bit types get another million million or so, which no 32-bit number holds.
template <typename T>
T value(const std::string& name, int r, int64_t i) {
  if constexpr (std::is_same_v<T, BFloat16>)  // whole numbers up to 256 are exact
    return BFloat16(static_cast<float>(Rng(7, cat(name, " of rank ", r)).bits(i) % 63) - 31);
  const auto small = static_cast<int64_t>(Rng(7, cat(name, " of rank ", r)).bits(i) % 2001) - 1000;
  if constexpr (sizeof(T) == 8) return static_cast<T>(small * 1'000'000'007'003);
  if constexpr (std::is_same_v<T, uint16_t>) return static_cast<T>(small * 31);  // bf16: bits that only travel
  return static_cast<T>(small);
}

// A tensor of T; uint16_t stands for bf16.
template <typename T>
Tensor tensor(const std::vector<T>& values, Shape shape) {
  if constexpr (std::is_same_v<T, uint16_t>) {
    Tensor x = backend().empty(std::move(shape), DType::BF16);
    backend().copy_in(x, values.data());
    return x;
  } else {
    return backend().from_host(values, std::move(shape));
  }
}

template <typename T>
std::vector<T> values_of(const Tensor& x) {
  std::vector<T> values(x.numel());
  backend().copy_out(x, values.data());
  return values;
}

template <typename T>
std::vector<T> values(const std::string& name, int r, int64_t n, int64_t begin = 0) {
  std::vector<T> all(n);
  for (int64_t i = 0; i < n; ++i) all[i] = value<T>(name, r, begin + i);
  return all;
}

template <typename T>
std::vector<T> summed(const std::string& name, int ranks, int64_t n, Reduce op = Reduce::Sum) {
  auto all = values<T>(name, 0, n);
  for (int r = 1; r < ranks; ++r)
    for (int64_t i = 0; i < n; ++i) {
      const T x = value<T>(name, r, i);
      all[i] = op == Reduce::Sum ? static_cast<T>(all[i] + x) : std::max(all[i], x);
    }
  return all;
}

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

int64_t sum_of(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

// Even, torch.chunk with a short and with empty last pieces, and pieces of which one in the middle is empty; many and
// none.
std::vector<Counts> ways_to_cut(int ranks) {
  std::vector<Counts> ways;
  for (const int64_t n : {0, 1, 2, 5, 12, 4099}) ways.push_back(chunk_sizes(n, ranks, 1, 3));
  ways.push_back(Counts(ranks));
  for (int r = 0; r < ranks; ++r) ways.back()[r] = (3 * r + 4) % 7;  // 4, 0, 3, 6, 2, 5, 1
  ways.push_back(Counts(ranks, 0));
  ways.back()[ranks - 1] = 9;
  return ways;
}

template <typename T>
void moves(Comm& comm) {
  const int P = comm.size(), r = comm.rank();
  INFO("type " << name_of(tensor<T>({}, {0}).dtype()) << ", rank " << r << " of " << P);

  for (const int64_t n : {0, 1, 7, 5000})
    for (int root = 0; root < P; ++root) {
      Tensor x = tensor(values<T>("broadcast", r, n), {n});
      comm.broadcast(x, root).wait();
      CHECK(values_of<T>(x) == values<T>("broadcast", root, n));
    }

  for (const Counts& counts : ways_to_cut(P)) {
    const Tensor shard = tensor(values<T>("all-gather", r, counts[r]), {counts[r]});
    Tensor whole = tensor(values<T>("before", r, sum_of(counts)), {sum_of(counts)});
    comm.all_gather(shard, whole, counts).wait();
    std::vector<T> expected;
    for (int s = 0; s < P; ++s) append(expected, values<T>("all-gather", s, counts[s]));
    CHECK(values_of<T>(whole) == expected);
    CHECK(values_of<T>(shard) == values<T>("all-gather", r, counts[r]));
  }

  for (const int64_t each : {0, 1, 3, 700}) {  // rank a sends (2a + 3b) % 4 · each elements to rank b: some send none
    const auto count = [&](int a, int b) { return (2 * a + 3 * b + 1) % 4 * each; };
    Counts out(P), in(P);
    for (int s = 0; s < P; ++s) out[s] = count(r, s), in[s] = count(s, r);
    const Tensor send = tensor(values<T>("all-to-all", r, sum_of(out)), {sum_of(out)});
    Tensor receive = tensor(values<T>("before", r, sum_of(in)), {sum_of(in)});
    comm.all_to_all(send, out, receive, in).wait();
    std::vector<T> expected;
    for (int s = 0; s < P; ++s) {
      int64_t begin = 0;
      for (int before = 0; before < r; ++before) begin += count(s, before);
      append(expected, values<T>("all-to-all", s, in[s], begin));
    }
    CHECK(values_of<T>(receive) == expected);
  }

  if (P == 1) return;
  for (const int64_t n : {0, 1, 30000})
    for (int distance = 1; distance < P;
         ++distance) {  // two messages each way; they arrive in the order they were sent
      const int to = (r + distance) % P, from = (r + P - distance) % P;
      Tensor first = tensor(std::vector<T>(n), {n}), second = tensor(std::vector<T>(n), {n});
      Work one = comm.recv(first, from), two = comm.recv(second, from);
      const Tensor a = tensor(values<T>("send 1", r, n), {n}), b = tensor(values<T>("send 2", r, n), {n});
      Work three = comm.send(a, to), four = comm.send(b, to);
      four.wait(), three.wait(), two.wait(), one.wait();
      CHECK(values_of<T>(first) == values<T>("send 1", from, n));
      CHECK(values_of<T>(second) == values<T>("send 2", from, n));
    }
}

template <typename T>
void adds(Comm& comm) {
  const int P = comm.size(), r = comm.rank();
  INFO("type " << name_of(dtype_of<T>()) << ", rank " << r << " of " << P);
  for (const Reduce op : {Reduce::Sum, Reduce::Max})
    for (const int64_t n : {0, 1, 3, 5001}) {
      INFO((op == Reduce::Sum ? "sum of " : "max of ") << n);
      Tensor x = tensor(values<T>("all-reduce", r, 2 * n), {n, 2});
      comm.all_reduce(x, op).wait();
      CHECK(values_of<T>(x) == summed<T>("all-reduce", P, 2 * n, op));
      CHECK(x.shape() == Shape{n, 2});
    }

  for (const Counts& counts : ways_to_cut(P)) {
    const int64_t n = sum_of(counts), begin = std::accumulate(counts.begin(), counts.begin() + r, int64_t{0});
    const Tensor whole = tensor(values<T>("reduce-scatter", r, n), {n});
    Tensor shard = tensor(values<T>("before", r, counts[r]), {counts[r]});
    comm.reduce_scatter(whole, shard, counts).wait();
    const auto all = summed<T>("reduce-scatter", P, n);
    CHECK(values_of<T>(shard) == std::vector<T>(all.begin() + begin, all.begin() + begin + counts[r]));
    CHECK(values_of<T>(whole) == values<T>("reduce-scatter", r, n));
  }
}

// The largest of numbers below zero is not zero.
void takes_the_maximum(Comm& comm) {
  auto low = [](int r) { return -3.5 - ((r * 5 + 2) % 7); };
  double highest = low(0), total = 0;
  for (int r = 0; r < comm.size(); ++r) highest = std::max(highest, low(r)), total += low(r);
  CHECK(comm.max(low(comm.rank())) == highest);
  CHECK(comm.sum(low(comm.rank())) == total);
}

template <typename T>
void takes_values_of_the_host(Comm& comm) {
  const int P = comm.size(), r = comm.rank();
  auto x = values<T>("host", r, 11);
  comm.all_reduce(std::span(x)).wait();
  CHECK(x == summed<T>("host", P, 11));
  comm.all_reduce(std::span(x), Reduce::Max).wait();
  CHECK(x == summed<T>("host", P, 11));

  for (int root = 0; root < P; ++root) {
    auto y = values<T>("host broadcast", r, 6);
    comm.broadcast(std::span(y), root).wait();
    CHECK(y == values<T>("host broadcast", root, 6));
  }

  const Counts counts = chunk_sizes(2 * P - 1, P);
  const auto shard = values<T>("host all-gather", r, counts[r]);
  std::vector<T> whole(2 * P - 1), expected;
  comm.all_gather(std::span<const T>(shard), std::span(whole), counts).wait();
  for (int s = 0; s < P; ++s) append(expected, values<T>("host all-gather", s, counts[s]));
  CHECK(whole == expected);
}

void carries_texts(Comm& comm) {
  const auto text = [](int r) {
    return r % 3 == 1 ? std::string() : cat("rang ", r, ": größer\n", std::string(1, '\0'), std::string(700 * r, 'x'));
  };
  for (int root = 0; root < comm.size(); ++root)
    CHECK(comm.broadcast_text(comm.rank() == root ? text(root) : "not this", root) == text(root));
  const auto all = comm.all_gather_text(text(comm.rank()));
  CHECK(static_cast<int>(all.size()) == comm.size());
  for (int r = 0; r < static_cast<int>(all.size()); ++r) CHECK(all[r] == text(r));
}

// Real numbers round differently in another order of additions, so this sees a rank that adds in an order of its own.
void gives_all_ranks_the_same_bits(Comm& comm) {
  const int P = comm.size();
  for (const int64_t n : {1, 5, 300, 20011}) {
    Tensor x = random(cat("bits of rank ", comm.rank()), {n}, 1000);
    comm.all_reduce(x).wait();
    Tensor all = backend().empty({P * n});
    comm.all_gather(x, all, Counts(P, n)).wait();
    const auto mine = values_of<float>(x), theirs = values_of<float>(all);
    for (int r = 0; r < P; ++r) CHECK(std::memcmp(mine.data(), theirs.data() + r * n, n * sizeof(float)) == 0);

    std::vector<double> sum(n);
    for (int r = 0; r < P; ++r) {
      const auto part = values_of<float>(random(cat("bits of rank ", r), {n}, 1000));
      for (int64_t i = 0; i < n; ++i) sum[i] += part[i];
    }
    CHECK(differs(mine, std::vector<float>(sum.begin(), sum.end()), {n}, 1e-6) == "");
  }
}

void keeps_calls_under_way_apart(Comm& comm) {
  const int P = comm.size(), r = comm.rank();
  Tensor x = tensor(values<float>("way x", r, 900), {900}), y = tensor(values<float>("way y", r, 900), {900});
  Tensor z = tensor(values<float>("way z", r, 5), {5});
  Work first = comm.all_reduce(x), second = comm.broadcast(y, P - 1), third = comm.all_reduce(z, Reduce::Max);
  third.wait(), first.wait();
  while (!second.test()) {
  }
  CHECK(second.test());
  second.wait();
  CHECK(values_of<float>(x) == summed<float>("way x", P, 900));
  CHECK(values_of<float>(y) == values<float>("way y", P - 1, 900));
  CHECK(values_of<float>(z) == summed<float>("way z", P, 5, Reduce::Max));

  Tensor dropped = tensor(values<float>("dropped", r, 400), {400});
  { const Work forgotten = comm.all_reduce(dropped); }  // a Work that goes waits
  CHECK(values_of<float>(dropped) == summed<float>("dropped", P, 400));
  Tensor moved = tensor(values<float>("moved", r, 400), {400});
  Work from = comm.all_reduce(moved), to = std::move(from);
  from.wait(), to.wait();
  CHECK(values_of<float>(moved) == summed<float>("moved", P, 400));
}

// Group `part` holds these ranks of `comm`, in this order.
void is_group_of(Comm& comm, Comm& part, const std::vector<int>& members, const std::string& name) {
  CHECK(part.name() == name);
  CHECK(part.size() == static_cast<int>(members.size()));
  CHECK(members.at(part.rank()) == comm.rank());
  Tensor x = tensor(values<float>(name, comm.rank(), 33), {33});
  part.all_reduce(x).wait();
  std::vector<float> sum(33);
  for (const int r : members)
    for (int i = 0; i < 33; ++i) sum[i] += value<float>(name, r, i);
  CHECK(values_of<float>(x) == sum);
  std::vector<int64_t> order(members.size());
  const int64_t mine = comm.rank();
  part.all_gather(std::span(&mine, 1), std::span(order), Counts(members.size(), 1)).wait();
  CHECK(order == std::vector<int64_t>(members.begin(), members.end()));
}

void splits(Comm& comm) {
  const int P = comm.size(), r = comm.rank();
  std::vector<int> parity, everyone, halves;
  for (int s = P - 1; s >= 0; --s)
    if (s % 2 == r % 2) parity.push_back(s);
  for (int s = 0; s < P; ++s) everyone.push_back(s);

  const auto by_parity = comm.split(r % 2, -r, "parity");  // the last rank first
  is_group_of(comm, *by_parity, parity, "parity");
  const auto all = comm.split(0, 0, "all");  // equal keys: by rank
  is_group_of(comm, *all, everyone, "all");
  const auto alone = comm.split(r, 0, "alone");
  is_group_of(comm, *alone, {r}, "alone");
  const auto nested = by_parity->split(by_parity->rank() / 2, 0, "nested");
  const int at = by_parity->rank() / 2 * 2;
  halves = {parity[at]};
  if (at + 1 < static_cast<int>(parity.size())) halves.push_back(parity[at + 1]);
  is_group_of(comm, *nested, halves, "nested");

  // A group of one copies and goes on.
  const Tensor x = tensor(values<int32_t>("one", r, 8), {8});
  Tensor y = tensor(std::vector<int32_t>(8), {8});
  alone->all_gather(x, y, {8}).wait();
  CHECK(values_of<int32_t>(y) == values<int32_t>("one", r, 8));
  Tensor z = tensor(std::vector<int32_t>(8), {8});
  alone->reduce_scatter(x, z, {8}).wait();
  CHECK(values_of<int32_t>(z) == values<int32_t>("one", r, 8));
  Tensor w = tensor(std::vector<int32_t>(8), {8});
  alone->all_to_all(x, {8}, w, {8}).wait();
  CHECK(values_of<int32_t>(w) == values<int32_t>("one", r, 8));
  alone->broadcast(w, 0).wait();
  alone->barrier().wait();
  CHECK(alone->sum(2.5) == 2.5);

  // A call of the world and one of a group, both under way.
  Tensor of_world = tensor(values<float>("of world", r, 64), {64});
  Tensor of_group = tensor(values<float>("of group", r, 64), {64});
  Work a = comm.all_reduce(of_world), b = all->all_reduce(of_group);
  b.wait(), a.wait();
  CHECK(values_of<float>(of_world) == summed<float>("of world", P, 64));
  CHECK(values_of<float>(of_group) == summed<float>("of group", P, 64));
}

// The message of what `call` throws; "" where it does not.
template <typename Call>
std::string refusal(const Call& call) {
  try {
    call().wait();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Every rank makes the same wrong call, so none waits for another.
void refuses_wrong_arguments(Comm& comm) {
  const int P = comm.size(), r = comm.rank();
  Tensor x = backend().empty({4}), y = backend().empty({4 * P}), i = backend().empty({4 * P}, DType::I32);
  const Counts right(P, 4), few(P + 1, 0);
  Counts more = right;
  more[P - 1] += 2;
  const auto contains = [](const std::string& words) { return Catch::Matchers::Contains(words); };
  CHECK_THAT(refusal([&] { return comm.all_gather(x, y, more); }), contains(cat("add up to ", 4 * P + 2)));
  CHECK_THAT(refusal([&] { return comm.all_gather(x, y, few); }), contains(cat(P + 1, " counts for ", P, " ranks")));
  CHECK_THAT(refusal([&] { return comm.all_gather(x, i, right); }), contains("f32 sent, i32 received"));
  CHECK_THAT(refusal([&] { return comm.reduce_scatter(y, x, more); }), contains(cat("add up to ", 4 * P + 2)));
  CHECK_THAT(refusal([&] { return comm.reduce_scatter(y, x, few); }),
             contains(cat(P + 1, " counts for ", P, " ranks")));
  CHECK_THAT(refusal([&] { return comm.reduce_scatter(i, x, right); }), contains("i32 sent, f32 received"));
  Tensor five = backend().empty({5});
  CHECK_THAT(refusal([&] { return comm.all_gather(five, y, right); }), contains("its shard has 5"));
  CHECK_THAT(refusal([&] { return comm.reduce_scatter(y, five, right); }), contains("its shard has 5"));
  Tensor z = backend().empty({4 * P});
  CHECK_THAT(refusal([&] { return comm.all_to_all(y, right, z, more); }), contains("counts add up to"));
  CHECK_THAT(refusal([&] { return comm.all_to_all(y, more, z, right); }), contains("counts add up to"));
  CHECK_THAT(refusal([&] { return comm.all_to_all(y, few, z, right); }), contains(cat("counts for ", P, " ranks")));
  CHECK_THAT(refusal([&] { return comm.all_to_all(y, right, i, right); }), contains("f32 sent, i32 received"));
  if (P > 1) {
    Counts shifted = right;  // the same sum, another size for myself
    ++shifted[r], --shifted[(r + 1) % P];
    CHECK_THAT(refusal([&] { return comm.all_to_all(y, shifted, z, right); }), contains("sends itself 5"));
  }
  CHECK_THAT(refusal([&] { return comm.broadcast(x, P); }), contains(cat("no rank ", P, " among ", P)));
  CHECK_THAT(refusal([&] { return comm.broadcast(x, -1); }), contains("no rank -1"));
  CHECK_THAT(refusal([&] { return comm.send(x, r); }), contains("cannot send to rank"));
  CHECK_THAT(refusal([&] { return comm.send(x, P); }), contains("cannot send to rank"));
  CHECK_THAT(refusal([&] { return comm.recv(x, r); }), contains("cannot receive from rank"));
  CHECK_THAT(refusal([&] { return comm.recv(x, -1); }), contains("cannot receive from rank"));
  CHECK(comm.sum(1) == P);  // and all are still in step
}

}  // namespace

void conforms(Comm& comm) {
  moves<float>(comm);
  moves<int32_t>(comm);
  moves<int64_t>(comm);
  moves<double>(comm);
  moves<uint8_t>(comm);
  moves<uint16_t>(comm);  // bf16
  adds<float>(comm);
  adds<int32_t>(comm);
  adds<int64_t>(comm);
  adds<double>(comm);
  adds<BFloat16>(comm);
  takes_the_maximum(comm);
  takes_values_of_the_host<float>(comm);
  takes_values_of_the_host<int32_t>(comm);
  takes_values_of_the_host<int64_t>(comm);
  takes_values_of_the_host<double>(comm);
  carries_texts(comm);
  gives_all_ranks_the_same_bits(comm);
  keeps_calls_under_way_apart(comm);
  splits(comm);
  refuses_wrong_arguments(comm);
  comm.barrier().wait();
}

void takes_two_groups_in_any_order(Comm& comm, int rounds) {
  const int P = comm.size(), r = comm.rank();
  const auto turned = comm.split(0, P - 1 - r, "turned");
  for (int round = 0; round < rounds; ++round) {
    Tensor x = make({3}, [&](int64_t i) { return static_cast<float>(r + i); });
    Tensor y = make({2}, [&](int64_t i) { return static_cast<float>(r * i); });
    Work first = comm.all_reduce(x), second = turned->all_reduce(y);
    if ((round + r) % 2 == 0) {
      first.wait();
      second.wait();
    } else {
      second.wait();
      first.wait();
    }
    const int sum = P * (P - 1) / 2;
    CHECK(backend().to_host(x)[2] == static_cast<float>(sum + 2 * P));
    CHECK(backend().to_host(y)[1] == static_cast<float>(sum));
  }
}

}  // namespace course::test
