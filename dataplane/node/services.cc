#include "dataplane/node/services.h"

namespace understudy {

void SendEcho::on_received(Time now, Qp& qp, const Received& message) {
  if (message.is_write) return;
  WorkRequest answer;
  answer.op = message.has_imm ? WorkOp::kSendImm : WorkOp::kSend;
  answer.imm = message.imm;
  answer.length = message.length;
  answer.payload.bytes = buffer_;
  host_->post(now, qp, answer);
}

void WriteEcho::on_received(Time now, Qp& qp, const Received& message) {
  if (!message.is_write || message.length == 0) return;
  WorkRequest answer;
  answer.op = WorkOp::kWrite;
  answer.remote_va = setup_.remote_va;
  answer.rkey = setup_.remote_rkey;
  answer.length = message.length;
  answer.payload.bytes = setup_.bytes;
  answer.payload.offset = message.va - setup_.va;
  host_->post(now, qp, answer);
}

}  // namespace understudy
