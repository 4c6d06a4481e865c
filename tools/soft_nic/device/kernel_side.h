// What is not the soft NIC's own on a port that the kernel does not know - TCP, ping, ARP - goes
// through a TAP interface of the user's: so programs' sockets reach emulated nodes beside verbs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <thread>

#include "dataplane/base/result.h"
#include "dataplane/base/unique_fd.h"

namespace understudy::soft_nic {

class Nic;

class KernelSide {
 public:
  /// Attaches to the TAP `name`, which exists (`ip tuntap add dev NAME mode tap`). Errors name it
  /// and say what to do.
  static Result<UniqueFd> attach(const std::string& name);

  /// Connects `tap` to `nic`, which outlives this.
  KernelSide(Nic& nic, UniqueFd tap);
  ~KernelSide();
  /// At the process's end, which takes the TAP's other end away before the kernel has sent what is
  /// left: shuts down the process's TCP connections from the device's address and waits, for a
  /// second at most, until their peers have heard all of it.
  void end_connections();
  KernelSide(const KernelSide&) = delete;
  KernelSide& operator=(const KernelSide&) = delete;

 private:
  void run();

  Nic& nic_;
  UniqueFd tap_, stop_;
  std::thread thread_;
};

}  // namespace understudy::soft_nic
