// A Comm that makes sure that the ranks of a group mean the same call before it starts: --check-collectives, and the
// tests. Where they do not, or where a rank does not come, every rank that waits throws, and the first to find it says
// why, with a line of every rank (board.hpp):
//
//   call 3 on tp, all-reduce: ranks disagree about the size (12 on rank 0; 1 on rank 1)
//
// How. On a communicator of its own each rank sends every other a card (card.hpp): number of the call on this group,
// operation, elements, type, counts, reduction, root, axis and source line. When all cards of a call are there, each
// rank compares them, comes to the same verdict, and starts the call or throws Error. That is 2(P-1) small messages a
// rank and call; groups here are small.
//
// Calls that agree but come from different source lines go on, with one note on stderr for each such pair of lines.
//
// The check is asynchronous, as the call is: the Work that is returned first completes the exchange, then starts the
// call. The calls of one group start in the order in which they were made. Every poll moves the calls of all groups, so
// a rank that waits for tp does not hold up dp. While nobody polls a call that others are late for, it does not start.
// Groups may start their calls in different orders on different ranks: right for MPI, not for NCCL, whose calls share a
// stream. So calls on a device's memory start in the order in which this rank made them, whatever their group.
//
// Send and recv concern two ranks: the sender's card goes ahead of the message, and the receiver compares. Sends do not
// wait.
//
// A wait longer than `timeout` throws, and names the ranks that did not come; so does, after two seconds, a wait for a
// rank of this node that has come to its end. Time counts while a rank waits (patience.hpp); one that is merely slow
// within the limit is waited for.
//
// split() is checked like a call.
//
// Cost: a step of chapter 13, preset tiny, 2×2 ranks on 2 cores that others used too, took 1.45 times as long (1.40 to
// 1.54 in three pairs of runs).
#pragma once

#include <mpi.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/comm/board.hpp"
#include "common/comm/card.hpp"
#include "common/comm/decorator.hpp"

namespace course {

class Checked : public CommDecorator {
 public:
  struct Entry;     // a call that is not complete
  struct Together;  // what the groups of one world share

  ~Checked() override;
  std::unique_ptr<Comm> split(int color, int key, const std::string& name, Site at = Site::current()) override;
  Work start(const Call& call) override;

  // The program is through on this rank: waits until it is on every rank of the group, as if for a call.
  void end(Site at = Site::current());

 private:
  friend std::unique_ptr<Checked> make_checked(std::unique_ptr<Comm> inner, MPI_Comm group,
                                               std::shared_ptr<const double> timeout, std::shared_ptr<Board> board);
  Checked(std::unique_ptr<Comm> inner, MPI_Comm own, std::shared_ptr<Together> together);
  Work exchange(const Meeting& meeting, Site at);
  std::string verdict(const Entry& entry) const;
  std::string title_of(const Entry& entry) const;

  MPI_Comm own_;
  std::shared_ptr<Together> together_;
  std::vector<int> world_ranks_;  // of the group's
  int64_t calls_ = 0;
  std::map<std::pair<Op, int>, int64_t> messages_;  // by direction and peer
};

// Around `inner`, a Comm of the ranks of `group` in their order. Collective over `group`. `timeout` in seconds, 0:
// none. The board may be null.
std::unique_ptr<Checked> make_checked(std::unique_ptr<Comm> inner, MPI_Comm group,
                                      std::shared_ptr<const double> timeout, std::shared_ptr<Board> board);

}  // namespace course
