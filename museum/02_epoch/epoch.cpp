#include "museum/02_epoch/epoch.hpp"

namespace course {

Epoch read_epoch(Comm& comm, const std::vector<int32_t>& tokens, int64_t batch) {
  // exercise epoch {
  const int64_t length = static_cast<int64_t>(tokens.size()), whole = batch * comm.size();
  Epoch epoch = {0, 0};
  double sum = 0;
  for (int64_t begin = 0; begin + whole + 1 <= length; begin += whole) {
    const int64_t mine = begin + comm.rank() * batch;
    double loss = 0;
    for (int64_t i = mine; i < mine + batch; ++i) {
      const double difference = tokens[i + 1] - tokens[i];
      loss += difference * difference;
    }
    sum += comm.sum(loss);
    ++epoch.steps;
  }
  comm.barrier().wait();  // the next epoch begins on all ranks together
  if (epoch.steps > 0) epoch.loss = sum / static_cast<double>(epoch.steps * whole);
  return epoch;
  // } exercise
}

}  // namespace course

// Exhibit 02 epoch
// Task: Ranks read a text in turn, a batch each, and add their losses after every step. Most texts work. Some stop
// in the last step of the epoch, and with another number of ranks it is other texts. Every rank reads inside the
// text, always.
// Hint: ./course check museum/2: which ranks pend in a step, and which are through with the epoch?
// Hint: how many tokens must be left for rank 0 to take a step? How many for the last rank?
// Hint: the condition of the loop must come out the same on every rank. Which numbers in it do not?
// Why: How often a rank makes a collective call is part of the program that all ranks share. So the end of a loop
// with a collective in it depends on numbers that are equal everywhere: the whole batch of all ranks, not this
// rank's part of it.
// Fault own_end: Each rank goes on as long as its own batch fits. Near the end of the text that is true of the first
// ranks only: they take one step more, and wait in it for the others.
//   - for (int64_t begin = 0; begin + whole + 1 <= length; begin += whole) {
//   - const int64_t mine = begin + comm.rank() * batch;
//   + for (int64_t mine = comm.rank() * batch; mine + batch + 1 <= length; mine += whole) {
// Seen 2: 64 tokens are too few for a second step on rank 1.
//   | rank 0: last call 1 all-reduce of 8 bytes on world, pending call 2 all-reduce of 8 bytes on world
//   | rank 1: last call 1 all-reduce of 8 bytes on world, pending call 2 barrier on world
// Seen 4: 64 tokens are too few for the first step on rank 3.
//   | rank 0: last none, pending call 1 all-reduce of 8 bytes on world
//   | rank 3: last none, pending call 1 barrier on world
// Wrong label_forgotten: A step needs one token more than the batch, the label of the last one. Without it the last
// rank reads past the end of the text.
//   - for (int64_t begin = 0; begin + whole + 1 <= length; begin += whole) {
//   - const int64_t mine = begin + comm.rank() * batch;
//   + for (int64_t begin = 0; begin + whole <= length; begin += whole) {
//   + const int64_t mine = begin + comm.rank() * batch;
// Wrong one_step_less: The last step is left out though every rank could take it.
//   - for (int64_t begin = 0; begin + whole + 1 <= length; begin += whole) {
//   - const int64_t mine = begin + comm.rank() * batch;
//   + for (int64_t begin = 0; begin + 2 * whole + 1 <= length; begin += whole) {
//   + const int64_t mine = begin + comm.rank() * batch;
