#include "common/comm/mpi_comm.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "common/comm/direct.hpp"
#include "common/comm/patience.hpp"
#include "common/comm/pieces.hpp"
#include "common/last_words.hpp"

namespace course {

void check(int mpi_code, const char* call, std::source_location at) {
  if (mpi_code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(mpi_code, text, &length);
  std::string said(text, length);
  for (char& c : said)
    if (c == '\n') c = ' ';
  throw Error(cat(call, ": ", said), at);
}

namespace {

MPI_Datatype mpi_type(DType type) {
  switch (type) {
    case DType::F32: return MPI_FLOAT;
    case DType::I32: return MPI_INT32_T;
    case DType::I64: return MPI_INT64_T;
    case DType::F64: return MPI_DOUBLE;
    case DType::U8: return MPI_UINT8_T;
    case DType::BF16: return MPI_UINT16_T;  // MPI 4.0 has no such type: its bits travel, and half_op reduces them
  }
  fail("no such dtype");
}

// One step of a reduction: in f32, and rounded again. Commutative to the bit, but for the sign of a zero in a maximum.
template <float reduce(float, float)>
void reduce_half(void* from, void* into, int* count, MPI_Datatype*) {
  const BFloat16* in = static_cast<const BFloat16*>(from);
  BFloat16* sum = static_cast<BFloat16*>(into);
  const int n = *count;
#pragma omp simd
  for (int i = 0; i < n; ++i) store(sum[i], reduce(sum[i], in[i]));
}

float plus(float a, float b) { return a + b; }
float larger(float a, float b) { return a != a || a > b ? a : b; }  // a nan is not lost

MPI_Op half_op(Reduce reduce) {
  const auto made = [](MPI_User_function* step) {
    MPI_Op op;
    check(MPI_Op_create(step, true, &op), "MPI_Op_create");
    return op;
  };
  static const MPI_Op sum = made(reduce_half<plus>), max = made(reduce_half<larger>);
  return reduce == Reduce::Sum ? sum : max;
}

MPI_Op mpi_op(Reduce reduce, DType type) {
  if (type == DType::BF16) return half_op(reduce);
  return reduce == Reduce::Sum ? MPI_SUM : MPI_MAX;
}

int to_int(int64_t n, Op op) {
  require(n >= 0 && n <= std::numeric_limits<int>::max(), name_of(op), ": ", n,
          " elements in one MPI call; its counts end at 2^31-1");
  return static_cast<int>(n);
}

// MPI's int counts and displacements of an uneven collective.
struct Parts {
  std::vector<int> counts, begins;
  Parts(const Counts& from, Op op) {
    int64_t at = 0;
    for (int64_t n : from) {
      counts.push_back(to_int(n, op));
      begins.push_back(to_int(at, op));
      at += n;
    }
  }
};

class MpiComm : public Comm {
 public:
  MpiComm(MPI_Comm own, std::string name, std::shared_ptr<const double> timeout, int64_t limit)
      : comm_(own), name_(std::move(name)), timeout_(std::move(timeout)), limit_(limit) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }
  ~MpiComm() override {
    // Freeing is collective: while an exception unwinds the others will not come.
    if (std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& name() const override { return name_; }

  std::unique_ptr<Comm> split(int color, int key, const std::string& name, Site at) override {
    barrier(at).wait();  // has a time limit, which MPI_Comm_split has not
    MPI_Comm part;
    check(MPI_Comm_split(comm_, color, key, &part), "MPI_Comm_split", at);
    return std::make_unique<MpiComm>(part, name, timeout_, limit_);
  }

  Work start(const Call& call) override {
    require(call.on_host() || (size_ > 1 && mpi_takes_gpu_memory()), "MPI was given a GPU's memory; Staged takes it there");
    if (size_ == 1) return copied(call.in, call.out);
    note_collective(name_of(call.op), call.at);
    if (needs_pieces(call, limit_)) {
      std::vector<Work> works;
      for (const Call& piece : in_pieces(call, rank_, limit_)) works.push_back(start(piece));
      return all_of(std::move(works));
    }
    const Elements &in = call.in, &out = call.out;
    MPI_Request r;
    switch (call.op) {
      case Op::Broadcast:
        check(MPI_Ibcast(in.data, to_int(in.count, call.op), mpi_type(in.type), call.peer, comm_, &r), "MPI_Ibcast");
        return pending(r, call.op);
      case Op::AllReduce:
        check(MPI_Iallreduce(MPI_IN_PLACE, in.data, to_int(in.count, call.op), mpi_type(in.type),
                             mpi_op(call.reduce, in.type), comm_, &r),
              "MPI_Iallreduce");
        return pending(r, call.op);
      case Op::AllGather: {
        const auto parts = std::make_shared<Parts>(call.counts, call.op);
        check(MPI_Iallgatherv(in.data, parts->counts[rank_], mpi_type(in.type), out.data, parts->counts.data(),
                              parts->begins.data(), mpi_type(out.type), comm_, &r),
              "MPI_Iallgatherv");
        return pending(r, call.op, parts);
      }
      case Op::ReduceScatter: {
        const auto parts = std::make_shared<Parts>(call.counts, call.op);
        check(MPI_Ireduce_scatter(in.data, out.data, parts->counts.data(), mpi_type(in.type),
                                  mpi_op(Reduce::Sum, in.type), comm_, &r),
              "MPI_Ireduce_scatter");
        return pending(r, call.op, parts);
      }
      case Op::AllToAll: {
        const auto both = std::make_shared<std::pair<Parts, Parts>>(Parts(call.counts, call.op), Parts(call.receive_counts, call.op));
        const auto& [to, from] = *both;
        check(MPI_Ialltoallv(in.data, to.counts.data(), to.begins.data(), mpi_type(in.type), out.data, from.counts.data(),
                             from.begins.data(), mpi_type(out.type), comm_, &r),
              "MPI_Ialltoallv");
        return pending(r, call.op, both);
      }
      case Op::Send:
        check(MPI_Isend(in.data, to_int(in.count, call.op), mpi_type(in.type), call.peer, 0, comm_, &r), "MPI_Isend");
        return pending(r, call.op);
      case Op::Recv:
        check(MPI_Irecv(out.data, to_int(out.count, call.op), mpi_type(out.type), call.peer, 0, comm_, &r), "MPI_Irecv");
        return pending(r, call.op);
      case Op::Barrier: check(MPI_Ibarrier(comm_, &r), "MPI_Ibarrier"); return pending(r, call.op);
    }
    fail("no such collective");
  }

 private:
  // `keep` lives as long as MPI may read it.
  Work pending(MPI_Request request, Op op, std::shared_ptr<void> keep = nullptr) {
    return Work([this, request, op, keep, patience = Patience()]() mutable {
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), name_of(op));
      if (!done && *timeout_ > 0 && patience.waited() >= *timeout_) fail(waited_in_vain(*timeout_, name_of(op), title()));
      return done != 0;
    });
  }

  static Work copied(Elements from, Elements to) {
    if (to.count > 0 && from.data != to.data) std::memcpy(to.data, from.data, to.count * size_of(to.type));
    return {};
  }

  MPI_Comm comm_;
  std::string name_;
  std::shared_ptr<const double> timeout_;
  int64_t limit_;  // elements of one MPI call
  int rank_ = 0, size_ = 1;
};

}  // namespace

std::unique_ptr<Comm> make_mpi_comm(MPI_Comm group, const std::string& name, std::shared_ptr<const double> timeout,
                                    int64_t limit) {
  MPI_Comm own;
  check(MPI_Comm_dup(group, &own), "MPI_Comm_dup");
  return std::make_unique<MpiComm>(own, name, std::move(timeout), limit);
}

}  // namespace course
