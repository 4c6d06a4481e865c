// What a program gets when it opens the device, and the device itself.
#pragma once

#include <infiniband/verbs.h>

#include "tools/soft_nic/device/event_queue.h"

namespace understudy::soft_nic {

class Nic;

/// An open device. `verbs.context` is what the program has.
struct Context {
  explicit Context(Nic& device) : nic(device) {}

  Nic& nic;
  EventQueue<ibv_async_event> events;
  verbs_context verbs{};

  static Context& of(ibv_context* context) {
    auto* whole = reinterpret_cast<uint8_t*>(context) - offsetof(verbs_context, context);
    // `priv` is the library's that made the context: ours.
    return *reinterpret_cast<Context*>(reinterpret_cast<verbs_context*>(whole)->priv);
  }
};

/// Opens `device`, which may be null where nobody asks for its name, over `nic`.
ibv_context* open_context(Nic& nic, ibv_device* device);

}  // namespace understudy::soft_nic
