#include "chapters/07_sequence_parallel/demonstrations.hpp"

#include <iomanip>

#include "chapters/01_column_row_split/split.hpp"
#include "chapters/04_sharded_linear/conjugate_pair.hpp"
#include "chapters/05_sharded_mlp/comparison.hpp"
#include "chapters/07_sequence_parallel/rms_norm.hpp"
#include "chapters/07_sequence_parallel/sequence_style.hpp"
#include "common/chunk.hpp"

namespace course {
namespace {

std::string positions(const Chunk& piece) {
  if (piece.size == 0) return "none";
  return piece.size == 1 ? cat(piece.offset) : cat(piece.offset, " to ", piece.end() - 1);
}

std::string numbers(const Tensor& x, Backend& backend, float factor = 1) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(4);
  for (const float value : backend.to_host(x)) text << std::setw(9) << value * factor;
  return text.str();
}

}  // namespace

void show_halves(Session& session, const DeviceMesh& tp, Traffic& traffic, SentTable& sent, const Shape& shape) {
  Backend& backend = tp.backend();
  Comm& comm = tp.comm();
  const int P = comm.size();
  const Tensor term = draw_numbers(backend, cat("term of rank ", comm.rank()), shape);
  const double bytes = static_cast<double>(term.bytes());
  const auto note = [&](const std::string& what, const Cost& cost) {
    sent.add(what, traffic.total(), cost.calls, cost.bytes);
    traffic.clear();
  };
  traffic.clear();
  const Tensor sum = g.forward(backend, comm, term, shape);
  note("all-reduce", all_reduce_cost(bytes, P));
  const Tensor slice = scatter.forward(backend, comm, term, shape);
  note("reduce-scatter", gather_cost(bytes, P));
  const Tensor joined = gather.forward(backend, comm, slice, shape);
  note("all-gather", gather_cost(bytes, P));

  const double apart = comm.max(largest_difference(backend, joined, sum));
  session.out() << "  all-reduce: every rank has the sum, " << show(sum.shape()) << ", " << group_digits(sum.bytes())
                << " bytes\n  reduce-scatter: rank 0 has its positions of the sum, " << show(slice.shape()) << ", "
                << group_digits(slice.bytes()) << " bytes\n  all-gather of those: " << show(joined.shape())
                << " again; largest difference from the all-reduce: " << std::setprecision(2) << apart << "\n\n";
  require_shared(apart <= 1e-6 * P, "an all-reduce and its two halves differ by ", apart);
}

void show_slices(Session& session, int64_t sequence, int64_t ranks) {
  Table table({"rank", "positions", "of them"});
  for (int64_t r = 0; r < ranks; ++r) {
    const Chunk piece = chunk(sequence, ranks, r);
    table.row(r, positions(piece), piece.size);
  }
  session.out() << table.str() << idle_ranks(sequence, ranks, "positions") << "\n";
}

void show_norm_gradient(Session& session, const DeviceMesh& tp) {
  Backend& backend = tp.backend();
  const Shape shape = {1, 4, 4};
  const std::vector<float> x = {1, 2, 3, 4, 2, 0, 0, 2, 0, 1, 0, -1, 4, 3, 2, 1};
  const std::vector<float> dy = {1, 1, 1, 1, 1, 0, 0, 0, 0, 2, 0, 0, 1, -1, 1, -1};

  RmsNorm serial(backend, 4), sharded(backend, 4);
  SequenceParallel().apply(sharded, tp);
  initialize(serial, 7), initialize(sharded, 7);
  serial.forward(backend.from_host(x, shape));
  serial.backward(backend.from_host(dy, shape));
  const DTensor whole = DTensor::from_local(backend.from_host(x, shape), tp, {Replicate()});
  sharded.forward(whole.redistribute({Shard(1)}));
  sharded.backward(DTensor::from_local(backend.from_host(dy, shape), tp, {Replicate()}).redistribute({Shard(1)}));

  const auto alone = tp.comm().all_gather_text(numbers(sharded.weight.gradient(), backend));
  for (int64_t r = 0; r < tp.size(); ++r)
    session.out() << "  rank " << r << " alone" << alone[r] << "   positions " << positions(chunk(4, tp.size(), r))
                  << "\n";
  tp.comm().all_reduce(sharded.weight.gradient()).wait();
  session.out() << "  their mean  " << numbers(sharded.weight.gradient(), backend, 1.0F / static_cast<float>(tp.size()))
                << "\n  their sum   " << numbers(sharded.weight.gradient(), backend) << "\n  one rank    "
                << numbers(serial.weight.gradient(), backend) << "\n\n";
  const double apart = tp.comm().max(largest_difference(backend, sharded.weight.gradient(), serial.weight.gradient()));
  require_shared(apart <= 1e-5, "the sum of a norm's gradients differs from one rank's by ", apart);
}

}  // namespace course
