#include "museum/08_initial_weight/initial_weight.hpp"

#include <cmath>

#include "common/chunk.hpp"
#include "common/rng.hpp"

namespace course {

Tensor initial_weight(Backend& backend, Comm& comm, int64_t N, int64_t K, uint64_t seed) {
  // exercise initial_weight {
  const Chunk mine = chunk(N, comm.size(), comm.rank());
  const Rng rng(seed, "weight");
  const double bound = 1 / std::sqrt(static_cast<double>(K));
  std::vector<float> values(mine.size * K);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t index = static_cast<uint64_t>(mine.offset * K) + i;
    values[i] = static_cast<float>((2 * rng.uniform(index) - 1) * bound);
  }
  return backend.from_host(values, {mine.size, K});
  // } exercise
}

}  // namespace course

// Exhibit 08 initial_weight
// Task: Every rank draws its rows of a weight. The training runs, the loss falls, slower than on one rank. Each
// rank's rows, looked at alone, are as random as they should be.
// Hint: ./course check museum/8: the first number of rank 1 is wrong. On which rank have you seen it before?
// Hint: what does the number at an index depend on? Is any of that different from rank to rank?
// Hint: Rng gives a number for a seed, a name and an index. Count the index in the whole weight.
// Why: The seed is one for all ranks, so that what is replicated comes out alike. What is cut must then be told
// apart by its place in the whole: so the whole is the same on any number of ranks, and a run can be compared with
// one on one rank.
// Fault same_on_every_rank: Every rank draws from the same seed with an index that starts at 0, so all pieces are
// copies of the first. Where the weight that reads them is drawn so too, their gradients are alike, and they stay copies.
//   - const uint64_t index = static_cast<uint64_t>(mine.offset * K) + i;
//   - values[i] = static_cast<float>((2 * rng.uniform(index) - 1) * bound);
//   + values[i] = static_cast<float>((2 * rng.uniform(i) - 1) * bound);
// Seen 2: rank 1 has rank 0's rows.
//   | the rows of this rank
//   |   rank 1 at [0,0]: yours -0.0
// Wrong seed_and_rank: Seed plus rank tells the ranks apart, but the whole is another weight on each number of
// ranks.
//   - const Rng rng(seed, "weight");
//   + const Rng rng(seed + comm.rank(), "weight");
// Wrong bound_by_own_rows: The bound goes by the features that come in, K, whatever the cut.
//   - const double bound = 1 / std::sqrt(static_cast<double>(K));
//   + const double bound = 1 / std::sqrt(static_cast<double>(K) / comm.size());
