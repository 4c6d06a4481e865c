#include "dataplane/virtual_time/virtual_loop.h"

#include <algorithm>
#include <cstdint>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// Far more than the turns that frames going to and fro without taking time may need.
constexpr uint64_t kMaxTurns = 1'000'000;

}  // namespace

ShardParticipant::ShardParticipant(std::vector<VirtualPort*> ports, EngineShard& shard)
    : ports_(std::move(ports)), shard_(shard) {
  for (VirtualPort* port : ports_) sinks_.push_back(&port->tx());
}

Time ShardParticipant::next_event() const {
  Time next = shard_.next_wake();
  for (const VirtualPort* port : ports_) next = std::min(next, port->next_arrival());
  return next;
}

void ShardParticipant::advance_to(Time t) {
  for (;;) {
    uint32_t first = 0;
    for (uint32_t i = 1; i < ports_.size(); ++i) {
      if (ports_[i]->next_arrival() < ports_[first]->next_arrival()) first = i;
    }
    VirtualPort& port = *ports_[first];
    const Time at = port.next_arrival();
    if (at > t) break;
    const auto frames = port.rx();
    if (CaptureTap* tap = port.capture()) {
      for (const auto frame : frames) {
        tap->frame(CaptureDirection::kIn, at, Time::never(), frame);
      }
    }
    shard_.rx({at, Duration(), frames, first});
  }
  shard_.poll(t, sinks_);
  for (VirtualPort* port : ports_) port->flush(t);
}

Time VirtualLoop::next_of(const Participant* left_out) const {
  Time next = Time::never();
  for (const Participant* participant : participants_) {
    if (participant != left_out) next = std::min(next, participant->next_event());
  }
  return next;
}

Result<void> VirtualLoop::run(Time limit) {
  uint64_t turns = 0;
  for (;;) {
    Participant* first = nullptr;
    Time next = Time::never(), others = Time::never();
    for (Participant* participant : participants_) {
      // Only a strictly earlier one overtakes those added before it.
      if (const Time t = participant->next_event(); t < next) {
        others = next;
        next = t;
        first = participant;
      } else {
        others = std::min(others, t);
      }
    }
    next = std::max(next, now_);
    if (first == nullptr || next > limit) return {};
    if (next > now_) turns = 0;
    if (++turns > kMaxTurns) {
      return fail("virtual time stands still at " + std::to_string(now_.ps()) + " ps: \"" +
                  first->name() + "\" is always due");
    }
    const Time alone = std::min(limit, others.is_never() ? others : others - Duration::ps(1));
    now_ = first->advance_alone(next, std::max(next, alone));
    if (look_ == nullptr || --until_look_ != 0) continue;
    until_look_ = kTurnsBetweenLooks;
    TRY(look_());
  }
}

}  // namespace understudy
