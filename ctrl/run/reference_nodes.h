// The reference nodes of a run in virtual time: real nodes that are shards of ours.
#pragma once

#include <memory>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/report/run_report.h"
#include "ctrl/shards/shard_side.h"

namespace understudy {

class ReferenceNodes {
 public:
  /// What is behind a port of the configuration: no shard if its node is a kernel.
  struct Port {
    ShardSide* side = nullptr;
    uint32_t number = 0;  ///< of the shard's ports
  };

  /// Behind the first `ports` of the configuration. `together`: the ports of a node belong to one
  /// shard; else each has its own.
  ReferenceNodes(const Config& config, size_t ports, bool together);

  const Port& behind(size_t port) const { return ports_[port]; }
  /// Of the shard behind each port of the configuration; null where there is none.
  std::vector<ShardControl*> controls() const;
  /// Into the report of a port: queue pairs under congestion control, once for each shard.
  void add_senders(PortReport& report, const Config& config, size_t port, Time end) const;

 private:
  std::vector<std::unique_ptr<ShardSide>> sides_;
  std::vector<Port> ports_;  ///< by port of the configuration
};

}  // namespace understudy
