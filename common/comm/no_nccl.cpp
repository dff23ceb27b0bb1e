#include "common/comm/nccl_comm.hpp"

namespace course {

bool has_nccl() { return false; }

std::unique_ptr<Comm> make_nccl_comm(Comm&, Backend&, std::shared_ptr<const double>) {
  fail("this build has no NCCL");
}

void let_ranks_share_a_gpu(int, bool) {}

}  // namespace course
