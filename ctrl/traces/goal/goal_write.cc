#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>

#include "collective_model/traces/trace_executor.h"
#include "ctrl/traces/goal/goal.h"
#include "ctrl/traces/goal/goal_rings.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

using GoalKind = GoalOperation::Kind;
// ASTRA-sim takes tags modulo the second one.
constexpr uint32_t kFirstRingTag = 250'000'000, kBehindTags = 500'000'000;

/// Ranks of a communicator in their order.
struct GoalGroup {
  std::vector<uint32_t> ranks;
  std::map<uint32_t, uint32_t> places;
  /// Of its collectives in order: what they are, and the tag of the first step.
  struct Met {
    TraceCollective collective = TraceCollective::kAllReduce;
    uint64_t bytes = 0;
    uint32_t tag = 0;
  };
  std::vector<Met> met;
};

class GoalMaker {
 public:
  explicit GoalMaker(const TraceJob& job) : job_(job) {}

  Result<GoalSchedule> run() {
    for (uint32_t rank = 0; rank < job_.ranks.size(); ++rank) TRY(add_rank(rank));
    for (const auto& [key, group] : groups_) {
      for (const uint32_t rank : group.ranks) {
        const size_t has = entered_[{key, rank}];
        if (has == group.met.size()) continue;
        return fail("group \"" + key + "\": rank " + std::to_string(rank) + " has " +
                    std::to_string(has) + " collectives, others " +
                    std::to_string(group.met.size()));
      }
    }
    return std::move(out_);
  }

 private:
  Result<void> add_rank(uint32_t rank) {
    rank_ = rank;
    to_ = &out_.ranks.emplace_back();
    const TraceGraph& graph = *job_.ranks[rank];
    if (!graph.dangling().empty()) {
      const DanglingParent& missing = graph.dangling().front();
      return fail(place_text(job_, rank, graph.nodes()[missing.node]) + ": waits for node " +
                  std::to_string(missing.parent_id) + ", which is not there");
    }
    // Parents may have higher ids than those that wait for them.
    const TraceOrder order = TRY(in_order(graph));
    ends_.assign(graph.nodes().size(), {});
    std::vector<uint32_t> left = order.parents, free;
    for (uint32_t i = 0; i < left.size(); ++i) {
      if (left[i] == 0) free.push_back(i);
    }
    std::vector<std::vector<uint32_t>> parents(left.size());
    std::vector<uint32_t> sorted;
    // The smallest id of those that could be next: ids in order stay so.
    std::ranges::make_heap(free, std::greater<>());
    while (!free.empty()) {
      std::ranges::pop_heap(free, std::greater<>());
      const uint32_t node = free.back();
      free.pop_back();
      sorted.push_back(node);
      for (uint32_t e = order.first[node]; e < order.first[node + 1]; ++e) {
        const uint32_t child = order.children[e];
        parents[child].push_back(node);
        if (--left[child] > 0) continue;
        free.push_back(child);
        std::ranges::push_heap(free, std::greater<>());
      }
    }
    TRY(number_collectives(graph));
    for (const uint32_t node : sorted) {
      before_.clear();
      for (const uint32_t parent : parents[node]) {
        before_.insert(before_.end(), ends_[parent].begin(), ends_[parent].end());
      }
      std::ranges::sort(before_);
      before_.erase(std::unique(before_.begin(), before_.end()), before_.end());
      const auto added = add_node(graph.nodes()[node], node);
      if (!added) {
        return fail(place_text(job_, rank, graph.nodes()[node]) + ": " + added.error().text);
      }
      if (operations_ > kMostGoalOperations) {
        return fail("the schedule would have more than " + std::to_string(kMostGoalOperations) +
                    " operations");
      }
    }
    return {};
  }

  Result<TraceOrder> in_order(const TraceGraph& graph) const {
    auto order = order_trace(graph, TraceRules::kFeeder3);
    if (!order) return fail("rank " + std::to_string(rank_) + ": " + order.error().text);
    return order;
  }

  /// Calls on the CPU of what happens elsewhere are computing of their recorded time.
  static bool is_collective(const TraceNode& node) {
    return node.kind == TraceNodeKind::kCollective && !node.on_cpu;
  }

  /// By ids, which may not be the order in which the operations are written.
  Result<void> number_collectives(const TraceGraph& graph) {
    numbers_.assign(graph.nodes().size(), 0);
    for (uint32_t i = 0; i < graph.nodes().size(); ++i) {
      const TraceNode& node = graph.nodes()[i];
      if (!is_collective(node)) continue;
      const auto met = meet(node);
      if (!met) return fail(place_text(job_, rank_, node) + ": " + met.error().text);
      numbers_[i] = *met;
    }
    return {};
  }

  /// The number of the collective in its group; the group knows it then.
  Result<uint32_t> meet(const TraceNode& node) {
    if (!node.collective) return fail("comm_type is missing");
    if (!cuts(*node.collective)) {
      return fail(std::string("the collective ") + name_of(*node.collective) +
                  " is not cut into messages");
    }
    if (!node.bytes) return fail("comm_size is missing");
    if (!node.dimensions.empty()) {
      return fail("a collective over some dimensions of a network is not cut into messages");
    }
    GoalGroup& group = *TRY(group_of(node));
    if (!group.places.contains(rank_)) {
      return fail("group \"" + key_of(node) + "\" does not have this rank");
    }
    const auto number = static_cast<uint32_t>(entered_[{key_of(node), rank_}]++);
    if (number == group.met.size()) {
      group.met.push_back({*node.collective, *node.bytes, next_tag_});
      // As many as any collective of the group has.
      const uint64_t tags = 2 * group.ranks.size();
      if (tags > kBehindTags - next_tag_) return fail("there are not enough tags for all messages");
      next_tag_ += static_cast<uint32_t>(tags);
    }
    const GoalGroup::Met& met = group.met[number];
    if (met.collective != *node.collective || met.bytes != *node.bytes) {
      return fail("collective number " + std::to_string(number + 1) + " of group \"" +
                  key_of(node) + "\" is of " + std::to_string(met.bytes) + " bytes, " +
                  name_of(met.collective) + ", on a rank before it");
    }
    return number;
  }

  static std::string key_of(const TraceNode& node) { return node.group == "0" ? "" : node.group; }

  Result<GoalGroup*> group_of(const TraceNode& node) {
    const std::string key = key_of(node);
    const auto [it, fresh] = groups_.try_emplace(key);
    GoalGroup& group = it->second;
    if (fresh) {
      group.ranks = TRY(ranks_of(key));
      for (uint32_t place = 0; place < group.ranks.size(); ++place) {
        if (group.ranks[place] >= job_.ranks.size()) {
          return fail("group \"" + key + "\" has a rank " + std::to_string(group.ranks[place]) +
                      ", which is not there");
        }
        group.places[group.ranks[place]] = place;
      }
    }
    return &group;
  }

  Result<std::vector<uint32_t>> ranks_of(const std::string& key) const {
    std::vector<uint32_t> ranks;
    if (key.empty()) {
      for (uint32_t rank = 0; rank < job_.ranks.size(); ++rank) ranks.push_back(rank);
      return ranks;
    }
    uint32_t number = 0;
    const auto read = std::from_chars(key.data(), key.data() + key.size(), number);
    const bool whole = read.ec == std::errc() && read.ptr == key.data() + key.size();
    const auto found = whole ? job_.groups.find(number) : job_.groups.end();
    if (found == job_.groups.end()) {
      return fail("group \"" + key + "\" is not given (--comm-groups)");
    }
    return found->second;
  }

  uint32_t add(GoalOperation operation, const std::vector<uint32_t>& formers) {
    const auto number = static_cast<uint32_t>(to_->operations.size());
    to_->operations.push_back(std::move(operation));
    for (const uint32_t former : formers) to_->requirements.push_back({number, former, false});
    ++operations_;
    return number;
  }

  Result<void> add_node(const TraceNode& node, uint32_t index) {
    const bool computes = node.kind == TraceNodeKind::kCompute;
    if (computes || (node.on_cpu && node.kind >= TraceNodeKind::kSend)) {
      GoalOperation made;
      made.size = node.duration_ns();
      made.cpu = node.on_cpu ? 1 : 0;
      ends_[index] = {add(made, before_)};
      return {};
    }
    switch (node.kind) {
      case TraceNodeKind::kSend:
      case TraceNodeKind::kReceive:
        return add_message(node, index);
      case TraceNodeKind::kCollective:
        return add_collective(node, index);
      default:
        return fail(std::string("a node of kind ") + name_of(node.kind) +
                    " has no operation in a schedule");
    }
  }

  Result<void> add_message(const TraceNode& node, uint32_t index) {
    const bool sends = node.kind == TraceNodeKind::kSend;
    const auto& peer = sends ? node.destination : node.source;
    if (!peer || !node.bytes)
      return fail(peer ? "comm_size is missing" : "its other end is missing");
    if (*peer >= job_.ranks.size()) {
      return fail("there is no rank " + std::to_string(*peer) + " for its message");
    }
    if (node.tag >= kFirstRingTag) return fail("its tag is 250,000,000 or more");
    const uint32_t from = sends ? rank_ : *peer, to = sends ? *peer : rank_;
    const auto [it, fresh] = sizes_.try_emplace({from, to, node.tag}, *node.bytes);
    if (it->second != *node.bytes) {
      return fail("messages of " + std::to_string(it->second) + " and " +
                  std::to_string(*node.bytes) +
                  " bytes have one tag, by which alone a schedule tells them apart");
    }
    GoalOperation made;
    made.kind = sends ? GoalKind::kSend : GoalKind::kReceive;
    made.size = *node.bytes;
    made.peer = *peer;
    made.tag = node.tag;
    ends_[index] = {add(made, before_)};
    return {};
  }

  Result<void> add_collective(const TraceNode& node, uint32_t index) {
    const GoalGroup& group = *TRY(group_of(node));
    const uint32_t place = group.places.at(rank_);
    const uint32_t tag = group.met[numbers_[index]].tag;
    const auto count = static_cast<uint32_t>(group.ranks.size());
    const std::vector<CutStep> steps = cut_collective(*node.collective, *node.bytes, count, place);
    if (steps.empty()) {
      ends_[index] = before_;
      return {};
    }
    std::vector<uint32_t> ends, received = before_, sent;
    for (uint32_t step = 0; step < steps.size(); ++step) {
      const CutStep& what = steps[step];
      GoalOperation send{GoalKind::kSend, what.sent, group.ranks[what.to], tag + step};
      GoalOperation receive{GoalKind::kReceive, what.received, group.ranks[what.from], tag + step};
      std::vector<uint32_t> formers = what.forwards ? received : before_;
      formers.insert(formers.end(), sent.begin(), sent.end());
      sent = {add(std::move(send), formers)};
      received = {add(std::move(receive), before_)};
      // What the next step forwards has been waited for when that has been sent.
      const bool last = step + 1 == steps.size();
      if (last || !steps[step + 1].forwards) ends.push_back(received.front());
    }
    ends.push_back(sent.front());
    ends_[index] = std::move(ends);
    return {};
  }

  const TraceJob& job_;
  GoalSchedule out_;
  uint64_t operations_ = 0;
  std::map<std::string, GoalGroup> groups_;
  std::map<std::pair<std::string, uint32_t>, size_t> entered_;  ///< by group and rank
  uint32_t next_tag_ = kFirstRingTag;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint64_t> sizes_;  ///< by ends and tag
  // Of the rank at hand:
  uint32_t rank_ = 0;
  GoalRank* to_ = nullptr;
  std::vector<uint32_t> numbers_;            ///< by node: of the collective in its group
  std::vector<std::vector<uint32_t>> ends_;  ///< by node: operations that end it
  std::vector<uint32_t> before_;             ///< that the node at hand waits for
};

}  // namespace

Result<GoalSchedule> goal_of(const TraceJob& job) { return GoalMaker(job).run(); }

}  // namespace understudy
