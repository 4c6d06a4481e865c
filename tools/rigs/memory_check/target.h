// One reliable connection to the memory of a [[service]] (memory = "backed"), made by the exchange
// of perftest 4.5. The exchange is written here once more on purpose: this program and the
// emulator check each other.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "dataplane/base/address.h"
#include "dataplane/base/result.h"
#include "tools/rigs/ring_node/base/tcp.h"
#include "tools/rigs/ring_node/verbs/verbs_device.h"

namespace understudy {

struct TargetOptions {
  IpAddress server;
  uint16_t port = 18515;
  uint32_t mtu = 4096;
  uint8_t timeout = 14;  ///< 4.096 us << timeout
  unsigned send_queue = 64;
};

/// Most READs and ATOMICs under way, both directions.
inline constexpr unsigned kTargetReads = 16;

class Target {
 public:
  static Result<Target> connect(const TargetOptions& options);

  ibv_qp* queue_pair() const { return qp_.get(); }
  ibv_cq* completion_queue() const { return device_.completion_queue(); }
  ibv_pd* domain() const { return device_.domain(); }
  uint64_t address() const { return address_; }
  uint32_t rkey() const { return rkey_; }
  /// Ends the exchange as perftest does.
  Result<void> finish();

 private:
  Target(VerbsDevice device, TcpStream stream)
      : device_(std::move(device)), stream_(std::move(stream)) {}
  Result<void> make_queue_pair(const TargetOptions& options);
  Result<void> exchange(const TargetOptions& options);
  /// Sends `message` and receives an answer of the same size.
  Result<std::string> ask(const std::string& message);
  Result<void> to_ready(const TargetOptions& options, const std::string& key, uint32_t mtu_code);

  VerbsDevice device_;
  TcpStream stream_;
  VerbsQueuePair qp_;  // after the device: destroyed before it
  uint64_t address_ = 0;
  uint32_t rkey_ = 0;
};

}  // namespace understudy
