#include "chapters/10_tensor_parallel_training/read_options.hpp"

#include "chapters/10_tensor_parallel_training/training_checkpoint.hpp"

namespace course {

TrainingOptions read_options(const std::string& program, const std::string& what, const TrainingOptions::Takes& takes,
                             Session& session) {
  Cli cli(program, what);
  TrainingOptions options;
  options.add_to(cli, takes);
  cli.parse(session);
  take_schedule_from_checkpoint(options, cli, session.world());
  together(session.world(), [&] { options.settle(cli, session.size()); });  // a rank may miss the file of --model
  options.settle_dtype(session);
  options.require_room(session);
  require_room_to_save(options, session.world());
  if (options.time_table()) session.watch();
  return options;
}

}  // namespace course
