#include "chapters/01_column_row_split/split.hpp"

#include <cmath>
#include <limits>

#include "common/chunk.hpp"

namespace course {

Tensor take_shard(Backend& backend, Comm& comm, const Tensor& whole, int64_t dim) {
  const Chunk mine = chunk(whole.dim(dim), comm.size(), comm.rank());
  return backend.slice(whole, dim, mine.offset, mine.size);
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
  Tensor y = product(backend, x, w);  // [M,N], this rank's share of every number
  comm.all_reduce(y).wait();
  return y;
}

Tensor column_then_row(Backend& backend, Comm& comm, const Tensor& x, const Tensor& w1, const Tensor& w2) {
  return row_split(backend, comm, column_split(backend, x, w1), w2);
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
