// RDMA-CM: what a process has one of.
#include <unistd.h>

#include <cerrno>
#include <mutex>

#include "tools/soft_nic/connections.h"
#include "tools/soft_nic/device.h"

namespace understudy::soft_nic {

namespace {

std::mutex mutex;  // of what follows
// Never torn down, as the device.
Connections* connections = nullptr;
ibv_context* context = nullptr;
pid_t owner = 0;

/// A child of fork() gets its own; what it inherited stays the parent's, like the device.
bool make() {
  if (connections != nullptr && owner == getpid()) return true;
  const auto nic = the_nic();
  ibv_context* opened = nic ? ibv_open_device(the_device()) : nullptr;
  if (opened == nullptr) {
    errno = ENODEV;
    return false;
  }
  connections = new Connections(**nic);
  context = opened;
  owner = getpid();
  return true;
}

[[gnu::destructor]] void leave() {
  if (connections != nullptr && owner == getpid()) connections->leave();
}

}  // namespace

Connections* the_connections() {
  const std::lock_guard guard(mutex);
  return make() ? connections : nullptr;
}

ibv_context* the_context() {
  const std::lock_guard guard(mutex);
  return make() ? context : nullptr;
}

}  // namespace understudy::soft_nic
