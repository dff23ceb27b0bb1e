// A Comm that carries a device's memory by way of the host: what goes out is copied to the host, sent by the Comm inside,
// and what came is copied back. It always works, whatever the MPI library knows of devices.
#pragma once

#include "common/backend/backend.hpp"
#include "common/comm/decorator.hpp"

namespace course {

class Staged : public CommDecorator {
 public:
  // `backend` owns the device and outlives this. Calls on the host's memory go to `inner` as they are.
  Staged(std::unique_ptr<Comm> inner, Backend& backend);

  std::unique_ptr<Comm> split(int color, int key, const std::string& name, Site at = Site::current()) override;
  Work start(const Call& call) override;  // waits until the kernels before it are done

 protected:
  Backend& backend() { return backend_; }

 private:
  Backend& backend_;
};

}  // namespace course
