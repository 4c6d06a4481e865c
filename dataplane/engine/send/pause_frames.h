// PFC frames of the real NICs and to them, where a shard has a network with switches.
#pragma once

#include <span>

#include "dataplane/engine/state/io.h"
#include "dataplane/engine/state/shard_state.h"

namespace understudy {

class PauseFrames {
 public:
  explicit PauseFrames(ShardState& state) : events_(state.events), ports_(state.ports) {}

  /// A MAC control frame has come in here. What it pauses is looked at by the events kPauseHeard
  /// and kPauseEnds.
  void receive(std::span<const uint8_t> frame, Time now);
  /// Sends what is due; false when the device takes no more now.
  bool send_due(RealPort& port, Time now, TxSink& sink);

  /// Number of such an event for a class of the port here.
  uint32_t event_index(unsigned cls) const { return ports_.here_index() * kPfcPriorities + cls; }
  static uint32_t port_of_event(uint32_t index) { return index / kPfcPriorities; }
  static unsigned class_of_event(uint32_t index) { return index % kPfcPriorities; }

 private:
  EventQueue& events_;
  RealPorts& ports_;
};

}  // namespace understudy
