// One reliable connection of an emulated node: responder and requester behind one queue pair
// number.
#pragma once

#include <algorithm>

#include "dataplane/rc/requester.h"
#include "dataplane/rc/responder.h"
#include "dataplane/rc/types.h"

namespace understudy {

/// What a queue pair may send now; a link class pulls only what belongs to it.
enum class TrafficKind : uint8_t {
  kAcks = 1,     ///< ACK, NAK
  kControl = 2,  ///< requests of a `control` queue pair
  kData = 4,     ///< everything else
  kRequests = kControl | kData,
  kAny = kAcks | kRequests,
};

/// What a queue pair would send next.
enum class NextPacket : uint8_t {
  kNone,
  kAck,      ///< ACK or NAK
  kAnswer,   ///< READ response or ATOMIC ACK
  kRequest,  ///< of its own
};

/// In whole cache lines; what WRITEs to it touch comes first.
class alignas(64) Qp {
 public:
  /// What WRITEs to it touch.
  static constexpr size_t kHotBytes = 256;

  /// `regions`, `counters` and `owner` outlive it.
  Qp(const QpConfig& config, RegionTable& regions, RcCounters& counters, QpOwner& owner);
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  const QpConfig& config() const { return base_.config; }
  RoceAddressing& addressing() { return base_.config.addressing; }
  Responder& responder() { return responder_; }

  QpState state() const { return state_; }
  /// Packets of the peer are taken, as in RTR, RTS and SQD.
  bool connected() const;
  /// Changes the state (rule A4.23); false when that is not allowed from where it is. kError ends
  /// all work with kFlushed; kReset forgets work, receives and answers without a word. Attributes
  /// stay those of the configuration.
  bool modify(Time now, QpState to);

  /// What verbs programs say on the way to RTS only. Before anything is posted: it starts the
  /// requester anew.
  void set_send_attributes(Psn sq_psn, uint8_t timeout, uint8_t retry_count, uint8_t rnr_retry,
                           uint8_t max_rd_atomic);
  void set_ask_every(uint8_t packets) { base_.config.ask_every = packets; }
  void set_access(uint8_t access) { base_.config.access = access; }
  void set_min_rnr_timer(uint8_t code) { base_.config.min_rnr_timer = code; }

  /// Posts work; false when the send queue is full or in a state that takes none (only RTS and SQD
  /// do).
  bool post(const WorkRequest& request);
  size_t outstanding() const { return requester_.outstanding(); }

  /// A packet of the peer, at its modelled arrival.
  void on_packet(Time now, const RoceView& packet, const uint8_t* payload);
  /// A train: `before` MIDDLE packets of a WRITE, each with `bytes` of payload that nobody wants,
  /// and the packet behind them. `payload` has room for any.
  void on_train(Time now, uint32_t before, uint32_t bytes, const RoceView& last,
                const uint8_t* payload);
  void on_timer(Time now);
  /// Its NIC's link is closed: the requester's timeouts run (Requester::hold).
  void hold(Time now) { requester_.hold(now); }
  Time deadline() const { return std::min(flush_at_, requester_.deadline()); }

  bool can_send(Time now, TrafficKind kind) const { return next(now, kind) != NextPacket::kNone; }
  /// What pull() would give.
  NextPacket next(Time now, TrafficKind kind) const;
  /// PSN of the next request packet: before what has left if something is sent again.
  Psn next_psn() const { return requester_.next_psn(); }
  /// The oldest PSN of ours that the peer has not acknowledged.
  Psn unacknowledged() const { return requester_.unacknowledged(); }
  /// The next packet of that kind; false when there is none. `departs` is set with `id` when the
  /// packet is the last one of a work request.
  bool pull(Time now, TrafficKind kind, OutPacket& out, bool& departs, uint64_t& id);

 private:
  void report_completions(Time now);
  bool sends_requests(Time now, TrafficKind kind) const;
  void enter_error();

  QpBase base_;
  QpOwner& owner_;
  Time flush_at_ = Time::never();              ///< the connection ended while a packet was built
  [[no_unique_address]] Responder responder_;  // these two in its last bytes
  QpState state_;
  bool established_ = false;  ///< the owner knows that the peer has begun to send
  Requester requester_;
};

}  // namespace understudy
