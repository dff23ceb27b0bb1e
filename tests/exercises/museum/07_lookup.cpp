// Ids of every rank, and ids of none: case B37's.
#include "museum/07_lookup/lookup.hpp"

#include "common/chunk.hpp"
#include "tests/exercises/check.hpp"
#include "tests/exercises/not_written.hpp"

using namespace course;

int main(int argc, char** argv) {
  return check_exercise(argc, argv, "lookup", [](Check& check) {
    Backend& backend = check.backend();
    const auto ask = [&](int64_t V, const std::vector<int32_t>& ids, const Tensor& table) {
      const Chunk mine = chunk(V, check.size(), check.rank());
      return look_up(backend, check.world(), backend.slice(table, 0, mine.offset, mine.size), V,
                     backend.from_host(ids, {static_cast<int64_t>(ids.size())}));
    };
    for (const int64_t V : {int64_t{8}, check.random("V", 5, 11)}) {
      check.begin(cat("a vocabulary of ", V));
      const Tensor table = check.random(cat("table ", V), {V, 2});
      std::vector<int32_t> ids;
      for (int64_t i = 0; i < V; ++i) ids.push_back(static_cast<int32_t>(V - 1 - i));
      Tensor right = backend.empty({V, 2});
      for (int64_t i = 0; i < V; ++i) backend.copy_slice(table, V - 1 - i, right, i, 0, 1);
      check.equal("the rows of all ids", ask(V, ids, table), right);
      check.sent({{Op::AllReduce, {1, ring_bytes(Op::AllReduce, 8.0 * static_cast<double>(V), check.size())}}});
      for (const int64_t id : {int64_t{-1}, V, int64_t{2147483647}}) {
        std::string got;
        try {
          const auto row = backend.to_host(ask(V, {static_cast<int32_t>(id), 3}, table));
          got = row.size() < 2 ? "nothing" : cat("[", row[0], ",", row[1], "]");
        } catch (const SharedError&) {
          got = "refused";
        }
        check.equal(cat("ids -1, ", V, " and 2147483647 of 0..", V - 1), got, "refused");
      }
    }
  });
}
