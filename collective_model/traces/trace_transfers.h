// Transfers from and to memory beyond the devices (astra-sim/astra-memory-analytical,
// AnalyticalRemoteMemory.cc): of ranks that share it, one at a time, first come first served.
#pragma once

#include <cmath>
#include <deque>
#include <vector>

#include "collective_model/traces/trace_events.h"
#include "collective_model/traces/trace_system.h"

namespace understudy {

class TraceTransfers {
 public:
  /// Both outlive this.
  TraceTransfers(const TraceMemory& memory, TraceEvents& events)
      : memory_(memory), events_(events) {}

  void begin(int64_t now, uint32_t rank, uint32_t index, uint64_t bytes) {
    const Transfer transfer{rank, index, bytes};
    if (memory_.kind == TraceMemory::Kind::kPerRank) return start(now, transfer);
    Queue& queue = queue_of(rank);
    if (queue.busy) {
      queue.waiting.push_back(transfer);
      return;
    }
    queue.busy = true;
    start(now, transfer);
  }
  /// After an event of kTransferEnds, when the rank has been told.
  void ended(int64_t now, uint32_t rank) {
    if (memory_.kind == TraceMemory::Kind::kPerRank) return;
    Queue& queue = queue_of(rank);
    queue.busy = !queue.waiting.empty();
    if (!queue.busy) return;
    start(now, queue.waiting.front());
    queue.waiting.pop_front();
  }

 private:
  struct Transfer {
    uint32_t rank, index;
    uint64_t bytes;
  };
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
  void start(int64_t now, const Transfer& transfer) {
    const double moved = std::floor(static_cast<double>(transfer.bytes) / memory_.bytes_per_ns);
    events_.add(now + memory_.latency_ns + static_cast<int64_t>(moved), now,
                TraceEvent::Kind::kTransferEnds, transfer.rank, transfer.index);
  }

  const TraceMemory& memory_;
  TraceEvents& events_;
  std::vector<Queue> queues_;
};

}  // namespace understudy
