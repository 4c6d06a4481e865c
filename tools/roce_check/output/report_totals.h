// Sums over all connections, for both forms of the report.
#pragma once

#include <iterator>

#include "tools/roce_check/checks/analysis.h"

namespace understudy {

inline constexpr const char* kNakNames[] = {"psn_sequence", "invalid_request", "remote_access",
                                            "remote_operational", "invalid_rd_request"};

struct Totals {
  static constexpr OpKind kKinds[4] = {OpKind::kSend, OpKind::kWrite, OpKind::kReadRequest,
                                       OpKind::kAtomicRequest};
  static constexpr const char* kKindNames[4] = {"send", "write", "read", "atomic"};

  StreamCounts counts;
  MessageSums by_kind[4];
  uint64_t broken = 0, one_way = 0;

  void add(const DirectionResult& d) {
    counts.requests += d.counts.requests;
    counts.retransmissions += d.counts.retransmissions;
    counts.responses += d.counts.responses;
    counts.repeated_responses += d.counts.repeated_responses;
    counts.acks += d.counts.acks;
    counts.rnr_naks += d.counts.rnr_naks;
    counts.unanswered += d.counts.unanswered;
    counts.late += d.counts.late;
    counts.not_captured += d.counts.not_captured;
    for (size_t i = 0; i < std::size(counts.naks); ++i) counts.naks[i] += d.counts.naks[i];
    for (size_t i = 0; i < std::size(kKinds); ++i) {
      by_kind[i].messages += d.messages.of(kKinds[i]).messages;
      by_kind[i].bytes += d.messages.of(kKinds[i]).bytes;
    }
  }

  explicit Totals(const Analysis& analysis) {
    for (const ConnectionResult& c : analysis.connections) {
      add(c.forward);
      add(c.reverse);
      broken += c.broken ? 1 : 0;
      one_way += c.connection.reverse == kNoFlow ? 1 : 0;
    }
  }
};

}  // namespace understudy
