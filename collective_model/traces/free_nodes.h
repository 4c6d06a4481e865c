// The nodes of a rank that may begin, by the slot that they need.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "collective_model/traces/trace_graph.h"

namespace understudy {

/// kNone needs none.
enum class TraceSlot : uint8_t { kCpu, kCompute, kCommunication, kNone };

/// astra-sim/workload/HardwareResource.cc: memory nodes take the slot of communication.
inline TraceSlot slot_of(const TraceNode& node) {
  if (node.on_cpu) return TraceSlot::kCpu;
  if (node.kind == TraceNodeKind::kCompute) return TraceSlot::kCompute;
  return node.kind == TraceNodeKind::kReceive ? TraceSlot::kNone : TraceSlot::kCommunication;
}

class FreeNodes {
 public:
  void add(TraceSlot slot, uint32_t index) { waiting_[place(slot)].push(index); }
  void occupy(TraceSlot slot) { busy_[place(slot)] = slot != TraceSlot::kNone; }
  void release(TraceSlot slot) { busy_[place(slot)] = false; }
  /// Takes the first one whose slot is empty.
  std::optional<uint32_t> take() {
    std::optional<size_t> first;
    for (size_t slot = 0; slot < kSlots; ++slot) {
      if (busy_[slot] || waiting_[slot].empty()) continue;
      if (!first || waiting_[slot].top() < waiting_[*first].top()) first = slot;
    }
    if (!first) return std::nullopt;
    const uint32_t index = waiting_[*first].top();
    waiting_[*first].pop();
    return index;
  }
  bool startable() const {
    for (size_t slot = 0; slot < kSlots; ++slot) {
      if (!busy_[slot] && !waiting_[slot].empty()) return true;
    }
    return false;
  }

 private:
  static constexpr size_t kSlots = 4;
  static size_t place(TraceSlot slot) { return static_cast<size_t>(slot); }

  using Smallest = std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>>;
  std::array<Smallest, kSlots> waiting_;
  std::array<bool, kSlots> busy_{};
};

}  // namespace understudy
