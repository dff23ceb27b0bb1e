// Calls as tests/golden/comm_counts.json names them.
#pragma once

#include <map>
#include <string>

#include "common/comm/recorder.hpp"

namespace course::test {

using Calls = std::map<std::string, int64_t>;  // by PyTorch's name of the collective

inline Calls calls_of(const Traffic& traffic) {
  return {{"all_gather", traffic.count(Op::AllGather)},
          {"reduce_scatter", traffic.count(Op::ReduceScatter)},
          {"all_reduce", traffic.count(Op::AllReduce)}};
}

}  // namespace course::test
