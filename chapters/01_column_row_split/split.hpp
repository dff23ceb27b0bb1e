// A matrix in pieces, one a rank, and the products of the pieces.
//
//   Y = X W    X [M,K], W [K,N], Y [M,N], all f32    P ranks of the group
//
// Pieces are torch.chunk's (common/chunk.hpp): uneven where P does not divide, empty where there are more ranks than
// rows or columns. In every function all ranks of the group call, in the same order; a group of one sends nothing.
#pragma once

#include "common/backend/backend.hpp"
#include "common/comm/comm.hpp"

namespace course {

// This rank's piece of `whole` along dim `dim`: a copy, nothing is sent.
Tensor take_shard(Backend& backend, Comm& comm, const Tensor& whole, int64_t dim);

// The inverse: the pieces of all ranks, in rank order, joined along `dim`, which then has n indices. One all-gather.
// Throws if this rank's piece is not the size that torch.chunk gives it.
Tensor join_shards(Backend& backend, Comm& comm, const Tensor& shard, int64_t dim, int64_t n);

// Y on one rank alone. K = 0 gives zeros.
Tensor product(Backend& backend, const Tensor& x, const Tensor& w);

// Column split: W by columns. x [M,K] whole, w [K,N_r] this rank's columns. Returns this rank's columns of Y [M,N_r]:
// each number is complete. Nothing is sent.
inline Tensor column_split(Backend& backend, const Tensor& x, const Tensor& w) { return product(backend, x, w); }

// Row split: W by rows, and X by the columns that meet them. x [M,K_r], w [K_r,N]. Every rank gets all of Y [M,N]: the
// sum of what the ranks have. One all-reduce.
Tensor row_split(Backend& backend, Comm& comm, const Tensor& x, const Tensor& w);

// Two layers, Z = (X W1) W2, with w1 [K,N_r] cut by columns and w2 [N_r,L] by rows. The columns of X W1 that a rank
// makes are those that its rows of W2 want, so nothing is sent in between. Every rank gets Z [M,L]. One all-reduce.
// Shoeybi et al., "Megatron-LM", arXiv:1909.08053, section 3.
Tensor column_then_row(Backend& backend, Comm& comm, const Tensor& x, const Tensor& w1, const Tensor& w2);

// The same the other way round, w1 [K_r,N] by rows (x [M,K_r]), w2 [N,L_r] by columns. X W1 must be added before W2 may
// use it, and the columns of Z joined: one all-reduce and one all-gather.
Tensor row_then_column(Backend& backend, Comm& comm, const Tensor& x, const Tensor& w1, const Tensor& w2, int64_t l);

// The largest |a - b|; infinite where the shapes differ, or a number is none (NaN).
double largest_difference(const Backend& backend, const Tensor& a, const Tensor& b);

}  // namespace course
