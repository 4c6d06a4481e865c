// Small objects that programs hold.
#pragma once

#include <infiniband/verbs.h>

#include "dataplane/wire/build.h"

namespace understudy::soft_nic {

/// A protection domain. `ibv.handle` is its number: regions and queue pairs of others do not meet.
struct Domain {
  ibv_pd ibv{};
  uint32_t users = 0;  ///< regions, queue pairs, shared receive queues; under the device's lock

  static Domain& of(ibv_pd* pd) { return *reinterpret_cast<Domain*>(pd); }
};

/// An address handle: the way to a peer, its MAC known.
struct AddressHandle {
  ibv_ah ibv{};
  RoceAddressing way;

  static const AddressHandle& of(const ibv_ah* ah) {
    return *reinterpret_cast<const AddressHandle*>(ah);
  }
};

}  // namespace understudy::soft_nic
