// Reliable queue pairs on a real RDMA device, set up as NCCL sets up its own (docs/nccl 2.4), and
// what it posts to them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dataplane/base/address.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/result.h"
#include "tools/rigs/ring_node/verbs/verbs_device.h"

namespace understudy {

/// The other end of a queue pair.
struct QueuePairPeer {
  IpAddress gid;
  uint32_t qpn = 0;
  uint32_t psn = 0;  ///< of its first packet
  uint32_t mtu = 0;  ///< path MTU in bytes, of both
  uint8_t traffic_class = 0;
};

/// In INIT; its completions come in the device's completion queue. `access`: what the peer may do.
Result<VerbsQueuePair> make_queue_pair(const VerbsDevice& device,
                                       int access = IBV_ACCESS_REMOTE_WRITE);
/// Ready to receive and to send, with PSN 0.
Result<void> connect_queue_pair(ibv_qp* qp, const VerbsDevice& device, const QueuePairPeer& peer);

struct VerbsWrite {
  uint64_t id = 0;     ///< of its completion
  uint64_t local = 0;  ///< address of the bytes
  uint32_t bytes = 0;
  uint32_t lkey = 0;
  uint64_t remote = 0;
  uint32_t rkey = 0;
  bool signalled = true;
  std::optional<uint32_t> immediate;  ///< as it stands in memory: verbs does not swap it
};

/// `what` is told in errors.
Result<void> post_write(ibv_qp* qp, const VerbsWrite& write, const std::string& what);
/// For the immediate of a WRITE: no memory.
Result<void> post_receive(ibv_qp* qp, uint64_t id);

}  // namespace understudy
