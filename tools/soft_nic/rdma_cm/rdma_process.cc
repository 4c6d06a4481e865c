// RDMA-CM: what a process has one of.
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

#include "tools/soft_nic/device/device.h"
#include "tools/soft_nic/rdma_cm/connections.h"

namespace understudy::soft_nic {

namespace {

std::mutex mutex;                    // of what follows
Connections* connections = nullptr;  // never torn down, as the device
pid_t owner = 0;

/// A child of fork() must not find it held by a thread that it has not.
[[gnu::constructor]] void guard_forks() {
  pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });
}

[[gnu::destructor]] void leave() {
  if (connections != nullptr && owner == getpid()) connections->leave();
}

}  // namespace

Connections* the_connections() {
  const std::lock_guard guard(mutex);
  // A child of fork() gets its own; what it inherited stays the parent's, like the device.
  if (connections != nullptr && owner == getpid()) return connections;
  const auto nic = the_nic();
  ibv_context* context = nic ? ibv_open_device(the_device()) : nullptr;
  if (context == nullptr) {
    errno = ENODEV;
    return nullptr;
  }
  if (connections != nullptr) connections->disown();
  connections = new Connections(**nic, context);
  owner = getpid();
  return connections;
}

}  // namespace understudy::soft_nic
