// The reference nodes of a run in virtual time: real nodes that are shards of ours.
#pragma once

#include <memory>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/report/run_report.h"
#include "ctrl/session/shard_control.h"
#include "dataplane/engine/shard.h"

namespace understudy {

/// A shard with its control.
struct ShardSide {
  explicit ShardSide(const ShardConfig& config) : shard(config), control(shard) {}
  Shard shard;
  ShardControl control;
};

class ReferenceNodes {
 public:
  /// What is behind a port of the configuration: no shard if its node is a kernel.
  struct Port {
    ShardSide* side = nullptr;
    uint32_t number = 0;  ///< of the shard's ports
  };

  /// `together`: the ports of a node belong to one shard; else each has its own.
  ReferenceNodes(const Config& config, bool together);

  const Port& behind(size_t port) const { return ports_[port]; }
  /// Into the report of a port: queue pairs under congestion control, once for each shard.
  void add_senders(PortReport& report, const Config& config, size_t port, Time end) const;

 private:
  std::vector<std::unique_ptr<ShardSide>> sides_;
  std::vector<Port> ports_;  ///< by port of the configuration
};

}  // namespace understudy
