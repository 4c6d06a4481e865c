#include "ctrl/traces/pytorch/rank_graph.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ctrl/traces/pytorch/host_values.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr uint32_t kNoPlace = ~uint32_t{0};

bool has(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

/// A node that the host trace has not.
struct Added {
  uint32_t caller = 0;  ///< place in the host trace
  TraceNode node;
  std::vector<uint32_t> waiting;  ///< places in the host trace
};

class RankBuilder {
 public:
  explicit RankBuilder(const RankTraces& rank)
      : rank_(rank),
        nodes_(rank.host.nodes),
        owner_(communication_by_node(rank.host, rank.communications)) {}

  Result<RankGraph> run() {
    TRY(add_kernels());
    add_communications();
    TRY(number_added());
    link_calls();
    take_durations();
    if (rank_.joined) {
      follow_threads();
    } else {
      follow_ids();
    }
    return finish();
  }

 private:
  const RankGroup* group(const std::string& name) const {
    const auto found = rank_.groups.find(name);
    return found == rank_.groups.end() ? nullptr : &found->second;
  }

  /// Whom a communication is with.
  void name_ranks(const HostCall& what, const std::string& name, TraceNode& node) const {
    const RankGroup* known = group(name);
    node.group = known != nullptr ? known->id : name;
    if (node.kind == TraceNodeKind::kCollective) {
      if (node.collective == TraceCollective::kBarrier) {
        node.collective = TraceCollective::kAllReduce;
        node.bytes = 1;
      }
      if (known != nullptr && known->ranks.size() == 1) {
        node.kind = TraceNodeKind::kCompute;
        node.collective.reset();
        node.bytes.reset();
      }
      return;
    }
    node.tag = what.tag;
    if (!what.peer) return;
    std::optional<uint32_t> peer = what.peer;
    if (known != nullptr && !known->ranks.empty()) {
      peer.reset();
      if (*what.peer < known->ranks.size()) peer = known->ranks[*what.peer];
    }
    (node.kind == TraceNodeKind::kSend ? node.destination : node.source) = peer;
  }

  /// What a kernel of NCCL does.
  Result<void> take_communication(const JoinedKernel& kernel, TraceNode& node) {
    const DeviceCommunication* told = rank_.device->communication_of(kernel.event);
    const auto owner = owner_[kernel.operation];
    const HostCommunication* called = owner ? &rank_.communications[*owner] : nullptr;
    auto what = has(node.name, "SendRecv") ? std::nullopt : communication_of(node.name);
    if (!what && called != nullptr) {
      what = CommunicationName{called->what.kind, called->what.collective};
    }
    if (!what && told != nullptr) what = communication_of(told->collective);
    if (!what && has(node.name, "SendRecv")) {
      what = CommunicationName{TraceNodeKind::kCollective, TraceCollective::kAllToAll};
      ++made_.guessed;
    }
    if (!what) {
      return fail("the kernel " + node.name.substr(0, 60) +
                  " communicates, and neither its name nor what started it says how");
    }
    node.kind = what->kind;
    node.collective = what->collective;
    const bool alone = owner && kernels_of_[*owner] == 1;
    if (called != nullptr) node.bytes = called->what.bytes;
    if (told != nullptr && told->bytes && !(alone && node.bytes)) node.bytes = told->bytes;
    std::string name = told != nullptr ? told->group : "";
    if (name.empty() && called != nullptr) name = called->what.group;
    name_ranks(called != nullptr ? called->what : HostCall{}, name, node);
    return {};
  }

  static bool communicates(const std::string& name) {
    return has(name, "ncclKernel") || has(name, "ncclDevKernel");
  }

  Result<void> add_kernels() {
    kernels_of_.resize(rank_.communications.size());
    if (!rank_.joined) return {};
    const auto& events = rank_.device->events;
    for (const JoinedKernel& kernel : rank_.joined->kernels) {
      const auto owner = owner_[kernel.operation];
      if (owner && communicates(events[kernel.event].name)) ++kernels_of_[*owner];
    }
    for (const JoinedKernel& kernel : rank_.joined->kernels) {
      const DeviceEvent& event = events[kernel.event];
      Added added;
      added.caller = kernel.operation;
      added.node.name = event.name;
      added.node.duration_us = static_cast<uint64_t>(event.duration_ns / 1000);
      if (communicates(event.name)) {
        TRY(take_communication(kernel, added.node));
        ++made_.kernels_that_communicate;
      } else {
        ++made_.kernels;
      }
      // What waits for a kernel and stands below the operation that started it would wait for itself.
      for (const uint32_t waiting : kernel.waiting) {
        if (!is_below(waiting, kernel.operation)) added.waiting.push_back(waiting);
      }
      added_.push_back(std::move(added));
    }
    return {};
  }

  bool is_below(uint32_t node, uint32_t above) const {
    while (node != above) {
      const uint32_t parent = rank_.host.parents[node];
      if (parent == node) return false;
      node = parent;
    }
    return true;
  }

  void add_communications() {
    silent_.resize(nodes_.size());
    for (uint32_t i = 0; i < rank_.communications.size(); ++i) {
      if (kernels_of_[i] > 0) continue;
      const HostCommunication& communication = rank_.communications[i];
      Added added;
      added.caller = communication.node;
      added.node.name = nodes_[communication.mark.value_or(communication.node)].name;
      added.node.kind = communication.what.kind;
      added.node.collective = communication.what.collective;
      added.node.bytes = communication.what.bytes;
      name_ranks(communication.what, communication.what.group, added.node);
      if (communication.mark && rank_.joined) take_mark(*communication.mark, added.node);
      added_.push_back(std::move(added));
      ++made_.communications_without_kernel;
    }
  }

  /// The time within a mark is that of the communication where the CPU carries it out.
  void take_mark(uint32_t mark, TraceNode& node) {
    const auto& event = rank_.joined->operations[mark].event;
    if (!communicates_on_cpu(nodes_[mark].name) || !event) return;
    node.duration_us = static_cast<uint64_t>(rank_.device->events[*event].duration_ns / 1000);
    silent_[mark] = true;
  }

  Result<void> number_added() {
    std::stable_sort(added_.begin(), added_.end(),
                     [](const Added& a, const Added& b) { return a.caller < b.caller; });
    const uint64_t last = nodes_.back().id;
    if (last > std::numeric_limits<uint64_t>::max() - added_.size()) {
      return fail(title_of(nodes_.back()) + ": no ids are left after it");
    }
    for (size_t i = 0; i < added_.size(); ++i) added_[i].node.id = last + 1 + i;
    return {};
  }

  bool is_kept(uint32_t node) const {
    return nodes_[node].kind != HostNodeKind::kProcess &&
           nodes_[node].kind != HostNodeKind::kProcessGroups;
  }

  void link_calls() {
    graph_.resize(nodes_.size() + added_.size());
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      TraceNode& node = graph_[i].node;
      node.id = nodes_[i].id;
      node.name = nodes_[i].name;
      node.on_cpu = true;
      call_from(i, rank_.host.parents[i] == i ? kNoPlace : rank_.host.parents[i]);
    }
    for (uint32_t i = 0; i < added_.size(); ++i) {
      const auto place = static_cast<uint32_t>(nodes_.size()) + i;
      graph_[place].node = std::move(added_[i].node);
      call_from(place, added_[i].caller);
      for (const uint32_t waiting : added_[i].waiting) {
        if (is_kept(waiting)) graph_[waiting].data.push_back(graph_[place].node.id);
      }
    }
  }

  void call_from(uint32_t node, uint32_t caller) {
    while (caller != kNoPlace && !is_kept(caller)) {
      const uint32_t parent = rank_.host.parents[caller];
      caller = parent == caller ? kNoPlace : parent;
    }
    if (caller != kNoPlace) graph_[node].control.push_back(nodes_[caller].id);
  }

  void take_durations() {
    if (!rank_.joined) return;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      const JoinedOperation& operation = rank_.joined->operations[i];
      if (!operation.event || !is_kept(i)) continue;
      ++made_.timed;
      if (silent_[i] || has(nodes_[i].name, "Optimizer.step")) continue;
      graph_[i].node.duration_us = static_cast<uint64_t>(operation.exclusive_ns / 1000);
    }
  }

  /// What each node calls, by id: first[node] to first[node + 1] of places.
  void list_calls(std::vector<uint32_t>& first, std::vector<uint32_t>& called) const {
    const auto count = static_cast<uint32_t>(nodes_.size());
    first.assign(count + 1, 0);
    for (uint32_t i = 0; i < count; ++i) {
      if (rank_.host.parents[i] != i) ++first[rank_.host.parents[i] + 1];
    }
    for (const Added& added : added_) ++first[added.caller + 1];
    for (uint32_t i = 0; i < count; ++i) first[i + 1] += first[i];
    called.resize(first[count]);
    std::vector<uint32_t> next(first.begin(), first.end() - 1);
    for (uint32_t i = 0; i < count; ++i) {
      if (rank_.host.parents[i] != i) called[next[rank_.host.parents[i]]++] = i;
    }
    for (uint32_t i = 0; i < added_.size(); ++i) called[next[added_[i].caller]++] = count + i;
  }

  void follow_threads() {
    std::vector<uint32_t> first, called, open;
    list_calls(first, called);
    const auto below = [&](uint32_t node) {
      for (uint32_t at = first[node + 1]; at > first[node]; --at) open.push_back(called[at - 1]);
    };
    for (uint32_t root = 0; root < nodes_.size(); ++root) {
      if (rank_.host.parents[root] != root) continue;
      for (uint32_t at = first[root]; at < first[root + 1]; ++at) {
        uint32_t last = kNoPlace;
        open.assign(1, called[at]);
        while (!open.empty()) {
          const uint32_t node = open.back();
          open.pop_back();
          if (node < nodes_.size()) below(node);
          visit(node, last);
        }
      }
    }
  }

  /// A depth-first visit: `last` is the operation visited before.
  void visit(uint32_t node, uint32_t& last) {
    if (node < nodes_.size() && !is_kept(node)) return;
    if (last != kNoPlace) graph_[node].data.push_back(nodes_[last].id);
    if (node >= nodes_.size()) return;
    const auto& waits_for = rank_.joined->operations[node].waits_for;
    if (waits_for && is_kept(*waits_for)) graph_[node].data.push_back(nodes_[*waits_for].id);
    last = node;
  }

  void follow_ids() {
    uint32_t last = kNoPlace;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      if (!is_kept(i)) continue;
      if (last != kNoPlace) graph_[i].data.push_back(nodes_[last].id);
      last = i;
    }
    // The last operation below the one that communicates.
    std::vector<uint32_t> last_below(nodes_.size());
    for (uint32_t i = 0; i < nodes_.size(); ++i) last_below[i] = i;
    for (auto i = static_cast<uint32_t>(nodes_.size()); i-- > 0;) {
      const uint32_t parent = rank_.host.parents[i];
      if (is_kept(i)) last_below[parent] = std::max(last_below[parent], last_below[i]);
    }
    for (uint32_t i = 0; i < added_.size(); ++i) {
      const uint32_t operation = last_below[added_[i].caller];
      graph_[nodes_.size() + i].data.push_back(nodes_[operation].id);
    }
  }

  Result<RankGraph> finish() {
    // Nodes that others wait for.
    std::vector<uint64_t> awaited;
    for (const TraceNodeParents& node : graph_) {
      awaited.insert(awaited.end(), node.data.begin(), node.data.end());
    }
    std::sort(awaited.begin(), awaited.end());
    const auto stays = [&](uint32_t i) {
      if (i < nodes_.size() && !is_kept(i)) return false;
      return !graph_[i].data.empty() ||
             std::binary_search(awaited.begin(), awaited.end(), graph_[i].node.id);
    };
    std::vector<uint64_t> left_out;
    std::vector<TraceNodeParents> kept;
    kept.reserve(graph_.size());
    for (uint32_t i = 0; i < graph_.size(); ++i) {
      if (!stays(i)) {
        left_out.push_back(graph_[i].node.id);
        continue;
      }
      made_.operations += i < nodes_.size() ? 1 : 0;
      kept.push_back(std::move(graph_[i]));
    }
    made_.left_out = left_out.size();
    if (kept.empty())
      return fail("nothing in the trace waits for anything: there is no work in it");
    for (TraceNodeParents& node : kept) {
      std::erase_if(node.control, [&left_out](uint64_t id) {
        return std::binary_search(left_out.begin(), left_out.end(), id);
      });
    }
    made_.graph = TRY(TraceGraph::make(std::move(kept)));
    TRY(order_trace(made_.graph, TraceRules::kFeeder3));
    return std::move(made_);
  }

  const RankTraces& rank_;
  const std::vector<HostNode>& nodes_;
  const std::vector<std::optional<uint32_t>> owner_;  ///< communication of each node
  std::vector<uint32_t> kernels_of_;                  ///< by communication: its kernels of NCCL
  std::vector<Added> added_;
  std::vector<bool> silent_;  ///< marks whose time went into a communication
  std::vector<TraceNodeParents> graph_;
  RankGraph made_;
};

}  // namespace

Result<RankGraph> graph_of_rank(const RankTraces& rank) { return RankBuilder(rank).run(); }

}  // namespace understudy
