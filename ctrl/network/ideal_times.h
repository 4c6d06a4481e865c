// What flows take that are alone in the network: the time beside which their slowdown is measured.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/topology/topology.h"
#include "dataplane/fabric/flow.h"

namespace understudy {

/// From a flow's start until its last byte is at its receiver, at the sender's line rate, over the
/// path that it has when nothing has changed yet. By the same model as the run: packet by packet
/// over the wires of the path, exact to the picosecond; or as a rate.
class IdealTimes {
 public:
  /// All outlive this. `flows` are routed.
  IdealTimes(const Config& config, const Topology& topology, const std::vector<FlowSpec>& flows)
      : config_(config),
        topology_(topology),
        flows_(flows),
        routes_(topology.routes(config.seed)) {}

  /// `flow`: a position in the list of flows.
  Duration of(size_t flow);

 private:
  /// Rate and latency of each link of a path.
  using Shape = std::vector<std::pair<uint64_t, int64_t>>;

  Duration on_network(size_t flow);
  Duration as_rate(const FlowSpec& flow, const std::vector<LinkId>& path) const;
  Duration packet_by_packet(const FlowSpec& flow,
                            const std::vector<std::vector<LinkId>>& paths) const;

  const Config& config_;
  const Topology& topology_;
  const std::vector<FlowSpec>& flows_;
  Routes routes_;
  std::map<std::pair<Shape, uint64_t>, Duration> known_;  ///< by shape and size
};

}  // namespace understudy
