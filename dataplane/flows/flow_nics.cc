// What NICs take for messages and acknowledgements beside their links' rates (base/nic_limits.h).
#include "dataplane/flows/flow_traffic.h"

namespace understudy {

/// That one stands for.
uint32_t FlowTraffic::packets_of_ack(const FlowSpec& spec) const {
  if (nics_delay_ && nic(spec.to).ack_every != 0) return nic(spec.to).ack_every;
  return spec.ack_every == 0 ? settings_.ack_every : spec.ack_every;
}

/// The last byte is at the receiver's NIC.
void FlowTraffic::came_in(uint32_t flow, Time now) {
  const Duration tail = nics_delay_ ? nic(specs_[flow].to).tail : Duration();
  if (tail == Duration()) return received_all(flow, now);
  network_->wake_at(now + tail, flow << kWakeShift | kReceived);
}

/// The last acknowledgement is at the sender's NIC.
void FlowTraffic::came_back(uint32_t flow, Time now) {
  const Duration tail = nics_delay_ ? nic(specs_[flow].from).tail : Duration();
  if (tail == Duration()) return acknowledged_all(flow, now);
  network_->wake_at(now + tail, flow << kWakeShift | kAcknowledged);
}

/// One of its two ends has heard of the message.
void FlowTraffic::heard_all(uint32_t flow) {
  Flow& f = flows_[flow];
  if (f.hears_more) {
    f.hears_more = false;
    return;
  }
  f.busy = false;
  if (!f.lent) ++finished_;
}

void FlowTraffic::line_up_answer(PacketId answer, LinkId link, Time now) {
  const Duration delay = nics_delay_ ? nic(graph_.link(link).from).ack_delay : Duration();
  if (delay > Duration()) return network_->wake_at(now + delay, answer << kWakeShift | kAnswer);
  put_answer(answer, link, now);
}

/// An acknowledgement or CNP stands in front of its NIC's link.
void FlowTraffic::put_answer(PacketId answer, LinkId link, Time now) {
  if (acks_wait(link)) {
    put_behind(answer, link);
  } else if (joins_waiting(answer)) {
    return;
  } else {
    nics_[link].control.push_back(answer);
  }
  network_->ready(link, now);
}

/// Of a wake-up that a NIC asked for; false: it is another one.
bool FlowTraffic::on_nic(Wake kind, uint32_t what, Time now) {
  switch (kind) {
    case kReceived:
      received_all(what, now);
      return true;
    case kAcknowledged:
      acknowledged_all(what, now);
      return true;
    case kAnswer: {
      const LinkId link = senders_[flows_[(*network_)[what].flow].sender].first_back;
      put_answer(what, link, now);
      return true;
    }
    default:
      return false;
  }
}

}  // namespace understudy
