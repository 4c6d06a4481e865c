// A flow: so many bytes from one NIC to another. What background traffic, other jobs and the
// oracles' cases are made of; carried packet by packet (network.h) or as a rate (max_min.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/units.h"
#include "dataplane/fabric/graph.h"

namespace understudy {

inline constexpr uint32_t kNoControl = 0xffffffff;
inline constexpr uint32_t kNoConnection = 0xffffffff;
inline constexpr uint64_t kNoFlowNumber = ~uint64_t{0};
inline constexpr uint32_t kNoGroup = 0xffffffff;

struct FlowSpec {
  VertexId from = kNoVertex, to = kNoVertex;  ///< NICs
  uint64_t bytes = 0;                         ///< payload
  /// When it starts: this long after time zero, or after the last flow of `after` has come in
  /// whole.
  Duration start;
  /// Tells the flow from others of its pair where switches choose by hash (flow_hash()). Without,
  /// it has a path.
  uint64_t number = kNoFlowNumber;
  uint32_t control = kNoControl;  ///< position in the list of congestion controls; none: line rate
  /// Flows of one connection (a queue pair) take the same path and leave one after another, in the
  /// order in which they start. Numbered over the whole list; of those that start at one moment
  /// lower numbers go first.
  uint32_t connection = kNoConnection;
  /// Flows that are started and stopped together stand one behind the other in the list, and share
  /// connections with no other; see dataplane/flows/flow_groups.h. None: nobody stops it.
  uint32_t group = kNoGroup;
  bool held = false;         ///< its whole group is stopped until it is started
  uint8_t priority = 0;      ///< priority class, 0..7
  bool ect = true;           ///< its packets may be marked instead of dropped
  uint8_t ack_every = 0;     ///< packets; 0: as FlowSettings says
  uint8_t first_header = 0;  ///< bytes of headers that only its first packet has
  uint8_t last_header = 0;   ///< and its last one
  /// Packet spraying where each switch chooses: its packets take so many of the pair's shortest
  /// paths in turn, evenly apart, or all if there are no more. Its receiver then takes packets in
  /// any order.
  uint8_t most_paths = 1;
  /// All links from NIC to NIC, which its packets carry with them.
  std::vector<LinkId> path;
  /// The same for acknowledgements; empty: the reverse of `path`, or, without that, each switch
  /// chooses.
  std::vector<LinkId> back;
  /// Packet spraying over given paths, `path` among them.
  std::vector<std::vector<LinkId>> spray;
  std::vector<uint32_t> after;  ///< positions of other flows in the same list
  std::string name;             ///< "incast 3", or the id that a flow file gave it
};

/// Frames and acknowledgements of flows. Defaults: RoCEv2 over IPv4 without VLAN.
struct FlowSettings {
  uint32_t payload = 4096;  ///< bytes of a full packet
  uint32_t overhead = 62;   ///< bytes that queues and buffers count on top: headers, ICRC, FCS
  uint32_t gap = 20;        ///< bytes that links count on top of that: preamble and gap
  uint32_t ack_bytes = 66;  ///< of an acknowledgement, as queues count it
  uint32_t ack_every = 1;   ///< packets; the last one of a flow is always acknowledged
  std::optional<uint8_t> ack_priority;  ///< without: that of the flow
  uint32_t cnp_bytes = 78;
  uint8_t cnp_priority = 6;
  bool rate_counts_gap = true;  ///< a rate counts what links count; false: what queues count
  /// A sender that had to wait for others of its NIC makes up for no more than this.
  Duration catch_up = Duration::us(10);
  /// A sender that hears nothing for this long goes back (rule A5); zero: never.
  Duration timeout = Duration::us(67'109);
  /// So many timeouts in a row, without an acknowledgement in between, make a sender try again; at
  /// the next one it gives up. Nothing: kRetries, and only if its way is closed and will stay so
  /// (FlowTraffic::give_up_after()).
  std::optional<uint32_t> retries;
  static constexpr uint32_t kRetries = 7;
  Duration resolution;  ///< as NetworkSettings::resolution, for the times between packets
};

}  // namespace understudy
