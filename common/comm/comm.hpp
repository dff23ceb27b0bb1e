// A group of ranks and what it can do together. The public functions check and describe a Call; start(), which MPI, NCCL or a
// decorator provides, carries it out.
//
//   comm.all_reduce(dx).wait();
//
// Every rank of the group calls the same functions in the same order. Each call starts and returns a Work; what it was
// given belongs to it until wait() returns. A group of one returns at once. All ranks get the same bits.
// Volumes are per rank, for a ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 2009), P = size().
// Semantics: MPI 4.0 standard, chapter 6.
#pragma once

#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/tensor.hpp"

namespace course {

enum class Op { Broadcast, AllReduce, AllGather, ReduceScatter, AllToAll, Send, Recv, Barrier };
enum class Reduce { Sum, Max };
constexpr Op all_ops[] = {Op::Broadcast, Op::AllReduce, Op::AllGather, Op::ReduceScatter,
                          Op::AllToAll,  Op::Send,      Op::Recv,      Op::Barrier};
const char* name_of(Op op);  // "all-reduce"

// Elements in memory, on the host or a device.
struct Elements {
  void* data;
  int64_t count;
  DType type;
  Device device;
};

// How far a call has come.
enum class Until {
  Complete,  // it is over
  Ordered    // whatever this rank computes from now on comes after it. A GPU is told to wait, and the host goes on at once;
             // for everybody else it is the same as Complete
};

// A call under way. Destroying it waits, so that memory never goes back while others still read it.
class Work {
 public:
  // `reached` polls: true once the call has come so far, and then it is asked no more. No function: complete already.
  Work() = default;
  explicit Work(std::function<bool(Until)> reached) : reached_(std::move(reached)) {}
  explicit Work(std::function<bool()> done) : reached_([done = std::move(done)](Until) { return done(); }) {}
  Work(Work&& other) noexcept : reached_(std::exchange(other.reached_, nullptr)) {}
  Work& operator=(Work&& other) noexcept {
    std::swap(reached_, other.reached_);
    return *this;
  }
  ~Work() noexcept(false);  // the wait may find that another rank did not come

  bool test() { return reached(Until::Complete); }  // lets the call advance; true once it is complete
  void wait();  // until Ordered; yields the processor between polls, so that ranks that share a core get on
  bool reached(Until until);  // one poll

 private:
  std::function<bool(Until)> reached_;
};

using Counts = std::vector<int64_t>;  // one number of elements a rank
using Site = std::source_location;    // the line that called

// One call of this rank, checked: what a decorator looks at and passes on, and a transport carries out.
struct Call {
  Op op;
  Elements in;   // what this rank brings
  Elements out;  // what it gets: its own memory for all-gather, reduce-scatter and all-to-all, else the same as `in`
  Site at;
  Reduce reduce = Reduce::Sum;
  int peer = -1;               // the root, the receiver or the sender
  Counts counts = {};          // of `whole`, by rank; all-to-all: what I send to each
  Counts receive_counts = {};  // all-to-all: what I get from each

  // The larger side: all-gather's result, else what is brought.
  const Elements& whole() const { return op == Op::AllGather ? out : in; }
  bool on_host() const { return in.device == Device::Cpu && out.device == Device::Cpu; }
};

class Comm {
 public:
  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;  // "world", or the mesh axis: "dp", "tp"
  std::string title() const;                    // "tp (rank 1 of 4)"

  // Root's elements to all. A ring sends the n bytes once on every rank but the last: (P-1)/P·n a rank on average.
  [[nodiscard]] Work broadcast(Tensor& x, int root, Site at = Site::current());
  // x becomes the sum (or maximum) over ranks, in place. 2(P-1)/P·n bytes.
  [[nodiscard]] Work all_reduce(Tensor& x, Reduce op = Reduce::Sum, Site at = Site::current());
  // Joins shards in rank order. counts[r] elements come from rank r, Σ counts = whole.numel(). (P-1)/P·n bytes of `whole`.
  [[nodiscard]] Work all_gather(const Tensor& shard, Tensor& whole, const Counts& counts, Site at = Site::current());
  // The inverse: sums `whole` over ranks, rank r keeps its counts[r] elements. (P-1)/P·n bytes of `whole`.
  [[nodiscard]] Work reduce_scatter(const Tensor& whole, Tensor& shard, const Counts& counts, Site at = Site::current());
  // Rank r gets send_counts[r] of my elements, in rank order, and I get receive_counts[r] of its. All but my own are sent.
  [[nodiscard]] Work all_to_all(const Tensor& send, const Counts& send_counts, Tensor& receive, const Counts& receive_counts,
                                Site at = Site::current());
  [[nodiscard]] Work send(const Tensor& x, int to, Site at = Site::current());
  [[nodiscard]] Work recv(Tensor& x, int from, Site at = Site::current());
  [[nodiscard]] Work barrier(Site at = Site::current());

  // The same for values of the host: losses, norms, counts, texts.
  template <typename T>
  [[nodiscard]] Work all_reduce(std::span<T> x, Reduce op = Reduce::Sum, Site at = Site::current()) {
    return all_reduce(host(x), op, at);
  }
  template <typename T>
  [[nodiscard]] Work broadcast(std::span<T> x, int root, Site at = Site::current()) {
    return broadcast(host(x), root, at);
  }
  template <typename T>
  [[nodiscard]] Work all_gather(std::span<const T> shard, std::span<T> whole, const Counts& counts, Site at = Site::current()) {
    return all_gather(host(shard), host(whole), counts, at);
  }
  double sum(double x, Site at = Site::current());  // over the ranks, waited for
  double max(double x, Site at = Site::current());
  std::string broadcast_text(std::string text, int root, Site at = Site::current());  // root's text, of any length
  std::vector<std::string> all_gather_text(const std::string& text, Site at = Site::current());  // every rank's, in rank order

  // Ranks of one color form a group, ordered by key, then rank. Collective.
  virtual std::unique_ptr<Comm> split(int color, int key, const std::string& name, Site at = Site::current()) = 0;

  // Starts a call that the functions above have checked: a decorator hands it to the Comm that it wraps, a transport
  // moves the bytes. The call's memory must live until the Work is complete; the Call itself need not.
  virtual Work start(const Call& call) = 0;

  // For whoever waits on the host for something else: looks after calls under way that get on by themselves (NCCL's).
  virtual void look() {}

 private:
  template <typename T>
  static Elements host(std::span<T> x) {
    using Value = std::remove_const_t<T>;
    return {const_cast<Value*>(x.data()), static_cast<int64_t>(x.size()), dtype_of<Value>(), Device::Cpu};
  }
  void check_counts(Op op, const Counts& counts, int64_t whole, int64_t shard) const;
  Work broadcast(Elements x, int root, Site at);
  Work all_reduce(Elements x, Reduce op, Site at);
  Work all_gather(Elements shard, Elements whole, const Counts& counts, Site at);
};

}  // namespace course
