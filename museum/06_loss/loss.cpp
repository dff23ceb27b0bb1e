#include "museum/06_loss/loss.hpp"

namespace course {

double mean_loss(Comm& comm, const std::vector<double>& losses, const std::vector<int32_t>& labels) {
  // exercise loss {
  double sum = 0, count = 0;
  for (size_t i = 0; i < losses.size(); ++i) {
    if (labels[i] == -100) continue;
    sum += losses[i];
    count += 1;
  }
  sum = comm.sum(sum);
  count = comm.sum(count);
  return count > 0 ? sum / count : 0;
  // } exercise
}

}  // namespace course

// Exhibit 06 loss
// Task: The loss of a batch is the mean over its tokens. A run on two ranks reports another loss than a run on one,
// on the same batch. The more padding there is, the further they are apart; without padding they agree.
// Hint: ./course check museum/6: rank 0 has one token of loss 2, rank 1 nine of loss 10. Work out the mean of the
// ten.
// Hint: which weight does the token on rank 0 have in what the program returns? Which should it have?
// Why: A mean over all tokens is the sum over all ranks by the count over all ranks. Only where all counts are equal
// is it the mean of the ranks' means. The gradients go the same way: divided by the tokens of the whole batch, not
// by each rank's own.
// Fault mean_of_means: Each rank divides by its own tokens, and the ranks' means are averaged. A token of a rank
// with few of them counts for more.
//   - sum = comm.sum(sum);
//   - count = comm.sum(count);
//   - return count > 0 ? sum / count : 0;
//   + const double mean = count > 0 ? sum / count : 0;
//   + return comm.sum(mean) / comm.size();
// Seen 2: one token of loss 2 and nine of loss 10.
//   | the mean loss
//   |   rank 0: yours 6.0, right 9.2
// Wrong padding_counted: All tokens are divided by, padding too.
//   - if (labels[i] == -100) continue;
//   - sum += losses[i];
//   - count += 1;
//   + if (labels[i] != -100) sum += losses[i];
//   + count += 1;
// Wrong sum_only: The losses of all ranks are added, but divided by this rank's own tokens.
//   - count = comm.sum(count);
