// What a run carries out, as a graph: nodes are start times, computations and operations of groups
// of ranks (communicators); edges say what waits for what. Every rank of a group has its own instance
// of each of the group's nodes. Plain values: executor.h walks through it.
//
// A [[job]] is a chain of operations (chain.h). A start time of a job is a node, and that one job
// follows another one is an edge.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/base/units.h"

namespace understudy {

/// Which ranks of one group wait for which ranks of another one. Ranks of both are at places, for
/// example nodes of the cluster.
struct RankPlaces {
  std::vector<uint32_t> of_former;             ///< by rank of the former group: its place, from 0
  std::vector<uint32_t> former_at;             ///< by place: how many ranks of the former it has
  std::vector<std::vector<uint32_t>> waiting;  ///< by place: ranks of the latter that wait for it
  std::vector<uint32_t> rest;  ///< ranks of the latter that wait for all of the former

  /// Ranks wait for those at their own place; where none of the former is, for all of them. `former`
  /// and `latter` name the place of each rank, in numbers of any kind.
  static RankPlaces own_place_or_all(const std::vector<uint32_t>& former,
                                     const std::vector<uint32_t>& latter);
};

struct WorkloadNode {
  enum class Kind : uint8_t {
    kStart,      ///< done at a time, or when its ranks can begin, whichever is later
    kCompute,    ///< done so long after it could begin
    kOperation,  ///< done when its executor is told so
  };
  Kind kind = Kind::kOperation;
  uint32_t group = 0;
  uint32_t operation = 0;  ///< kOperation: number of the group's
  Time start = {};         ///< kStart: not before
  Duration period = {};    ///< kOperation: ranks enter at its multiples; 0: at any time
  /// By rank, or one for all; empty: none. kCompute: what it takes. kOperation: how much later than
  /// it could a rank enters.
  std::vector<Duration> times = {};

  Duration time(uint32_t rank) const {
    if (times.empty()) return Duration();
    return times.size() == 1 ? times.front() : times[rank];
  }
};

class Workload {
 public:
  static constexpr uint32_t kAllAlike = ~uint32_t{0};
  struct Edge {
    uint32_t to = 0;
    uint32_t places = kAllAlike;  ///< number of the RankPlaces; kAllAlike: rank by rank
  };

  /// Ranks that carry out nodes together.
  uint32_t add_group(uint32_t ranks);
  /// Gives the node its number. A group's operations are numbered as they are added.
  uint32_t add(WorkloadNode node);
  /// `to` waits for `from`, on each rank; both are of one group.
  void order(uint32_t from, uint32_t to);
  /// The same of two groups.
  void order(uint32_t from, uint32_t to, RankPlaces places);

  uint32_t groups() const { return static_cast<uint32_t>(ranks_.size()); }
  uint32_t ranks(uint32_t group) const { return ranks_[group]; }
  const std::vector<WorkloadNode>& nodes() const { return nodes_; }
  const std::vector<Edge>& edges(uint32_t node) const { return edges_[node]; }
  const std::vector<RankPlaces>& places() const { return places_; }
  /// Nodes of a group's operations, in order.
  const std::vector<uint32_t>& operations(uint32_t group) const { return operations_[group]; }
  /// The first node of a group, and the last operation.
  uint32_t first(uint32_t group) const { return first_[group]; }
  uint32_t last(uint32_t group) const { return operations_[group].back(); }

  /// Nodes that wait for each other, each for the one before it and the first one for the last;
  /// empty: there are none, and the workload can come to its end. Linear in nodes and edges.
  std::vector<uint32_t> cycle() const;

 private:
  std::vector<uint32_t> ranks_, first_;            ///< by group
  std::vector<std::vector<uint32_t>> operations_;  ///< by group
  std::vector<WorkloadNode> nodes_;
  std::vector<std::vector<Edge>> edges_;  ///< by node that they leave
  std::vector<RankPlaces> places_;
};

}  // namespace understudy
