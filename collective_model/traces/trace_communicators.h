// The communicators of traces: which ranks carry out collectives together, and which send to which.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "collective_model/traces/trace_computing.h"
#include "collective_model/traces/trace_matching.h"

namespace understudy {

/// Operations of a communicator that are alike.
struct TraceShape {
  std::optional<TraceCollective> collective;  ///< none: a message
  uint64_t bytes = 0;                         ///< as TraceNode has them
  uint64_t count = 0;
};

/// It has no bytes, and is over as it begins.
inline bool is_nothing(const TraceShape& shape) {
  return shape.bytes == 0 && shape.collective != TraceCollective::kBarrier;
}

struct TraceCommunicator {
  std::string name;             ///< "all ranks", "group 3", "messages from rank 0 to rank 4"
  std::vector<uint32_t> ranks;  ///< of its members: ascending; of messages sender and receiver
  bool messages = false;
  std::vector<TraceShape> shapes;
};

class TraceCommunicators {
 public:
  /// Of all communication that is not carried out as a computation. Errors name rank and node: what an
  /// operation lacks, sends without receives, ranks of a group that do not do the same; and by
  /// streams, which have an order, the first two that do not belong together.
  /// `orders` are the job's.
  static Result<TraceCommunicators> find(const TraceJob& job, const TraceOrders& orders,
                                         TraceRules rules, const TraceComputing& computing);

  const std::vector<TraceCommunicator>& all() const { return all_; }

  struct Place {
    uint32_t communicator = 0, member = 0, shape = 0;
  };
  /// Of a rank's collective, send or receive.
  Place place(uint32_t rank, const TraceNode& node) const;

 private:
  TraceCommunicators(const TraceJob& job, TraceRules rules)
      : job_(&job), of_collectives_(job, rules) {}

  Result<void> add_collective(uint32_t rank, const TraceNode& node);
  void add_message(uint32_t rank, const TraceNode& node);
  void count(uint32_t communicator, const TraceNode& node);
  Result<void> check_order() const;

  const TraceJob* job_;
  TraceGroups of_collectives_;
  std::vector<TraceCommunicator> all_;
  /// All ranks: nothing. A group: its number. Ranks that differ in some dimensions only: a set of these,
  /// and the least rank.
  using Group = std::variant<std::monostate, uint32_t, std::pair<uint64_t, uint32_t>>;
  Result<Group> group_of_node(uint32_t rank, const TraceNode& node) const;
  Result<TraceCommunicator> make_group(const Group& group) const;
  std::map<Group, uint32_t> groups_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> messages_;  ///< by sender and receiver
  using Shape = std::pair<std::optional<TraceCollective>, uint64_t>;
  std::vector<std::map<Shape, uint32_t>> shapes_;      ///< by communicator
  std::vector<std::map<uint32_t, uint32_t>> members_;  ///< by communicator: of a rank
  std::vector<CollectivesOfRanks> collectives_;        ///< by communicator; while they are found
};

}  // namespace understudy
