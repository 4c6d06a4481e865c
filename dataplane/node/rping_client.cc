#include "dataplane/node/rping_client.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

namespace understudy {
namespace {

constexpr std::string_view kHead = "rdma-ping-";
constexpr uint8_t kFirst = 'A', kLetters = 'z' - 'A' + 1;

/// As rping's: a head with the ping's number, then letters that begin one later each time, and a
/// zero.
void write_text(std::span<uint8_t> text, uint64_t ping) {
  char head[kHead.size() + 24];
  std::memcpy(head, kHead.data(), kHead.size());
  char* end = std::to_chars(head + kHead.size(), head + sizeof head - 2, ping).ptr;
  *end++ = ':';
  *end++ = ' ';
  const size_t length = std::min<size_t>(static_cast<size_t>(end - head), text.size());
  std::memcpy(text.data(), head, length);
  for (size_t i = length; i < text.size(); ++i) {
    text[i] = static_cast<uint8_t>(kFirst + (ping + i - length) % kLetters);
  }
  text.back() = 0;
}

}  // namespace

RpingClient::RpingClient(const Setup& setup, TrafficProgress& progress)
    : setup_(setup),
      progress_(progress),
      text_(setup.memory.subspan(kRpingMessageBytes, setup.text_bytes)),
      echo_(setup.memory.subspan(kRpingMessageBytes + setup.text_bytes, setup.text_bytes)) {
  const uint64_t va = setup.va + kRpingMessageBytes;
  text_at_ = {Be64(va), Be32(setup.rkey), Be32(setup.text_bytes)};
  echo_at_ = {Be64(va + setup.text_bytes), Be32(setup.rkey), Be32(setup.text_bytes)};
}

void RpingClient::on_wake(Time now, uint64_t) {
  progress_.first = now;
  ping(now);
}

void RpingClient::ping(Time now) {
  write_text(text_, progress_.completed);
  std::memset(echo_.data(), 0, echo_.size());
  state_ = State::kReading;
  tell(now, text_at_);
}

void RpingClient::tell(Time now, const RpingMessage& where) {
  WorkRequest request;
  request.op = WorkOp::kSend;
  request.length = kRpingMessageBytes;
  request.payload.bytes = reinterpret_cast<const uint8_t*>(&where);
  if (!host_->post(now, *qp_, request)) progress_.end(now, WorkStatus::kFlushed);
}

void RpingClient::on_received(Time now, Qp&, const Received& message) {
  if (message.is_write || ended() || state_ == State::kIdle) return;
  if (state_ == State::kReading && message.length == kRpingMessageBytes) {
    state_ = State::kWriting;
    return tell(now, echo_at_);
  }
  if (message.length != kRpingMessageBytes || !std::ranges::equal(text_, echo_)) {
    progress_.wrong = true;
    return progress_.end(now, WorkStatus::kSuccess);
  }
  if (++progress_.completed == setup_.count) return progress_.end(now, WorkStatus::kSuccess);
  ping(now);
}

void RpingClient::on_completed(Time now, Qp&, uint64_t, WorkStatus status) {
  if (status != WorkStatus::kSuccess && !ended()) progress_.end(now, status);
}

}  // namespace understudy
