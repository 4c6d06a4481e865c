// What stands above a queue pair (its behaviour), and what the shard offers it.
#pragma once

#include <cstdint>

#include "dataplane/node/notice.h"
#include "dataplane/rc/qp.h"

namespace understudy {

class Endpoint;

/// The shard, as a endpoint sees it. All calls happen inside the shard's thread.
class EndpointHost {
 public:
  virtual ~EndpointHost() = default;
  /// Posts work and lets the node's link pull it; false when the send queue is full or has failed.
  virtual bool post(Time now, Qp& qp, const WorkRequest& request) = 0;
  /// Calls endpoint.on_wake(t, cookie) at `t` (at once if it is past).
  virtual void wake_at(Time t, Endpoint& endpoint, uint64_t cookie) = 0;
  /// Changes the state of a queue pair that the shard has (Qp::modify).
  virtual bool modify(Time now, Qp& qp, QpState to) { return qp.modify(now, to); }
  /// How much earlier than their time stamps the packets of the message being handled may really
  /// have come, at most.
  virtual Duration arrival_uncertainty() const = 0;
  /// Tells control something about `qp`; lost (and counted) when control does not keep up.
  virtual void tell(Time now, const Qp& qp, NoticeKind kind, std::span<const uint8_t> bytes) = 0;
};

class Endpoint : public QpOwner {
 public:
  virtual void on_wake(Time /*now*/, uint64_t /*cookie*/) {}
  /// It waits by itself, as long as its NIC takes to tell of a message (NicLimits::tail).
  virtual bool hears_late() const { return false; }
  /// The last packet of work request `id` was handed to the device at `actual`; it was due at
  /// `scheduled`.
  virtual void on_transmitted(Time /*scheduled*/, Time /*actual*/, Qp& /*qp*/, uint64_t /*id*/) {}
  /// The client sends: that is as good as its word that it is ready (rule A9.4).
  void on_established(Time now, Qp& qp) override {
    qp.modify(now, QpState::kRts);
    host_->tell(now, qp, NoticeKind::kEstablished, {});
  }
  void attach(EndpointHost& host) { host_ = &host; }

 protected:
  EndpointHost* host_ = nullptr;  ///< set before the first event
};

}  // namespace understudy
