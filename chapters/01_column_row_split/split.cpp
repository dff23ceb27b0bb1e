#include "chapters/01_column_row_split/split.hpp"

#include <cmath>
#include <limits>

#include "common/chunk.hpp"

namespace course {

Tensor take_shard(Backend& backend, Comm& comm, const Tensor& whole, int64_t dim) {
  // exercise split {
  const Chunk mine = chunk(whole.dim(dim), comm.size(), comm.rank());
  return backend.slice(whole, dim, mine.offset, mine.size);
  // } exercise
}

Tensor join_shards(Backend& backend, Comm& comm, const Tensor& shard, int64_t dim, int64_t n) {
  const int64_t mine = chunk(n, comm.size(), comm.rank()).size;
  require(shard.dim(dim) == mine, "joining ", n, " on ", comm.name(), ": rank ", comm.rank(), " brings ",
          show(shard.shape()), ", its piece has ", mine, " along dim ", dim);
  Shape shape = shard.shape();
  shape[dim] = 1;
  const int64_t each = numel(shape);
  shape[dim] = n;

  Tensor arrived =
      backend.empty({n * each}, shard.dtype());  // one piece after the other, each in its own row-major order
  comm.all_gather(shard, arrived, chunk_sizes(n, comm.size(), 1, each)).wait();
  if (dim == 0 || comm.size() == 1) return std::move(arrived).reshape(shape);

  Tensor whole = backend.empty(shape, shard.dtype());
  for (int r = 0; r < comm.size(); ++r) {
    const Chunk piece = chunk(n, comm.size(), r);
    shape[dim] = piece.size;
    const Tensor part = backend.slice(arrived, 0, piece.offset * each, piece.size * each).reshape(shape);
    backend.copy_slice(part, 0, whole, piece.offset, dim, piece.size);
  }
  return whole;
}

Tensor product(Backend& backend, const Tensor& x, const Tensor& w) {
  Tensor y = backend.empty({x.dim(0), w.dim(1)});
  backend.matmul(x, false, w, false, y);
  return y;
}

Tensor row_split(Backend& backend, Comm& comm, const Tensor& x, const Tensor& w) {
  // exercise split {
  Tensor y = product(backend, x, w);  // [M,N], this rank's share of every number
  comm.all_reduce(y).wait();
  return y;
  // } exercise
}

Tensor column_then_row(Backend& backend, Comm& comm, const Tensor& x, const Tensor& w1, const Tensor& w2) {
  // exercise split {
  return row_split(backend, comm, column_split(backend, x, w1), w2);
  // } exercise
}

Tensor row_then_column(Backend& backend, Comm& comm, const Tensor& x, const Tensor& w1, const Tensor& w2, int64_t l) {
  const Tensor h = row_split(backend, comm, x, w1);
  return join_shards(backend, comm, column_split(backend, h, w2), 1, l);
}

double largest_difference(const Backend& backend, const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return std::numeric_limits<double>::infinity();
  const auto x = backend.to_host(a), y = backend.to_host(b);
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double difference = std::abs(double(x[i]) - y[i]);
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, difference);
  }
  return largest;
}

}  // namespace course

// Exercise 01 split
// Task: Write the three functions on which this chapter stands: take_shard gives a rank its piece of a matrix,
// row_split multiplies pieces and adds, column_then_row runs two layers with one all-reduce. split.hpp says what each
// is given and must return. Sizes need not divide by the ranks, and a rank may have nothing.
// Hint: chunk(n, ranks, rank) of common/chunk.hpp gives offset and size of a piece; backend.slice copies it.
// Hint: after product(), each rank of row_split has a term of every number. Which collective adds over the ranks?
// Hint: column_then_row needs no collective of its own: what column_split makes is what row_split takes.
// Why: A product is a sum over k. Cut k, and each rank has a part of every sum, so the ranks add. Cut n instead, and
// each rank has whole sums, which meet just the rows of the next matrix that lie on the same rank: two layers, one
// all-reduce.
// Wrong no_all_reduce: Every rank returns its own share of the sums. They are right when added over the ranks: add them
// with an all-reduce.
//   - comm.all_reduce(y).wait();
// Wrong mean: The sum over the ranks is divided by their number. Nothing here is an average: each rank has other terms.
//   - comm.all_reduce(y).wait();
//   + comm.all_reduce(y).wait();
//   + backend.scale(y, 1.0f / static_cast<float>(comm.size()));
// Wrong twice: The sum is added over the ranks once more, so every number is P times too large. One all-reduce leaves
// the sum on every rank.
//   - comm.all_reduce(y).wait();
//   + comm.all_reduce(y).wait();
//   + comm.all_reduce(y).wait();
// Wrong floor: The pieces have n / P rows or columns, so those at the end are left out where P does not divide n. Use
// chunk().
//   - const Chunk mine = chunk(whole.dim(dim), comm.size(), comm.rank());
//   + const int64_t size = whole.dim(dim) / comm.size();
//   + const Chunk mine = {size * comm.rank(), size};
// Wrong last_gets_the_rest: The last rank takes what is left over. torch.chunk cuts pieces of ceil(n / P) from the
// front, so the last piece is the short one. Use chunk().
//   - const Chunk mine = chunk(whole.dim(dim), comm.size(), comm.rank());
//   + const int64_t size = whole.dim(dim) / comm.size(), offset = size * comm.rank();
//   + const Chunk mine = {offset, comm.rank() + 1 == comm.size() ? whole.dim(dim) - offset : size};
// Wrong all_reduce_between: The columns of the first layer are added over the ranks, which are other columns on each
// rank. They are finished as they are: the second layer takes them at once.
//   - return row_split(backend, comm, column_split(backend, x, w1), w2);
//   + Tensor h = join_shards(backend, comm, column_split(backend, x, w1), 1, static_cast<int64_t>(comm.sum(double(w1.dim(1)))));
//   + return row_split(backend, comm, take_shard(backend, comm, h, 1), w2);
