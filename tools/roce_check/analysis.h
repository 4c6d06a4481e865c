// roce-check: judges a capture of RoCEv2 traffic, of understudy or of anybody else.
// capture_source -> packet_table (parse, ICRC, flows) -> pairing -> request_stream (one per
// direction of a connection) -> findings -> report; with a configuration also rate_check and
// collective_check.
#pragma once

#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "dataplane/base/result.h"
#include "tools/roce_check/findings.h"
#include "tools/roce_check/packet_table.h"
#include "tools/roce_check/pairing.h"
#include "tools/roce_check/request_stream.h"

namespace understudy {

struct AnalysisOptions {
  /// The capture was stopped in mid-run: what is in flight at its end is not held against it.
  bool open_end = false;
  /// Of the run that was captured: rates and collectives are checked against it. May be null.
  const Config* config = nullptr;
};

/// One direction of a connection: who asks, and what became of it.
struct DirectionResult {
  uint32_t flow = kNoFlow;  ///< that carries the requests
  StreamCounts counts;
  std::vector<AcceptedMessage> messages;
};

struct ConnectionResult {
  Connection connection;
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
