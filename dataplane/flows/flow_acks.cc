// Acknowledgements of flows: how they wait for their NIC's link, and what a sender learns of them. A
// queue pair has one acknowledgement at a time: what comes in while it waits is told by it, too, as
// by a responder's (dataplane/rc/responder.h, rule A4.10). Flows without a connection answer packet
// by packet, as those of the simulators that they are compared with.
#include <algorithm>
#include <utility>

#include "dataplane/flows/flow_traffic.h"

namespace understudy {

/// It says what it has to say by the acknowledgement of its connection that waits; the packet is
/// given back then.
bool FlowTraffic::joins_waiting(PacketId answer) {
  NetPacket& p = (*network_)[answer];
  Sender& s = senders_[flows_[p.flow].sender];
  if (specs_[p.flow].connection == kNoConnection) return false;
  if (p.kind != kAck || sprayed(p.flow)) return false;
  if (s.ack == kNoPacketId || (*network_)[s.ack].priority != p.priority) {
    s.ack = answer;
    return false;
  }
  NetPacket& waiting = (*network_)[s.ack];
  if (waiting.flow != p.flow) {
    flows_[waiting.flow].told = uint64_t{waiting.number} * settings_.payload;
    flows_[p.flow].speaks_for = waiting.flow;
  }
  waiting.flow = p.flow;
  waiting.number = p.number;
  waiting.sent = p.sent;
  waiting.tells_ce = waiting.tells_ce || p.tells_ce;
  if (network_->has_telemetry()) network_->telemetry(s.ack) = network_->telemetry(answer);
  network_->release(answer);
  return true;
}

void FlowTraffic::on_ack(const NetPacket& p, PacketId id, Time now) {
  Sender& s = senders_[flows_[p.flow].sender];
  if (s.control == nullptr) return;  // late ones of a connection that has ended
  if (p.kind == kCnp) {
    s.control->on_cnp(now);
    return after_control(flows_[p.flow].sender, now);
  }
  AckHeard heard;
  take_others(p.flow, heard, now);
  take_ack(p.flow, uint64_t{p.number} * settings_.payload, heard, now);
  if (p.kind == kNak && flows_[p.flow].running) go_back(p.flow);
  if (s.control != nullptr) {
    heard.at = now;
    heard.rtt = now - p.sent;
    heard.acked = s.acked;
    heard.sent = s.sent;
    heard.marked = p.tells_ce;
    heard.switches = s.switches;
    if (network_->has_telemetry()) {
      const TelemetryRecord& record = network_->telemetry(id);
      heard.hops = std::span(record.hops).first(record.count);
    }
    s.control->on_ack(heard);
    after_control(flows_[p.flow].sender, now);
  }
  for (const uint32_t flow : ended_) came_back(flow, now);
  ended_.clear();
}

/// Of the flows for which the acknowledgement of `flow` speaks, the oldest first. As many as came in
/// while it waited: a pause of its link may be long.
void FlowTraffic::take_others(uint32_t flow, AckHeard& heard, Time now) {
  others_.clear();
  for (uint32_t other = std::exchange(flows_[flow].speaks_for, kNone); other != kNone;
       other = std::exchange(flows_[other].speaks_for, kNone)) {
    others_.push_back(other);
  }
  for (size_t i = others_.size(); i > 0; --i) {
    const uint32_t other = others_[i - 1];
    take_ack(other, flows_[other].told, heard, now);
  }
}

/// A flow that has ended by it is noted in ended_, and the control of a sender all of whose flows
/// have.
void FlowTraffic::take_ack(uint32_t flow, uint64_t received, AckHeard& heard, Time now) {
  Flow& f = flows_[flow];
  Sender& s = senders_[f.sender];
  received = std::min(received, f.end);
  if (received > f.acked) {
    const uint64_t newly_acked = received - f.acked;
    const uint64_t in_flight = f.next > f.acked ? f.next - f.acked : 0;
    s.in_flight -= std::min(newly_acked, in_flight);
    s.acked += newly_acked;
    heard.newly_acked += newly_acked;
    f.acked = received;
    f.next = std::max(f.next, f.acked);  // an answer to what was sent before going back
    drop_sent(s);
    s.heard = now;
    s.timeouts = 0;
  }
  if (f.acked != f.end || !f.running) return;
  f.running = false;
  shut(flow);
  groups_.note_end(specs_[flow].group);
  if (!f.lent && --s.flows_left == 0) s.control.reset();
  ended_.push_back(flow);
}

}  // namespace understudy
