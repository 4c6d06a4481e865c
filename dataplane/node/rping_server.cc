#include "dataplane/node/rping_server.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace understudy {
namespace {

constexpr uint64_t kTextMoved = 1;  ///< id of the READ or WRITE; the SEND behind it has 0
constexpr std::array<uint8_t, kRpingMessageBytes> kDone{};

}  // namespace

void RpingServer::on_received(Time now, Qp& qp, const Received& message) {
  const bool awaited = state_ == State::kSource || state_ == State::kSink;
  if (message.is_write || message.length != kRpingMessageBytes || !awaited) return;
  RpingMessage from_client;
  std::memcpy(&from_client, received_.data(), sizeof from_client);
  const uint32_t length = from_client.length.get();
  WorkRequest request;
  request.id = kTextMoved;
  request.remote_va = from_client.address.get();
  request.rkey = from_client.rkey.get();
  if (state_ == State::kSource) {
    if (length > text_.size()) return;
    text_bytes_ = length;
    request.op = WorkOp::kRead;
    request.read_to = text_.data();
    state_ = State::kReading;
  } else {
    request.op = WorkOp::kWrite;
    request.payload.bytes = text_.data();
    state_ = State::kWriting;
  }
  request.length = std::min(length, text_bytes_);
  host_->post(now, qp, request);
}

void RpingServer::on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) {
  if (id != kTextMoved || status != WorkStatus::kSuccess) return;
  state_ = state_ == State::kReading ? State::kSink : State::kSource;
  WorkRequest done;
  done.op = WorkOp::kSend;
  done.length = kRpingMessageBytes;
  done.payload.bytes = kDone.data();
  host_->post(now, qp, done);
}

}  // namespace understudy
