#include "chapters/02_collectives/examples.hpp"

#include "common/support/terminal.hpp"

namespace course {
namespace {

std::string numbers_text(const std::vector<float>& numbers, bool by_origin, int holder) {
  std::string text;
  for (const float number : numbers) {
    const int rank = by_origin ? static_cast<int>(number) / 10 - 1 : holder;
    text += (text.empty() ? "" : " ") + (rank < 0 ? cat(number) : in_colour_of(rank, cat(number)));
  }
  return text;
}

std::string words(const std::vector<float>& numbers) {
  std::string text;
  for (const float number : numbers) text += cat(number, " ");
  return text;
}

std::vector<float> read(const std::string& words) {
  std::istringstream in(words);
  std::vector<float> numbers;
  for (float number; in >> number;) numbers.push_back(number);
  return numbers;
}

}  // namespace

Tensor own_numbers(Backend& backend, const Comm& comm, int64_t n) {
  std::vector<float> numbers(n);
  for (int64_t i = 0; i < n; ++i) numbers[i] = number_of(comm.rank(), i);
  return backend.from_host(numbers, {n});
}

void draw_before_after(Session& session, const std::string& title, const Tensor& before, const Tensor& after,
                       bool moved) {
  Comm& world = session.world();
  const auto all_before = world.all_gather_text(words(session.backend().to_host(before)));
  const auto all_after = world.all_gather_text(words(session.backend().to_host(after)));
  session.out() << title << "\n";
  size_t width = 0;
  for (const auto& text : all_before) width = std::max(width, text.size());
  for (int r = 0; r < world.size(); ++r) {
    const std::string blanks(width - all_before[r].size(), ' ');
    session.out() << "  rank " << r << "   " << numbers_text(read(all_before[r]), false, r) << blanks << "   ->   "
                  << numbers_text(read(all_after[r]), moved, -1) << "\n";
  }
  session.out() << "\n";
}

void show_collectives(Session& session, Recorder& comm, Traffic& traffic, SentTable& sent) {
  Backend& backend = session.backend();
  const int P = comm.size(), r = comm.rank();
  const double share = (P - 1.0) / P, f32 = 4;
  const auto sum = [P](int64_t i) {
    float all = 0;
    for (int s = 0; s < P; ++s) all += number_of(s, i);
    return all;
  };
  // Runs a collective that turns before into after; element i of after should be expected(i).
  const auto show = [&](const std::string& title, const Tensor& before, Tensor& after, bool moved, double bytes,
                        const std::function<void()>& collective, const std::function<float(int64_t)>& expected) {
    traffic.clear();
    collective();
    sent.add(title.substr(0, title.find(':')), traffic.total(), P > 1 ? 1 : 0, bytes);
    draw_before_after(session, title, before, after, moved);
    together(comm, [&] {
      const auto got = backend.to_host(after);
      for (size_t i = 0; i < got.size(); ++i)
        require(got[i] == expected(i), title, ": number ", i, " is ", got[i], ", should be ", expected(i));
    });
  };

  const Tensor three = own_numbers(backend, comm, 3), two = own_numbers(backend, comm, 2);
  const Tensor each = own_numbers(backend, comm, P), twice = own_numbers(backend, comm, 2 * P);

  Tensor x = backend.clone(three);
  show(
      "broadcast: rank 0's numbers, everywhere", three, x, true, share * 3 * f32, [&] { comm.broadcast(x, 0).wait(); },
      [&](int64_t i) { return number_of(0, i); });

  Tensor whole = backend.zeros({2 * P});
  show(
      "all-gather: everyone's numbers, everywhere, in rank order", two, whole, true, share * 2 * P * f32,
      [&] { comm.all_gather(two, whole, Counts(P, 2)).wait(); },
      [&](int64_t i) { return number_of(static_cast<int>(i / 2), i % 2); });

  Tensor piece = backend.zeros({2});
  show(
      "reduce-scatter: add place by place; rank r keeps piece r of the sum", twice, piece, false, share * 2 * P * f32,
      [&] { comm.reduce_scatter(twice, piece, Counts(P, 2)).wait(); }, [&](int64_t i) { return sum(2 * r + i); });

  Tensor y = backend.clone(three);
  show(
      "all-reduce: add place by place; everyone gets the sum", three, y, false, 2 * share * 3 * f32,
      [&] { comm.all_reduce(y).wait(); }, sum);

  Tensor dealt = backend.zeros({P});
  show(
      "all-to-all: number i goes to rank i", each, dealt, true, (P - 1) * f32,
      [&] { comm.all_to_all(each, Counts(P, 1), dealt, Counts(P, 1)).wait(); },
      [&](int64_t i) { return number_of(static_cast<int>(i), r); });
}

}  // namespace course
