// What NCCL is told of its network connections.
#pragma once

#include <cstdint>
#include <optional>

#include "ctrl/config/config.h"
#include "dataplane/nccl/port_failover.h"

namespace understudy {

/// How long a queue pair of NCCL's waits for an acknowledgement, and how often it sends again.
struct NetIbRetries {
  uint8_t timeout = 0;  ///< NCCL_IB_TIMEOUT: 4.096 us * 2^timeout; 0: for ever
  uint8_t count = 0;    ///< NCCL_IB_RETRY_CNT

  /// One timeout; nothing: it waits for ever.
  std::optional<Duration> once() const;
  /// The silence after which the queue pair gives up: the first try's, and one of each retry.
  std::optional<Duration> all() const;
};

struct NetIbEnvironment {
  uint32_t queue_pairs = 1;        ///< NCCL_IB_QPS_PER_CONNECTION
  std::optional<bool> split_data;  ///< NCCL_IB_SPLIT_DATA_ON_QPS; else the release's default
  std::optional<uint8_t> timeout, retries;  ///< NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT

  bool port_failover = false;      ///< NCCL_IB_RESILIENCY_PORT_FAILOVER
  FailoverSettings failover = {};  ///< the others that begin so

  /// Nothing: it is off, or the release has none.
  std::optional<FailoverSettings> failover_of(NcclVersion version) const;
  /// With the defaults of this release (docs/nccl appendix H).
  NetIbRetries retries_of(NcclVersion version) const;
};

/// Of [nccl] environment.
NetIbEnvironment net_ib_environment(const Config& config);

}  // namespace understudy
