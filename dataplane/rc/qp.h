// One reliable connection of an emulated node: responder and requester behind one queue pair
// number.
#pragma once

#include "dataplane/rc/requester.h"
#include "dataplane/rc/responder.h"
#include "dataplane/rc/types.h"

namespace understudy {

/// What a queue pair may send now; a link class pulls only what belongs to it.
enum class TrafficKind : uint8_t {
  kControl = 1,  ///< ACK, NAK, and the requests of a `control` queue pair
  kData = 2,     ///< everything else
  kAny = 3,
};

class Qp {
 public:
  Qp(const QpConfig& config, const RegionTable& regions, RcCounters& counters, QpOwner& owner);
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  const QpConfig& config() const { return config_; }
  RoceAddressing& addressing() { return config_.addressing; }
  Responder& responder() { return responder_; }
  /// Posts work; false when the send queue is full or the connection has failed.
  bool post(const WorkRequest& request) { return requester_.post(request); }
  size_t outstanding() const { return requester_.outstanding(); }

  /// A packet of the peer, at its modelled arrival.
  void on_packet(Time now, const RoceView& packet, const uint8_t* payload);
  void on_timer(Time now);
  Time deadline() const { return requester_.deadline(); }

  bool can_send(Time now, TrafficKind kind) const;
  /// The next packet of that kind; false when there is none. `departs` is set with `id` when the
  /// packet is the last one of a work request.
  bool pull(Time now, TrafficKind kind, OutPacket& out, bool& departs, uint64_t& id);

 private:
  void report_completions(Time now);

  QpConfig config_;
  QpOwner& owner_;
  Responder responder_;
  Requester requester_;
  bool error_ = false;  ///< a fatal NAK was sent or received: nothing is answered any more
};

}  // namespace understudy
