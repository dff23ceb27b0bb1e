// A program's proof: a sharded module beside its serial self, with the same values in. Both run forward and backward
// once; output, gradient of the input and each gradient of a weight are compared, and what was sent stands beside its
// formula.
//
//   Comparison compare(tp, traffic, {B, S, E});
//   compare.run("column, then row", serial, sharded, Entrance::Whole, all_reduce_cost(n, P), all_reduce_cost(n, P));
//   session.out() << compare.str();
//   compare.check();
#pragma once

#include "chapters/01_column_row_split/sent_table.hpp"
#include "chapters/04_sharded_linear/module.hpp"

namespace course {

// How x comes to the module, and its gradient leaves.
enum class Entrance {
  Whole,   // x whole, a plain tensor: every Colwise Linear that reads it reduces its own gradient
  Shared,  // x whole, its layout made here: the gradients add up inside, and f reduces once
  Sliced,  // x [B,S/P,E]: gathered here once, its gradient reduce-scattered here once; y leaves as Shard(1)
};

// What one rank sends in one direction, from the sizes alone. Bytes are those of a ring; a group of one sends nothing.
struct Cost {
  int64_t calls = 0;
  double bytes = 0;
  Cost operator+(const Cost& more) const { return {calls + more.calls, bytes + more.bytes}; }
  Cost operator*(int64_t times) const { return {times * calls, times * bytes}; }
};
Cost all_reduce_cost(double bytes, int ranks);  // 1 call, 2(P-1)/P of the bytes
Cost gather_cost(double bytes, int ranks);  // all-gather or reduce-scatter: 1 call, (P-1)/P of the bytes of the whole

class Comparison {
 public:
  // Draws x and dy [B,S,E], alike on all ranks. `traffic` is what the mesh's recorder writes to. Both must outlive it.
  Comparison(const DeviceMesh& tp, Traffic& traffic, const Shape& shape);

  const Tensor& x() const { return x_; }

  // Notes the largest difference on all ranks: of y, dx and the weights' gradients, each in parts of its largest
  // number. Clears the gradients of both first. Collective over tp.
  void run(const std::string& name, Module& serial, Module& sharded, Entrance entrance, const Cost& forward,
           const Cost& backward);

  // A row of one's own: `got` beside `expected` (equal shapes), and what was sent since traffic.clear(). Collective.
  void add(const std::string& name, const Tensor& got, const Tensor& expected, const Cost& cost);

  // Both tables, this rank's, for rank 0 to print.
  std::string str() const { return differences_.str() + "\n" + sent_.str(); }
  // Throws SharedError when a difference is above 1e-5, or a rank sent other than the formula. Collective over tp.
  void check() const;

 private:
  DeviceMesh tp_;
  Traffic* traffic_;
  void note(const std::string& name, double largest);
  Tensor x_, dy_;
  SentTable sent_;
  Table differences_{{"beside the serial module", "largest difference"}};
  double largest_ = 0;
};

// Values in [-1, 1) by name, alike on all ranks.
Tensor draw_numbers(Backend& backend, const std::string& name, const Shape& shape);

// Who holds what: a row a rank, a column a parameter, each cell the part as "[0:10,0:8]". Collective over tp.
std::string holdings(const DeviceMesh& tp, Module& module);

// "idle, for want of WHAT: rank 3, 4" when n, cut between blocks, leaves ranks without a part; "" where all have one.
// NAME is said for "rank".
std::string idle_ranks(int64_t n, int64_t ranks, const std::string& what, int64_t block = 1,
                       const std::string& name = "rank");

}  // namespace course
