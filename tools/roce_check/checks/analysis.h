// roce-check: judges a capture of RoCEv2 traffic, of understudy or of anybody else.
// capture_source -> packet_table (parse, header_rules, flows) -> pairing -> request_stream (one per
// direction of a connection) and congestion_check -> findings -> report and plot; with a
// configuration also rate_check and collective_check.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "dataplane/base/result.h"
#include "tools/roce_check/checks/queue_rates.h"
#include "tools/roce_check/findings/findings.h"
#include "tools/roce_check/findings/stream_results.h"
#include "tools/roce_check/packets/packet_table.h"
#include "tools/roce_check/packets/pairing.h"

namespace understudy {

struct AnalysisOptions {
  /// The capture was stopped in mid-run: what is in flight at its end is not held against it.
  bool open_end = false;
  /// The capture is a part of the traffic: it may begin inside connections and lack packets.
  bool partial = false;
  /// The network may have duplicated and reordered packets between the capture and an endpoint.
  bool impaired = false;
  /// Between CNPs to one queue pair, as their senders were configured.
  std::optional<Duration> cnp_interval = {};
  /// Receivers that send no CNPs for what is marked, besides the kernels of `config`.
  std::vector<IpAddress> without_cnps = {};
  /// Of the run that was captured: rates and collectives are checked against it. May be null.
  const Config* config = nullptr;
};

/// One direction of a connection: who asks, and what became of it.
struct DirectionResult {
  uint32_t flow = kNoFlow;  ///< that carries the requests
  StreamCounts counts;
  StreamTimes times;
  QueueRate rate;
  std::vector<AcceptedMessage> messages;
};

struct ConnectionResult {
  FlowPair connection;
  bool broken = false;  ///< ended by a NAK other than PSN sequence error
  DirectionResult forward, reverse;
};

struct Analysis {
  SourceSummary source;
  PacketTable table;
  std::vector<ConnectionResult> connections;
  Findings findings;
};

/// Reads and judges the file. Errors: the file cannot be read.
Result<Analysis> analyse(const std::string& path, const AnalysisOptions& options);

}  // namespace understudy
