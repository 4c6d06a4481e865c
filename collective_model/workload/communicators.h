// The operations of a workload's groups on communicators: whose member a rank is, and which of their
// operations its own are.
//
// Communicators of one kind are a family. A rank of a workload may stand for several GPUs, which are
// members of as many communicators of the family: the rank enters them all at one moment, and is done
// when it is done in all of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "collective_model/workload/executor.h"
#include "collective_model/workload/workload.h"

namespace understudy {

/// Carries out operations of communicators, each of which numbers its own. Members enter them in
/// their order.
class CommunicatorCarrier {
 public:
  virtual ~CommunicatorCarrier() = default;
  /// `at` is not before the present.
  virtual void enter(uint32_t communicator, uint32_t operation, uint32_t member, Time at) = 0;
};

/// One that learns which operations there are as they begin.
class OperationCarrier : public CommunicatorCarrier {
 public:
  /// The communicator's next operation is of this shape; gives its number.
  virtual uint32_t append(uint32_t communicator, uint32_t shape) = 0;
};

/// Hears of members that have done their part in an operation.
class CommunicatorListener {
 public:
  virtual ~CommunicatorListener() = default;
  virtual void done(uint32_t communicator, uint32_t operation, uint32_t member, Time at) = 0;
};

struct CommunicatorFamily {
  enum class Layout : uint8_t {
    kAcross,  ///< `width` of them; rank r of the role's group is member r, behind those of roles before
    kPairs,  ///< `width` of them for each rank; member k is of role k
    /// Of one group: `width` of them for each part of its ranks, which are `members`, each `stride` behind the
    /// one before.
    kParts,
  };
  Layout layout = Layout::kAcross;
  uint32_t first = 0;                ///< number of its first communicator
  uint32_t width = 1;                ///< communicators that a rank takes part in
  uint32_t stride = 1, members = 1;  ///< kParts
  std::vector<uint32_t> groups;      ///< of the workload, by role
  /// By role and number of the family's operation: the group's operation.
  std::vector<std::vector<uint32_t>> operations;

  /// kParts: which part a rank is of, and as which member.
  uint32_t part_of(uint32_t rank) const {
    return rank % stride + rank / (stride * members) * stride;
  }
  uint32_t member_of(uint32_t rank) const { return rank / stride % members; }
  uint32_t rank_of(uint32_t part, uint32_t member) const {
    return part % stride + part / stride * stride * members + member * stride;
  }
  /// Number of the family's operation that is this one of the group's.
  size_t number_of(uint32_t group, uint32_t operation) const;
  /// Nodes and ranks of all that carry out operation `number` together with this rank, itself included.
  template <typename Each>
  void each_member(const Workload& workload, size_t number, uint32_t rank, Each each) const;
};

template <typename Each>
void CommunicatorFamily::each_member(const Workload& workload, size_t number, uint32_t rank,
                                     Each each) const {
  for (size_t role = 0; role < groups.size(); ++role) {
    const uint32_t group = groups[role];
    const uint32_t node = workload.operations(group)[operations[role][number]];
    switch (layout) {
      case Layout::kAcross:
        for (uint32_t other = 0; other < workload.ranks(group); ++other) each(node, other);
        break;
      case Layout::kPairs:
        each(node, rank);
        break;
      case Layout::kParts:
        for (uint32_t m = 0; m < members; ++m) each(node, rank_of(part_of(rank), m));
        break;
    }
  }
}

class WorkloadCommunicators : public CommunicatorListener {
 public:
  /// Every operation of a group is one of one family. `carriers`: of each family. All outlive this.
  WorkloadCommunicators(const Workload& workload, std::vector<CommunicatorFamily> families,
                        std::vector<CommunicatorCarrier*> carriers);
  ~WorkloadCommunicators() override;

  /// All ranks begin at time zero.
  void begin();
  void done(uint32_t communicator, uint32_t operation, uint32_t member, Time at) override;

  /// All operations are done on all ranks.
  bool finished() const { return left_ == 0; }
  double share_done() const {
    return 1 - static_cast<double>(left_) / static_cast<double>(std::max<size_t>(all_, 1));
  }
  const Workload& workload() const { return workload_; }
  const WorkloadExecutor& executor() const { return executor_; }
  const std::vector<CommunicatorFamily>& families() const { return families_; }
  /// When the rank was done with its group's operation; never() before.
  Time end(uint32_t group, uint32_t operation, uint32_t rank) const {
    const Part& part = parts_[group][size_t{operation} * workload_.ranks(group) + rank];
    return part.left > 0 ? Time::never() : part.end;
  }
  /// Which family a group's operation is of.
  uint32_t family_of(uint32_t group, uint32_t operation) const {
    return places_[group][operation].family;
  }

 private:
  struct Place {
    uint32_t family = 0, role = 0, number = 0;
  };
  /// Of a rank in an operation.
  struct Part {
    uint32_t left = 0;  ///< communicators in which it is not done
    Time end;
  };
  struct GroupListener;
  void enter(uint32_t group, uint32_t operation, uint32_t rank, Time at);

  const Workload& workload_;
  const std::vector<CommunicatorFamily> families_;
  const std::vector<CommunicatorCarrier*> carriers_;
  WorkloadExecutor executor_;
  std::vector<std::vector<Place>> places_;  ///< by group and operation
  std::vector<std::vector<Part>> parts_;    ///< by group; by operation and rank
  std::vector<uint32_t> family_of_;         ///< by communicator
  std::vector<std::unique_ptr<GroupListener>> listeners_;
  size_t all_ = 0, left_ = 0;  ///< parts
};

}  // namespace understudy
