// Follows the connections of a capture, part by part: each direction's packets go through a request
// stream, its rate is measured, and what a connection is as a whole is judged.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "tools/roce_check/checks/analysis.h"
#include "tools/roce_check/packets/path_mtu.h"
#include "tools/roce_check/requests/request_stream.h"

namespace understudy {

class Follower {
 public:
  Follower(const AnalysisOptions& options, Analysis& analysis);

  /// Whether the capture says of itself that it lacks nothing, as far as that is known.
  void set_complete(bool complete) { complete_ = complete; }
  /// The newest part of the capture, and what was held back before. What has been followed leaves
  /// the lists of its flows. `all`: nothing is held back.
  void follow(bool all);
  /// The same for the last part: the lists stay as they are, and the connections get their results.
  void finish();
  /// The capture says, or as far as it shows, lacks nothing.
  bool gapless() const;
  size_t connections() const { return connections_.size(); }

 private:
  struct Connection {
    FlowPair pair;
    std::unique_ptr<RequestStream> forward, reverse;
    PathMtu pmtu;
    uint32_t agreed_pmtu = 0;
    bool counted = false;  ///< what was held back of it has been added to `pmtu`
    bool odd_said = false, ways_compared = false;
  };

  void find_pairs(bool all);
  void add(const FlowPair& pair);
  bool learn(Connection& c, bool all);
  void begin(Connection& c);
  void compare_both(Connection& c);
  void feed(Connection& c);
  void measure(uint32_t flow);
  void end(Connection& c);
  RequestStream* stream_of(uint32_t flow);
  StreamContext context(const FlowPair& pair, uint32_t flow, uint32_t other) const;
  QueueRate rate(uint32_t flow) const;
  void missing(const DirectionResult& d);

  const AnalysisOptions& options_;
  Analysis& analysis_;
  PacketTable& table_;
  Pairing pairing_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> of_flow_;              ///< null: of none yet
  std::map<uint32_t, std::vector<Psn>> damaged_;  ///< of flows whose connection is not known yet
  std::vector<RateMeter> meters_;                 ///< by flow
  bool complete_ = false;
  uint64_t not_captured_ = 0, sent_before_ = 0;
};

}  // namespace understudy
