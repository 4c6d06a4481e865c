#include "tools/rigs/ring_node/base/oob_machine.h"

namespace understudy {

void OobMachine::on_bytes(std::span<const uint8_t> bytes) {
  reader_.push(bytes);
  while (failure_.empty()) {
    auto message = reader_.next();
    if (!message) return fail_with(message.error().text);
    if (!*message) return;
    if (const auto* error = std::get_if<RingErrorMessage>(&**message)) {
      return fail_with("the " + other_ + " gave up: " + error->text);
    }
    handle(**message);
  }
}

void OobMachine::on_closed() {
  if (!failure_.empty() || is_over()) return;
  fail_with("the " + other_ + " closed the connection before it was done");
}

OobClient::OobClient(RingHelloMessage hello) : OobMachine("peer") { send(std::move(hello)); }

bool OobClient::takes_ready(const RingOobMessage& message) {
  if (!std::holds_alternative<RingReadyMessage>(message) || peer_ready_) return false;
  return peer_ready_ = true;
}

void OobClient::send_done() {
  done_ = true;
  send(RingDoneMessage{});
}

std::string connected_fault(const RingLinkEnd& ours, const RingLinkEnd& theirs) {
  const std::string where = "connected (channel " + std::to_string(ours.channel) + "): ";
  if (theirs.mtu > ours.mtu) {
    return where + "path MTU " + std::to_string(theirs.mtu) + " is larger than our port's " +
           std::to_string(ours.mtu);
  }
  if (theirs.direction == RingDirection::kPeerSends &&
      (theirs.fifo_address == 0 || theirs.fifo_rkey == 0)) {
    return where + "the sender gave no memory for credits";
  }
  return "";
}

}  // namespace understudy
