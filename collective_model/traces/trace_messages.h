// Messages on their way, one by one.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "collective_model/traces/trace_events.h"
#include "collective_model/traces/trace_network.h"

namespace understudy {

struct TraceMessage {
  uint32_t from = 0, to = 0;
  uint64_t bytes = 0;
  bool of_ring = false;
  uint32_t run = 0, place = 0;  ///< of_ring: ring run, and place of the receiver
  uint32_t node = 0;            ///< else: of the sender
  uint32_t at = 0;              ///< the rank that it has reached
};

class TraceMessages {
 public:
  /// Both outlive this.
  TraceMessages(const TraceNetwork& network, TraceEvents& events)
      : network_(network), events_(events) {}

  void send(int64_t now, TraceMessage message);
  /// After an event of kMessageAtHop: the message if it has arrived, else it goes on.
  const TraceMessage* arrived(int64_t now, uint32_t number);
  /// After what arrived() gave has been used.
  void forget(uint32_t number);
  size_t under_way() const { return messages_.size() - unused_.size(); }

  /// From when a link can be used, in ns; congestion-aware only.
  int64_t free(uint32_t from, uint32_t next) const {
    const auto found = free_.find(network_.link(from, next));
    return found == free_.end() ? 0 : found->second;
  }
  void set_free(uint32_t from, uint32_t next, int64_t at) { free_[network_.link(from, next)] = at; }

 private:
  void pass_on(int64_t now, uint32_t number);

  const TraceNetwork& network_;
  TraceEvents& events_;
  std::vector<TraceMessage> messages_;
  std::vector<uint32_t> unused_;
  std::unordered_map<uint64_t, int64_t> free_;
};

}  // namespace understudy
