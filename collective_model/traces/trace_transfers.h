// Transfers from and to memory beyond the devices (astra-sim/astra-memory-analytical,
// AnalyticalRemoteMemory.cc): of ranks that share it, one at a time, first come first served.
#pragma once

#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "collective_model/traces/trace_system.h"

namespace understudy {

class TraceTransfers {
 public:
  struct Transfer {
    uint32_t rank, index;
    uint64_t bytes;
  };
  /// It outlives this.
  explicit TraceTransfers(const TraceMemory& memory) : memory_(memory) {}

  /// A rank's node asks for one. Whether it begins now; else ended() gives it later.
  bool begins(const Transfer& transfer) {
    if (memory_.kind == TraceMemory::Kind::kPerRank) return true;
    Queue& queue = queue_of(transfer.rank);
    if (queue.busy) queue.waiting.push_back(transfer);
    return !std::exchange(queue.busy, true);
  }
  /// Of the rank one has ended: the transfer that begins now.
  std::optional<Transfer> ended(uint32_t rank) {
    if (memory_.kind == TraceMemory::Kind::kPerRank) return std::nullopt;
    Queue& queue = queue_of(rank);
    queue.busy = !queue.waiting.empty();
    if (!queue.busy) return std::nullopt;
    const Transfer next = queue.waiting.front();
    queue.waiting.pop_front();
    return next;
  }
  /// In ns, from when it begins.
  int64_t takes(const Transfer& transfer) const {
    const double moved = std::floor(static_cast<double>(transfer.bytes) / memory_.bytes_per_ns);
    return memory_.latency_ns + static_cast<int64_t>(moved);
  }

 private:
  struct Queue {
    bool busy = false;
    std::deque<Transfer> waiting;
  };

  Queue& queue_of(uint32_t rank) {
    const uint32_t number =
        memory_.kind == TraceMemory::Kind::kPerNode ? rank / memory_.ranks_per_node : 0;
    if (queues_.size() <= number) queues_.resize(number + 1);
    return queues_[number];
  }

  const TraceMemory& memory_;
  std::vector<Queue> queues_;
};

}  // namespace understudy
