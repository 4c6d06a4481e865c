// The socket of a net_vhost device: a guest (User-mode Linux, QEMU) connects to it.
#pragma once

#include <string>

#include "dataplane/base/result.h"
#include "dataplane/port/dpdk_device.h"

namespace understudy {

/// Makes the socket appear only when the port is ready: the driver binds under a temporary name,
/// publish() gives it the configured one. So no guest connects before the features are set, a
/// socket file left behind by a killed run does no harm, and who waits for the file may connect.
class VhostSocket {
 public:
  VhostSocket() = default;
  VhostSocket(const VhostSocket&) = delete;
  VhostSocket& operator=(const VhostSocket&) = delete;
  /// Removes the socket file.
  ~VhostSocket();

  /// Checks the directory and that nobody listens at the path; changes `device.args` to the
  /// temporary name. Errors name the port, the path and what to do. Does nothing where DPDK is the
  /// client (client=1).
  Result<void> prepare(const std::string& port, DpdkDevice& device);

  /// After rte_eth_dev_start(): takes away features that stop guests from working, then shows the
  /// socket.
  Result<void> publish(const std::string& port);

 private:
  bool server() const { return !path_.empty(); }
  std::string path_;       ///< as configured; empty where DPDK is the client
  std::string temporary_;  ///< as the driver binds it
  bool published_ = false;
};

}  // namespace understudy
