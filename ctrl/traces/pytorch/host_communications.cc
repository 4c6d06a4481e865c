#include "ctrl/traces/pytorch/host_communications.h"

#include <algorithm>
#include <map>
#include <utility>

namespace understudy {
namespace {

class Grouping {
 public:
  explicit Grouping(const HostTrace& trace) : trace_(trace) {}

  std::vector<HostCommunication> run() {
    for (const HostCall& call : trace_.calls) {
      if (call.is_none) continue;
      const auto outer = around(call.node);
      switch (trace_.nodes[call.node].kind) {
        case HostNodeKind::kRecord:
          take_record(call, outer);
          break;
        case HostNodeKind::kMark:
          take_mark(call, outer);
          break;
        default:
          begin(call);
      }
    }
    for (HostCommunication& found : found_) name_group(found.what);
    return std::move(found_);
  }

 private:
  /// The communication that this node is in.
  std::optional<uint32_t> around(uint32_t node) const {
    for (;;) {
      const uint32_t parent = trace_.parents[node];
      if (parent == node) return {};
      node = parent;
      const auto known = by_node_.find(node);
      if (known != by_node_.end()) return known->second;
    }
  }

  void begin(const HostCall& call) {
    const auto place = static_cast<uint32_t>(found_.size());
    by_node_[call.node] = place;
    HostCommunication made;
    made.node = call.node;
    made.what = call;
    made.is_bucket = below_gradient(call.node);
    if (trace_.nodes[call.node].kind == HostNodeKind::kMark) {
      made.mark = call.node;
    } else {
      without_mark_.push_back(place);
      // Of traces without marks not all calls are looked at again for each mark.
      constexpr size_t kMost = 4096;
      if (without_mark_.size() > kMost) without_mark_.erase(without_mark_.begin());
    }
    found_.push_back(std::move(made));
  }

  bool below_gradient(uint32_t node) const {
    for (uint32_t parent = trace_.parents[node]; parent != node; parent = trace_.parents[node]) {
      node = parent;
      if (trace_.nodes[node].name.find("AccumulateGrad") != std::string::npos) return true;
    }
    return false;
  }

  void take_record(const HostCall& record, std::optional<uint32_t> outer) {
    if (!outer || trace_.nodes[found_[*outer].what.node].kind == HostNodeKind::kRecord) {
      begin(record);  // of several in one call, each is a communication
      return;
    }
    HostCall& what = found_[*outer].what;
    const HostCall called = std::exchange(what, record);
    if (!what.bytes) what.bytes = called.bytes;
    if (!what.first_tensor) what.first_tensor = called.first_tensor;
    if (called.peer) what.peer = called.peer;
    what.tag = called.tag;
    by_node_[record.node] = *outer;
  }

  bool fits(const HostCommunication& call, const HostCall& mark) const {
    if (call.mark || call.what.kind != mark.kind || call.what.collective != mark.collective) {
      return false;
    }
    return !call.what.first_tensor || !mark.first_tensor ||
           call.what.first_tensor->tensor == mark.first_tensor->tensor;
  }

  void take_mark(const HostCall& mark, std::optional<uint32_t> outer) {
    if (outer && !communicates_on_cpu(trace_.nodes[mark.node].name)) {
      if (!found_[*outer].mark) found_[*outer].mark = mark.node;
      return;  // in the caller's own thread
    }
    std::optional<uint32_t> place;
    if (outer && fits(found_[*outer], mark)) place = outer;
    for (size_t i = 0; i < without_mark_.size() && !place; ++i) {
      if (fits(found_[without_mark_[i]], mark)) place = without_mark_[i];
    }
    if (!place) {
      begin(mark);  // its call was not recorded
      return;
    }
    found_[*place].mark = mark.node;
    std::erase(without_mark_, *place);
  }

  void name_group(HostCall& what) const {
    if (!what.group.empty() || what.group_handle == 0) return;
    for (const HostGroup& group : trace_.groups) {
      if (group.handle == what.group_handle) what.group = group.name;
    }
  }

  const HostTrace& trace_;
  std::vector<HostCommunication> found_;
  std::map<uint32_t, uint32_t> by_node_;
  std::vector<uint32_t> without_mark_;
};

}  // namespace

std::vector<HostCommunication> communications_of(const HostTrace& trace) {
  return Grouping(trace).run();
}

std::vector<std::optional<uint32_t>> communication_by_node(
    const HostTrace& trace, const std::vector<HostCommunication>& communications) {
  std::vector<std::optional<uint32_t>> by_node(trace.nodes.size());
  for (uint32_t i = 0; i < communications.size(); ++i) {
    by_node[communications[i].node] = i;
    by_node[communications[i].what.node] = i;
    if (communications[i].mark) by_node[*communications[i].mark] = i;
  }
  // Callers have lower ids than what they call, or are looked up on the way.
  std::vector<uint32_t> way;
  std::vector<bool> known(by_node.size());
  for (uint32_t start = 0; start < by_node.size(); ++start) {
    way.clear();
    uint32_t at = start;
    while (!known[at] && !by_node[at] && trace.parents[at] != at) {
      way.push_back(at);
      at = trace.parents[at];
    }
    known[at] = true;
    for (const uint32_t node : way) {
      by_node[node] = by_node[at];
      known[node] = true;
    }
  }
  return by_node;
}

}  // namespace understudy
