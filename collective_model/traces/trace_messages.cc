#include "collective_model/traces/trace_messages.h"

#include <algorithm>

namespace understudy {

void TraceMessages::send(int64_t now, TraceMessage message) {
  message.at = message.from;
  uint32_t number = 0;
  if (unused_.empty()) {
    number = static_cast<uint32_t>(messages_.size());
    messages_.push_back(message);
  } else {
    number = unused_.back();
    unused_.pop_back();
    messages_[number] = message;
  }
  pass_on(now, number);
}

void TraceMessages::pass_on(int64_t now, uint32_t number) {
  TraceMessage& message = messages_[number];
  int64_t leaves = now;
  uint32_t next = message.to;
  if (network_.congestion_aware()) {
    next = network_.next(message.at, message.to);
    leaves = std::max(now, free(message.at, next));
    set_free(message.at, next, leaves + static_cast<int64_t>(network_.serialized(message.bytes)));
  }
  const auto takes =
      static_cast<int64_t>(network_.message_time(message.bytes, message.at, message.to));
  message.at = next;
  events_.add(leaves + takes, leaves, TraceEvent::Kind::kMessageAtHop, number);
}

const TraceMessage* TraceMessages::arrived(int64_t now, uint32_t number) {
  if (messages_[number].at == messages_[number].to) return &messages_[number];
  pass_on(now, number);
  return nullptr;
}

void TraceMessages::forget(uint32_t number) { unused_.push_back(number); }

}  // namespace understudy
