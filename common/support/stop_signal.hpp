// Ctrl-C (SIGINT), and SIGTERM, by which a cluster takes its machine back: while a StopSignal lives they do not end the
// process, they are a wish that the work asks about where it can stop.
//
//   StopSignal stop;
//   while (more && !stop.agreed(world)) step();
//
// The first signal is noted. Another SIGTERM changes nothing, for some systems send several; a SIGINT after the first
// signal ends the process at once.
#pragma once

#include "common/comm/comm.hpp"

namespace course {

class StopSignal {
 public:
  StopSignal();
  // As it was before; a signal that came too late to be agreed on is given again. After an agreed stop nothing changes.
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;

  // The signal that some rank has had, 0 if none has: the same answer on every rank, so that all stop at one place.
  // Collective: 8 bytes.
  int agreed(Comm& world, Site at = Site::current());
};

}  // namespace course
