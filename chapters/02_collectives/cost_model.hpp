// What a collective costs, before it is run.
//
// One message of n bytes takes α + nβ seconds: α to get it under way, β for each byte. Adding what arrived takes γ a
// byte. The formulas are those of Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in
// MPICH", IJHPCA 19(1), 2005. n is the whole tensor in bytes, P the ranks; every formula is 0 for P
// = 1.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "common/comm/comm.hpp"

namespace course {

struct Machine {
  double alpha = 0;  // seconds a message
  double beta = 0;   // seconds a byte sent
  double gamma = 0;  // seconds a byte added
};

// 2(P-1) α + 2(P-1)/P nβ + (P-1)/P nγ.
double ring_seconds(const Machine& machine, double n, int ranks);

// (log2 Q + 2·[Q < P]) (α + nβ) + (log2 Q + [Q < P]) nγ, Q the largest power of two up to P: the ranks that fold in
// cost a step with an addition, and one to hand the sum back.
double recursive_doubling_seconds(const Machine& machine, double n, int ranks);

// Rabenseifner's: recursive halving, then recursive doubling. 2 log2 P α + 2(P-1)/P nβ + (P-1)/P nγ; where P is no
// power of two, that of Q and two more messages of n, one of them added.
double rabenseifner_seconds(const Machine& machine, double n, int ranks);

// What MPICH does by itself: recursive doubling up to 2048 bytes, Rabenseifner's from there on.
double mpich_seconds(const Machine& machine, double n, int ranks);

// A measurement: so many messages, one after the other, of so many bytes in all, took so long.
struct Sample {
  double messages, bytes, seconds;
};

struct AlphaBeta {
  double alpha, beta;
};

// α and β for which messages·α + bytes·β comes nearest to the seconds measured: least squares of the relative errors,
// since the times of a sweep span decades and the largest would else decide alone. Neither is negative: where the best
// fit is, the other is fitted alone. Throws Error if the samples cannot tell the two apart, or a time is not above 0.
AlphaBeta fit(std::span<const Sample> samples);

// Seconds that `work` takes when all ranks do it at once. Of all rounds that fit in `most` seconds (3 at least, and an
// untimed one before) the fastest counts, since whatever else runs here can only add; of each round the slowest rank.
// Every rank of the group calls and gets the same number.
double time_of(Comm& comm, const std::function<void()>& work, double most = 0.04);

}  // namespace course
