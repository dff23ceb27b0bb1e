#include "museum/04_two_axes/two_axes.hpp"

namespace course {

void add_on_both(Comm& dp, Comm& tp, Tensor& gradient, Tensor& activation) {
  // exercise two_axes {
  Work over_dp = dp.all_reduce(gradient);
  Work over_tp = tp.all_reduce(activation);
  over_dp.wait();
  over_tp.wait();
  // } exercise
}

}  // namespace course

// Exhibit 04 two_axes
// Task: A step adds gradients over dp and activations over tp. With one axis alone, on 2 or 3 ranks, it works. On a
// 2×2 mesh it stops at once. Every rank makes the same two calls.
// Hint: ./course check museum/4: draw the mesh (ranks 0 1 above 2 3, tp along a row, dp along a column) and an arrow
// from each rank to the one that it waits for.
// Hint: the arrows make a ring. Each rank would come to its second call, were its first one done.
// Hint: what decides, in the program, which call a rank makes first?
// Why: Each group's calls are in order on all of its ranks, and still the ranks wait in a ring, since a rank is in
// two groups. One order of all calls, the same on every rank, has no ring. NCCL wants such an order even where
// nothing is waited for between.
// Fault order_by_rank: Half of the ranks begin with dp and half with tp, and each waits for its first sum before it
// comes to the other one.
//   - Work over_dp = dp.all_reduce(gradient);
//   - Work over_tp = tp.all_reduce(activation);
//   - over_dp.wait();
//   - over_tp.wait();
//   + const bool dp_first = (dp.rank() + tp.rank()) % 2 == 0;  // half of the ranks each: both networks are busy
//   + if (dp_first) dp.all_reduce(gradient).wait();
//   + tp.all_reduce(activation).wait();
//   + if (!dp_first) dp.all_reduce(gradient).wait();
// Seen 4: a ring of four.
//   | rank 0: last call 2 split on world, pending call 1 all-reduce of 20 bytes on dp
//   | rank 1: last call 2 split on world, pending call 1 all-reduce of 12 bytes on tp
//   | rank 2: last call 2 split on world, pending call 1 all-reduce of 12 bytes on tp
//   | rank 3: last call 2 split on world, pending call 1 all-reduce of 20 bytes on dp
// Wrong one_axis_only: The ranks end, but one of the two sums is not made any more.
//   - Work over_dp = dp.all_reduce(gradient);
//   - Work over_tp = tp.all_reduce(activation);
//   - over_dp.wait();
//   - over_tp.wait();
//   + dp.all_reduce(gradient).wait();
