// Sends a number of messages once started, and is done when as many have come back.
#pragma once

#include "dataplane/node/endpoint.h"

namespace understudy {

class SendBurst : public Endpoint {
 public:
  SendBurst(uint32_t messages, uint32_t bytes) : messages_(messages), bytes_(bytes) {}
  void set_qp(Qp& qp) { qp_ = &qp; }  ///< before the first wake
  /// Any cookie: the start.
  void on_wake(Time now, uint64_t cookie) override;
  void on_received(Time now, Qp& qp, const Received& message) override;
  void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;

 private:
  void send(Time now);
  void finish(Time now);

  uint32_t messages_, bytes_;
  uint32_t posted_ = 0, completed_ = 0, received_ = 0;
  Qp* qp_ = nullptr;
};

}  // namespace understudy
