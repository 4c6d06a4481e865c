// Walks through the graphs of all ranks: told what is done and when, it says what begins. It knows no
// network, no clock and no file. A node and an edge of a rank cost constant time each, and the slots'
// order a logarithm.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "collective_model/traces/free_nodes.h"
#include "collective_model/traces/trace_graph.h"
#include "collective_model/traces/trace_system.h"
#include "dataplane/base/units.h"

namespace understudy {

using TraceOrders = std::map<const TraceGraph*, TraceOrder>;

/// Orders of all graphs. An error names the rank.
Result<TraceOrders> order_job(const TraceJob& job, TraceRules rules);

/// "rank 3, node 7 (aten::mm)": ids as they are on that rank.
std::string place_text(const TraceJob& job, uint32_t rank, const TraceNode& node);

struct TraceNodeTimes {
  Time begin, end;
  bool skipped = false;  ///< it had nothing to do
};

/// Carries out nodes.
class TraceNodeListener {
 public:
  virtual ~TraceNodeListener() = default;
  /// Whether the node has nothing to do and is over as it begins.
  virtual bool is_skipped(uint32_t rank, uint32_t node) = 0;
  /// It begins now. That it has ended is told later, not from within.
  virtual void begins(uint32_t rank, uint32_t node, Time now) = 0;
};

class TraceExecutor {
 public:
  /// `recorded`: times of all nodes are kept. The first two outlive this.
  TraceExecutor(const TraceJob& job, const TraceOrders& orders, TraceRules rules, bool recorded);

  /// Before begin().
  void listen(TraceNodeListener& listener) { listener_ = &listener; }
  /// What waits for nothing begins, rank by rank.
  void begin(Time now);
  void ended(uint32_t rank, uint32_t node, Time now);
  /// Nothing more begins.
  void stop() { stopped_ = true; }

  const TraceNode& node(uint32_t rank, uint32_t index) const {
    return ranks_[rank].graph->nodes()[index];
  }
  uint32_t ranks() const { return static_cast<uint32_t>(ranks_.size()); }
  uint32_t nodes(uint32_t rank) const { return static_cast<uint32_t>(ranks_[rank].begun.size()); }
  /// Nodes that have not ended, of a rank; and of all.
  size_t left(uint32_t rank) const { return ranks_[rank].left; }
  size_t left() const { return left_; }
  /// When its last node ended.
  Time finish(uint32_t rank) const { return ranks_[rank].finish; }
  bool has_begun(uint32_t rank, uint32_t index) const { return ranks_[rank].begun[index]; }
  /// Its parents have ended, and it has not begun.
  bool is_free(uint32_t rank, uint32_t index) const {
    return !has_begun(rank, index) && ranks_[rank].parents[index] == 0;
  }
  /// A free node has its slot, and nothing has let it begin yet.
  bool startable(uint32_t rank) const { return ranks_[rank].free.startable(); }
  /// By node; empty if they are not recorded.
  const std::vector<TraceNodeTimes>& times(uint32_t rank) const { return ranks_[rank].times; }

 private:
  struct Rank {
    const TraceGraph* graph = nullptr;
    const TraceOrder* order = nullptr;
    std::vector<uint32_t> parents;  ///< by node: how many it still waits for
    std::vector<bool> begun;
    FreeNodes free;
    size_t left = 0;
    Time finish;
    bool visiting = false;
    std::vector<uint32_t> freed_by_skip;  ///< kFeeder3: not visited in the same round
    std::vector<TraceNodeTimes> times;
  };

  TraceSlot slot(const TraceNode& node) const {
    return in_streams(rules_) ? TraceSlot::kNone : slot_of(node);
  }
  void set_free(uint32_t rank, uint32_t index);
  void visit(uint32_t rank, Time now);
  void begin_node(uint32_t rank, uint32_t index, Time now);
  void free_children(Rank& rank, uint32_t number, uint32_t index);

  const TraceRules rules_;
  TraceNodeListener* listener_ = nullptr;
  std::vector<Rank> ranks_;
  size_t left_ = 0;
  bool stopped_ = false;
};

}  // namespace understudy
