#include "dataplane/node/send_burst.h"

namespace understudy {

void SendBurst::on_wake(Time now, uint64_t) { send(now); }

/// As many as the send queue takes; the rest follows when some are done.
void SendBurst::send(Time now) {
  WorkRequest request;
  request.op = WorkOp::kSend;
  request.length = bytes_;
  while (posted_ < messages_) {
    request.id = posted_;
    if (!host_->post(now, *qp_, request)) return;
    ++posted_;
  }
}

void SendBurst::on_received(Time now, Qp&, const Received& message) {
  if (message.is_write) return;
  ++received_;
  finish(now);
}

void SendBurst::on_completed(Time now, Qp&, uint64_t, WorkStatus status) {
  if (status != WorkStatus::kSuccess) return;
  ++completed_;
  send(now);
  finish(now);
}

void SendBurst::finish(Time now) {
  if (completed_ == messages_ && received_ == messages_) {
    host_->tell(now, *qp_, NoticeKind::kDone, {});
  }
}

}  // namespace understudy
