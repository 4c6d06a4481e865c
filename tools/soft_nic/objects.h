// Small objects that programs hold.
#pragma once

#include <infiniband/verbs.h>

namespace understudy::soft_nic {

/// A protection domain. `ibv.handle` is its number: regions and queue pairs of others do not meet.
struct Domain {
  ibv_pd ibv{};
  uint32_t users = 0;  ///< regions, queue pairs, shared receive queues; under the device's lock

  static Domain& of(ibv_pd* pd) { return *reinterpret_cast<Domain*>(pd); }
};

}  // namespace understudy::soft_nic
