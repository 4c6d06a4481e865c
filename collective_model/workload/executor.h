// Walks through a workload: told what is done and when, it says what may begin and when. It knows no
// packet, no clock and no file. Each instance of a node and each edge costs the same; nothing is
// allocated once it is made.
#pragma once

#include <cstdint>
#include <vector>

#include "collective_model/workload/workload.h"

namespace understudy {

/// Carries out operations on a rank.
class WorkloadListener {
 public:
  virtual ~WorkloadListener() = default;
  /// The rank enters its group's operation at `at`. That may be later than what is being told, and
  /// never is earlier than what it waited for was done.
  virtual void may_enter(uint32_t operation, uint32_t rank, Time at) = 0;
};

class WorkloadExecutor {
 public:
  /// `workload` has no cycle and outlives this.
  explicit WorkloadExecutor(const Workload& workload);

  /// Before the rank begins. The listener may call back at once.
  void listen(uint32_t group, uint32_t rank, WorkloadListener& listener);
  /// The rank is ready for the group's first node, which is a start.
  void begin(uint32_t group, uint32_t rank, Time now);
  /// The rank has done its part in an operation that it may enter.
  void done(uint32_t group, uint32_t operation, uint32_t rank, Time at);

  /// When the node could begin on the rank, once nothing holds it up any more: a computation began, an
  /// operation could be entered.
  Time ready(uint32_t node, uint32_t rank) const { return instances_[instance(node, rank)].at; }
  /// When the rank's first node was done, start time and what it waits for; zero before.
  Time begun(uint32_t group, uint32_t rank) const;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  /// Of a node on a rank.
  struct Instance {
    Time at;            ///< the latest that it waited for
    uint32_t left = 0;  ///< that it still waits for
    uint32_t node = 0;
    uint32_t next = kNone;  ///< behind it among those that are ready
  };
  /// Ranks at a place that an edge still waits for, or places; and the latest of these.
  struct Count {
    uint32_t left = 0;
    Time at;
  };

  uint32_t instance(uint32_t node, uint32_t rank) const { return first_[node] + rank; }
  void arrive(uint32_t node, uint32_t rank, Time at);
  void release(uint32_t node, uint32_t rank, Time at);
  void release_at_place(const Workload::Edge& edge, uint32_t rank, Time at);
  void settle();
  void carry_out(uint32_t instance);

  const Workload& workload_;
  std::vector<uint32_t> first_;  ///< by node: the instance of its rank 0
  std::vector<Instance> instances_;
  std::vector<std::vector<Count>> counts_;  ///< by RankPlaces: of each place, then of all
  std::vector<std::vector<WorkloadListener*>> listeners_;  ///< by group and rank
  uint32_t ready_ = kNone, last_ready_ = kNone;
  bool settling_ = false;
};

}  // namespace understudy
