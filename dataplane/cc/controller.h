// Congestion control of an emulated sender: what it hears of its packets goes in, the rate and the
// window that it may use come out. One object a flow or queue pair; no clock, no timer of its own.
//
// dcqcn.h timely.h dctcp.h hpcc.h swift.h are the rate controllers, parameters.h their knobs and
// published sets, make_controller.h makes one of them.
#pragma once

#include <cstdint>
#include <span>

#include "dataplane/base/units.h"

namespace understudy {

/// What one switch on the way wrote into a packet (HPCC's in-band telemetry), when the packet left
/// it.
struct IntHop {
  Rate rate;                 ///< of the egress link
  Time at;                   ///< when the packet left the queue
  uint64_t tx_bytes = 0;     ///< that the egress link had sent before it, since the start
  uint64_t queue_bytes = 0;  ///< behind it in the egress queue
};

/// What an acknowledgement tells its sender.
struct AckHeard {
  Time at;
  Duration rtt;                  ///< of the packet that it answers, from its start at the sender
  uint64_t acked = 0;            ///< bytes acknowledged in all, as the window counts them
  uint64_t sent = 0;             ///< bytes sent in all
  uint64_t newly_acked = 0;      ///< by this acknowledgement
  bool marked = false;           ///< it echoes a CE mark
  unsigned switches = 0;         ///< on the packet's way, as its TTL tells
  std::span<const IntHop> hops;  ///< from the sender on; empty without telemetry
};

class Controller {
 public:
  virtual ~Controller() = default;

  /// The first packet leaves at `now`.
  virtual void start(Time now) { static_cast<void>(now); }
  virtual void on_ack(const AckHeard& ack) { static_cast<void>(ack); }
  virtual void on_cnp(Time now) { static_cast<void>(now); }
  /// Packets left: `bytes` as the rate counts them (for byte counters).
  virtual void on_sent(Time now, uint64_t bytes) {
    static_cast<void>(now);
    static_cast<void>(bytes);
  }
  /// The earliest timer, never() without one; to be called at that time, not before.
  virtual Time deadline() const { return Time::never(); }
  virtual void on_timer(Time now) { static_cast<void>(now); }

  /// Rate at which packets may start, in whole bit/s and at most the line's; wire bytes unless the
  /// configuration says otherwise.
  Rate rate() const { return rate_; }
  /// Whether a new rate also stretches or shortens the gap behind the packet that left last. Else
  /// that gap stays as it was when the packet left.
  virtual bool rate_changes_gap() const { return false; }
  /// A packet may start while fewer bytes than this are sent and not acknowledged, so that one can
  /// always be on its way; kNoWindow: any number.
  uint64_t window() const { return window_; }
  static constexpr uint64_t kNoWindow = ~uint64_t{0};

 protected:
  explicit Controller(Rate line, uint64_t window = kNoWindow) : rate_(line), window_(window) {}
  Rate rate_;
  uint64_t window_;
};

}  // namespace understudy
