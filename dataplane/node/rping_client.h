// The client of rping (rdma-core's librdmacm/examples/rping.c): for each ping a text of its own is
// laid out; a SEND says where, and the server READs it; after the server's SEND a second one says
// where the text is wanted back, and the server WRITEs it there; after the server's next SEND both
// must be equal.
#pragma once

#include <span>

#include "dataplane/node/rping_message.h"
#include "dataplane/node/traffic_source.h"

namespace understudy {

class RpingClient : public Endpoint {
 public:
  struct Setup {
    std::span<uint8_t> memory;  ///< of memory_for() bytes, exposed to READ and WRITE; its first
                                ///< kRpingMessageBytes are the queue pair's receive buffer
    uint64_t va = 0;            ///< its address
    Rkey rkey = 0;
    uint32_t text_bytes = 0;  ///< at least 1
    uint64_t count = 0;       ///< pings; at least 1
  };
  static constexpr uint64_t memory_for(uint32_t text_bytes) {
    return kRpingMessageBytes + uint64_t{2} * text_bytes;
  }

  /// `progress` and the memory outlive this object.
  RpingClient(const Setup& setup, TrafficProgress& progress);
  void set_qp(Qp& qp) { qp_ = &qp; }  ///< before the first wake
  /// Any cookie: begin.
  void on_wake(Time now, uint64_t cookie) override;
  void on_received(Time now, Qp& qp, const Received& message) override;
  void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;

 private:
  enum class State : uint8_t { kIdle, kReading, kWriting };

  void ping(Time now);
  void tell(Time now, const RpingMessage& where);
  bool ended() const { return progress_.ended.load(std::memory_order_relaxed); }

  Setup setup_;
  TrafficProgress& progress_;
  std::span<uint8_t> text_, echo_;
  RpingMessage text_at_, echo_at_;
  Qp* qp_ = nullptr;
  State state_ = State::kIdle;  ///< what the server is doing
};

}  // namespace understudy
