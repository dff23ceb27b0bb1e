// 01 column_row_split: Y = X W on several ranks, W cut by columns and by rows.
#include "chapters/01_column_row_split/draw.hpp"
#include "chapters/01_column_row_split/sent_table.hpp"
#include "chapters/01_column_row_split/split.hpp"
#include "common/chunk.hpp"
#include "common/rng.hpp"
#include "common/support/cli.hpp"
#include "common/support/session.hpp"

namespace course {
namespace {

// Numbers small enough for a pencil: X counts 1 to 9 and again from 1, weights are 0 to 3. Their sums are exact in f32.
Tensor numbers(Backend& backend, int64_t rows, int64_t columns) {
  std::vector<float> x(rows * columns);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(1 + i % 9);
  return backend.from_host(x, {rows, columns});
}

Tensor weights(Backend& backend, const std::string& name, int64_t rows, int64_t columns) {
  const Rng rng(1752, name);
  std::vector<float> w(rows * columns);
  for (int64_t i = 0; i < rows * columns; ++i)
    w[i] = static_cast<float>(rng.bits(i / columns * 4096 + i % columns) % 4);
  return backend.from_host(w, {rows, columns});
}

// The ranks that get nothing of n, as a sentence; "" where all have work.
std::string idle_ranks(int64_t n, int ranks, const std::string& what) {
  std::string idle;
  for (int r = 0; r < ranks; ++r)
    if (chunk(n, ranks, r).size == 0) idle += cat(idle.empty() ? "" : ", ", r);
  return idle.empty() ? "" : cat("  idle, for want of ", what, ": rank ", idle, "\n\n");
}

void column_row_split(Session& session) {
  int64_t M = 3, K = 4, N = 6;
  Cli cli("01_column_row_split", "Y = X W on several ranks: W cut by columns (join the pieces) and by rows (add them)");
  cli.add("--m", M, "rows of X").positive();
  cli.add("--k", K, "columns of X, rows of W").positive();
  cli.add("--n", N, "columns of W").positive();
  cli.parse(session);
  require_usage(std::max({M, K, N}) <= 400, "--m ", M, " --k ", K, " --n ", N,
                ": each may be 400 at most, so that f32 holds every sum exactly");

  Backend& backend = session.backend();
  Traffic traffic;
  Recorder world(session.world(), traffic);
  const int P = world.size();

  SentTable sent;
  double largest = 0;
  // Runs one way to multiply, compares it with one rank's product, and notes what it sent beside what it should.
  const auto compare = [&](const std::string& name, const Tensor& serial, int64_t calls, double bytes,
                           const std::function<Tensor()>& way) {
    traffic.clear();
    const Tensor whole = way();
    sent.add(name, traffic.total(), P > 1 ? calls : 0, bytes);
    const double difference = world.max(largest_difference(backend, whole, serial));
    session.out() << "  largest difference from one rank's: " << difference << "\n\n";
    largest = std::max(largest, difference);
  };

  const Tensor X = numbers(backend, M, K);       // [M,K]
  const Tensor W = weights(backend, "W", K, N);  // [K,N]
  const Tensor Y = product(backend, X, W);       // [M,N]
  session.out() << "X " << show(X.shape()) << " times W " << show(W.shape()) << " on " << P
                << (P == 1 ? " rank\n\n" : " ranks\n\n");
  draw(session, "X", X);
  draw(session, "W", W);
  draw(session, "Y = X W, by one rank", Y);

  session.out() << "1. Columns of W. Each rank has all of X.\n\n";
  const Tensor W_columns = take_shard(backend, world, W, 1);     // [K,N/P]
  const Tensor Y_columns = column_split(backend, X, W_columns);  // [M,N/P]
  draw(session, "W, by columns", W_columns, Pieces::Columns);
  draw(session, "X times these columns: finished columns of Y", Y_columns, Pieces::Columns);
  session.out() << idle_ranks(N, P, "columns of W") << "all-gather: every rank gets all columns\n";
  const double share = (P - 1.0) / P, f32 = 4;
  compare(cat("column split: all-gather ", show(Y.shape())), Y, 1, share * M * N * f32,
          [&] { return join_shards(backend, world, Y_columns, 1, N); });

  session.out() << "2. Rows of W, and the columns of X that meet them.\n\n";
  const Tensor X_columns = take_shard(backend, world, X, 1);  // [M,K/P]
  const Tensor W_rows = take_shard(backend, world, W, 0);     // [K/P,N]
  draw(session, "X, by columns", X_columns, Pieces::Columns);
  draw(session, "W, by rows", W_rows, Pieces::Rows);
  draw(session, "their products: every number of Y, and none of them finished", product(backend, X_columns, W_rows),
       Pieces::Terms);
  session.out() << idle_ranks(K, P, "rows of W") << "all-reduce: every rank gets the sum\n";
  compare(cat("row split: all-reduce ", show(Y.shape())), Y, 1, 2 * share * M * N * f32,
          [&] { return row_split(backend, world, X_columns, W_rows); });

  session.out() << "3. Two layers, Z = (X W) V.\n\n";
  const Tensor V = weights(backend, "V", N, K);               // [N,K]
  const Tensor Z = product(backend, Y, V);                    // [M,K]
  const Tensor V_rows = take_shard(backend, world, V, 0);     // [N/P,K]
  const Tensor V_columns = take_shard(backend, world, V, 1);  // [N,K/P]
  draw(session, "V, by rows: as many as the rank has columns of X W", V_rows, Pieces::Rows);
  session.out() << "W by columns, then V by rows: nothing in between, one all-reduce at the end\n";
  compare(cat("column, then row: all-reduce ", show(Z.shape())), Z, 1, 2 * share * M * K * f32,
          [&] { return column_then_row(backend, world, X, W_columns, V_rows); });
  session.out() << "W by rows, then V by columns: all-reduce in between, all-gather at the end\n";
  compare(cat("row, then column: all-reduce ", show(Y.shape()), ", all-gather ", show(Z.shape())), Z, 2,
          share * (2 * M * N + M * K) * f32,
          [&] { return row_then_column(backend, world, X_columns, W_rows, V_columns, K); });

  session.out() << sent.str() << "\n";
  sent.check(world);
  require_shared(largest == 0, "a product differs from one rank's by ", largest);
  session.out() << "OK" << std::endl;
}

}  // namespace
}  // namespace course

int main(int argc, char** argv) { return course::run_program(argc, argv, course::column_row_split); }
