// Which nodes of different ranks belong together: a send and its receive, and the ranks of a
// collective.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collective_model/traces/trace_executor.h"

namespace understudy {

/// Sends and receives with the same key meet in order.
struct TraceMessageKey {
  uint32_t tag, from, to;
  uint64_t bytes;
  auto operator<=>(const TraceMessageKey&) const = default;
};
/// Of a kSend or kReceive of `rank`, with its peer. ASTRA-sim has 500,000,000 tags for messages of a
/// trace (Sys.hh).
TraceMessageKey message_key(uint32_t rank, const TraceNode& node);

/// The groups of collectives.
class TraceGroups {
 public:
  /// `job` outlives this, and keeps its groups.
  TraceGroups(const TraceJob& job, TraceRules rules);

  /// The group of a collective of `rank`; nothing: all ranks. By the first feeder's rules the last one that
  /// has the rank, in the order of its file's parser, which is that of the numbers' digits; else the node's.
  /// An error says that there is no such group.
  Result<std::optional<uint32_t>> of(uint32_t rank, const TraceNode& node) const;

 private:
  const TraceJob* job_;
  TraceRules rules_;
  std::vector<std::optional<uint32_t>> last_;  ///< kFeeder1: by rank
};

/// Sends and receives of a job.
class MessageEnds {
 public:
  explicit MessageEnds(const TraceJob& job) : job_(job) {}

  /// An error says what a send or receive lacks, or has too much of.
  Result<void> add(uint32_t rank, const TraceNode& node, TraceRules rules);
  /// Whether receives have their sends and sends their receives. An error names rank and node.
  Result<void> check();

 private:
  struct End {
    TraceMessageKey key;
    bool receives;
    uint32_t rank;
    const TraceNode* node;
  };
  const TraceJob& job_;
  std::vector<End> ends_;
};

/// Of ranks that carry out collectives together, each one's in the order of its ids.
using CollectivesOfRanks = std::map<uint32_t, std::vector<const TraceNode*>>;
/// Whether all ranks have the same ones, in any order. An error names the first rank that has not.
Result<void> compare_ranks(const std::string& name, const std::vector<uint32_t>& ranks,
                           CollectivesOfRanks& collectives);

}  // namespace understudy
