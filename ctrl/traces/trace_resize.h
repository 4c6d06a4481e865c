// Traces of a data-parallel job for another number of replicas: what one replica does is repeated.
//
// Ranks are numbered inner + inner_ranks * (replica + replicas * outer); a rank alone may be a replica. All
// replicas do the same: nodes are equal but for the ranks that they name, which are of the same replica, and
// for their groups, which are of one replica, or have equal parts of all of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collective_model/traces/trace_system.h"

namespace understudy {

struct TraceLayout {
  uint32_t inner = 1, replicas = 1, outer = 1;
};

struct ResizeOptions {
  uint32_t ranks = 1;  ///< wanted
  /// Of the layout; nothing: it is found. Every rank a replica is tried first; of others one alone must fit.
  std::optional<uint32_t> inner, replicas;
};

class TraceResize {
 public:
  /// `job` outlives this. Errors name rank and node of what does not repeat, the layouts where several fit, and
  /// numbers of ranks that are no multiple of a replica's.
  static Result<TraceResize> make(const TraceJob& job, const ResizeOptions& options);

  const TraceLayout& layout() const { return layout_; }  ///< of the job
  uint32_t replicas() const { return replicas_; }        ///< wanted
  uint32_t ranks() const { return layout_.inner * replicas_ * layout_.outer; }
  /// The rank of the job whose trace a rank has, but for what change() does to its nodes.
  uint32_t model(uint32_t rank) const;
  /// Ends of messages, groups, and what a rank contributes to an all-gather of all replicas.
  void change(uint32_t rank, TraceNode& node) const;
  /// Whether change() does nothing on any rank.
  bool copies() const { return copies_; }
  const std::map<uint32_t, std::vector<uint32_t>>& groups() const { return groups_; }
  /// What was taken for granted: sentences.
  std::vector<std::string> assumed() const;

  /// All in memory.
  TraceJob job() const;

 private:
  struct Place {
    uint32_t inner = 0, replica = 0, outer = 0;
  };
  /// A group of the job that its first replica has a part in.
  struct Group {
    bool across = false;          ///< of all replicas
    std::vector<uint32_t> first;  ///< its numbers by replica wanted; one if `across`
  };

  TraceResize(const TraceJob& job, const TraceLayout& layout, uint32_t replicas)
      : job_(job), layout_(layout), replicas_(replicas) {}
  Place place(uint32_t rank) const {
    return {rank % layout_.inner, rank / layout_.inner % layout_.replicas,
            rank / layout_.inner / layout_.replicas};
  }
  uint32_t rank_of(const Place& place, uint32_t replicas) const {
    return place.inner + layout_.inner * (place.replica + replicas * place.outer);
  }
  Result<void> check();
  Result<void> check_rank(uint32_t rank, uint32_t model) const;
  Result<void> check_node(uint32_t rank, const TraceNode& node, const TraceNode& model) const;
  Result<void> check_peer(uint32_t rank, const std::optional<uint32_t>& own,
                          const std::optional<uint32_t>& of_model) const;
  Result<const std::vector<uint32_t>*> members(const TraceNode& node) const;
  Result<void> check_group(uint32_t rank, const TraceNode& node, const TraceNode& model) const;
  bool whole(const std::vector<uint32_t>& group) const;
  Result<std::vector<uint32_t>> widened(const std::vector<uint32_t>& group) const;
  Result<void> make_groups();
  Result<void> make_group(const TraceNode& node);

  const TraceJob& job_;
  TraceLayout layout_;
  uint32_t replicas_ = 1;
  bool copies_ = true;
  std::map<std::string, Group> known_;  ///< by the job's names
  std::map<uint32_t, std::vector<uint32_t>> groups_;
  bool gathers_ = false;  ///< there is an all-gather of all replicas
};

}  // namespace understudy
