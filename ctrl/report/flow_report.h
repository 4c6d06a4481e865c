// What a run of [[traffic]] came to, as plain values: flows, links, and how it was computed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ctrl/report/slowdown.h"
#include "ctrl/report/workload/trace_report.h"
#include "ctrl/report/workload/training_report.h"
#include "dataplane/base/units.h"

namespace understudy {

/// Counters by name, in a fixed order.
using NamedCounts = std::vector<std::pair<std::string, uint64_t>>;

struct FlowReport {
  std::string name;
  std::string from, to;  ///< NICs
  uint64_t bytes = 0;
  Time start;
  /// From its start until its last byte was at the receiver; nothing: it was still under way.
  std::optional<Duration> received;
  /// Packet fidelity only: until the last acknowledgement was at the sender, and what it took.
  std::optional<Duration> acknowledged;
  NamedCounts packets;
  /// What it takes alone in the network, if that was asked for.
  std::optional<Duration> ideal = {};
};

/// One direction of a cable that carried anything.
struct TrafficLinkReport {
  std::string name;  ///< "leaf0 -> spine1"
  Rate rate;
  uint64_t wire_bytes = 0;
  double utilisation = 0;  ///< share of what it could have carried during the run
  NamedCounts counters;    ///< packet fidelity: packets, marks, losses by reason, pauses ...
  Time queue_peak_at;
  Duration paused;  ///< its sender, by the far end's PFC frames
  std::optional<Time> first_pause;
  std::vector<Time> storms_detected = {};  ///< by the watchdog of its queues: the first four
};

/// The flows of one [[traffic]] table.
struct TrafficGroupReport {
  std::string name;
  uint32_t first = 0, count = 0;  ///< positions in the list of flows
  uint32_t ended = 0;             ///< flows that came in whole; the times are theirs
  uint64_t bytes = 0;             ///< payload of all
  Time start;                     ///< of the first one
  Duration took;                  ///< until the last one was received
  Duration mean, p99, longest;    ///< of the flows' own times until they were received
  /// Of flows that came in whole, in their order; nothing: it was not asked for.
  std::optional<std::vector<FlowSlowdown>> slowdowns = {};
};

/// One operation of a job all of whose ranks are emulated.
struct RankOperationReport {
  uint64_t bytes = 0;
  uint32_t iteration = 0;  ///< from 0, warm-ups and timed operations of a size counted apart
  bool warmup = false;
  Time start;              ///< the first rank entered
  Duration mean, longest;  ///< of the ranks' own times, from entry to having done their part
};

/// One iteration of such a job.
struct IterationReport {
  uint32_t iteration = 0;  ///< from 0, warm-ups and timed ones counted apart
  bool warmup = false;
  Time start;              ///< the first rank began
  Duration mean, longest;  ///< of the ranks' own times
  Duration compute;        ///< mean of the ranks
  Duration exposed;        ///< mean of the ranks: communication that computing did not hide
  uint32_t exposed_operations = 0;  ///< of the rank that waited for the fewest of them
};

struct RankJobReport {
  std::string name, collective, algorithm, protocol, type;
  uint32_t ranks = 0, nodes = 0, channels = 0;
  uint32_t element = 4;   ///< bytes
  double bus_factor = 1;  ///< nccl-tests': bus bandwidth over algorithm bandwidth
  uint64_t messages = 0;  ///< that crossed the network, in all operations
  std::vector<RankOperationReport> operations;
  uint32_t per_iteration = 1;               ///< operations of an iteration
  std::vector<IterationReport> iterations;  ///< empty if ranks do nothing but collectives
};

inline constexpr size_t kMostListedFlows = 100'000;

/// What the emulated ranks of a job beside a real node said to one another, packet by packet.
struct InnerMessagesReport {
  std::string job;
  NamedCounts counts;
};

struct TrafficReport {
  std::string fidelity;  ///< "packet" or "flow"; beside a real node its packets are the one anyway
  std::vector<RankJobReport> jobs;
  std::optional<TrainingReport> training = {};
  std::optional<TraceReport> traces = {};
  std::vector<InnerMessagesReport> inner_messages;
  std::vector<TrafficGroupReport> groups;
  std::vector<FlowReport> flows;  ///< empty if there are more than kMostListedFlows
  std::vector<TrafficLinkReport> links;
  /// Links that will be paused for ever, each by the switch behind it, which waits for the next.
  std::vector<std::string> deadlock;
  NamedCounts work;  ///< what the computation took: events, packets, bytes of memory
};

}  // namespace understudy
