#include "dataplane/node/services.h"

#include <algorithm>
#include <cstring>

namespace understudy {

void SendEcho::on_received(Time now, Qp& qp, const Received& message) {
  if (message.is_write || message.length > buffer_.size()) return;
  WorkRequest answer;
  answer.op = message.has_imm ? WorkOp::kSendImm : WorkOp::kSend;
  answer.imm = message.imm;
  answer.length = message.length;
  answer.payload.bytes = buffer_.data();
  host_->post(now, qp, answer);
}

void WriteEcho::write(Time now, Qp& qp, uint64_t offset, uint32_t length) {
  WorkRequest request;
  request.op = WorkOp::kWrite;
  request.remote_va = start_->va;
  request.rkey = start_->rkey;
  request.length = length;
  request.payload.bytes = setup_.bytes;
  request.payload.offset = offset;
  host_->post(now, qp, request);
}

void WriteEcho::on_wake(Time now, uint64_t cookie) {
  start_ = reinterpret_cast<const RemoteBuffer*>(cookie);
  const uint64_t length = std::min<uint64_t>(start_->opening_bytes, setup_.length);
  std::memset(setup_.bytes, 1, length);
  write(now, *qp_, 0, static_cast<uint32_t>(length));
}

void WriteEcho::on_received(Time now, Qp& qp, const Received& message) {
  if (!message.is_write || message.length == 0 || start_ == nullptr) return;
  // The node may have other regions, which the client may write to as well.
  const uint64_t offset = message.va - setup_.va;
  if (message.va < setup_.va || offset > setup_.length || message.length > setup_.length - offset) {
    return;
  }
  ++setup_.bytes[offset + message.length - 1];
  write(now, qp, offset, message.length);
}

}  // namespace understudy
