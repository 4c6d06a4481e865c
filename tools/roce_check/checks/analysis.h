// roce-check: judges a capture of RoCEv2 traffic, of understudy or of anybody else.
// capture_source -> packet_reader (parse, header_rules, flows) -> pairing -> follower (a
// request_stream for each direction of a connection) and congestion_check -> findings -> report and
// plot; with a configuration also rate_check and collective_check.
//
// A capture is judged part by part, and what has been judged is forgotten: memory grows with
// connections and with what waits for an answer, not with packets.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "dataplane/base/result.h"
#include "tools/roce_check/checks/queue_rates.h"
#include "tools/roce_check/findings/findings.h"
#include "tools/roce_check/findings/stream_results.h"
#include "tools/roce_check/packets/capture_source.h"
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
  /// Of the run that was captured: headers, rates and collectives are checked against it. May be
  /// null.
  const Config* config = nullptr;
  /// All packets and messages stay in the tables, for what looks at a capture as a whole: a plot,
  /// the comparison of two ends, and rates and collectives by `config`.
  bool keep_packets = false;
  /// The capture has no end of its own, and packets are not kept: by `config` only headers and
  /// CNPs are judged.
  bool endless = false;
  bool keeps_all() const { return keep_packets || (config != nullptr && !endless); }
  /// Packets of reliable and unreliable connections in one part.
  size_t part = size_t{1} << 18;
  /// Packets that wait for others to tell whose they are, before they are judged without.
  size_t most_held_back = size_t{1} << 18;
};

/// One direction of a connection: who asks, and what became of it.
struct DirectionResult {
  uint32_t flow = kNoFlow;  ///< that carries the requests
  StreamCounts counts;
  StreamTimes times;
  QueueRate rate;
  MessageLog messages;
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

/// Judges frames as they come.
class Analyser {
 public:
  explicit Analyser(const AnalysisOptions& options);
  ~Analyser();
  Analyser(const Analyser&) = delete;
  Analyser& operator=(const Analyser&) = delete;

  /// `summary`: of the frame's source, up to now.
  void frame(const SourceFrame& frame, const SourceSummary& summary);
  /// Judges what has come so far, but for what only later packets can explain.
  void settle(const SourceSummary& summary);
  /// What was found up to the last settle().
  const Findings& findings() const;
  const PacketCounts& counts() const;
  /// That were found up to the last settle().
  size_t connections() const;
  /// The capture is over.
  Analysis finish(const SourceSummary& summary);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Reads and judges the file. Errors: the file cannot be read.
Result<Analysis> analyse(const std::string& path, const AnalysisOptions& options);
Result<Analysis> analyse(CaptureSource& source, const AnalysisOptions& options);

}  // namespace understudy
