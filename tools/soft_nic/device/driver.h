// The helper thread of a soft NIC: moves packets while no program's call does.
#pragma once

#include <atomic>
#include <thread>

#include "dataplane/base/unique_fd.h"

namespace understudy::soft_nic {

class Nic;

class Driver {
 public:
  explicit Driver(Nic& nic);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

 private:
  void run();
  void wait(bool for_frames, int64_t ns);
  void wake();

  Nic& nic_;
  UniqueFd alarm_;
  std::atomic<bool> sleeping_{false}, stopping_{false};
  std::thread thread_;
};

}  // namespace understudy::soft_nic
