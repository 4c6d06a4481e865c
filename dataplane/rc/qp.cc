#include "dataplane/rc/qp.h"

namespace understudy {

namespace {
constexpr bool wants(TrafficKind asked, TrafficKind has) {
  return (static_cast<uint8_t>(asked) & static_cast<uint8_t>(has)) != 0;
}
}  // namespace

Qp::Qp(const QpConfig& config, const RegionTable& regions, RcCounters& counters, QpOwner& owner)
    : config_(config),
      owner_(owner),
      responder_(config_, regions, counters),
      requester_(config_, counters) {}

void Qp::on_packet(Time now, const RoceView& packet, const uint8_t* payload) {
  if (error_) return;
  const OpcodeInfo& info = packet.info();
  if (info.is_response()) {
    requester_.on_response(now, packet, payload);
    report_completions(now);
    return;
  }
  const ResponderResult result = responder_.on_request(packet, payload);
  if (result.message_done) owner_.on_received(now, *this, result.received);
  if (result.fatal) {
    error_ = true;
    requester_.fail(WorkStatus::kFlushed);
    report_completions(now);
  }
}

void Qp::on_timer(Time now) {
  requester_.on_timer(now);
  report_completions(now);
}

void Qp::report_completions(Time now) {
  error_ = error_ || requester_.failed();
  Completion c;
  while (requester_.pop_completion(c)) owner_.on_completed(now, *this, c.id, c.status);
}

bool Qp::can_send(Time now, TrafficKind kind) const {
  const TrafficKind requests = config_.control ? TrafficKind::kControl : TrafficKind::kData;
  return (wants(kind, TrafficKind::kControl) && responder_.has_ack()) ||
         (wants(kind, TrafficKind::kData) && responder_.has_read_data()) ||
         (wants(kind, requests) && requester_.has_packet(now));
}

bool Qp::pull(Time now, TrafficKind kind, OutPacket& out, bool& departs, uint64_t& id) {
  departs = false;
  const TrafficKind requests = config_.control ? TrafficKind::kControl : TrafficKind::kData;
  if (wants(kind, TrafficKind::kControl) && responder_.has_ack()) {
    responder_.pull_ack(out);
  } else if (wants(kind, TrafficKind::kData) && responder_.has_read_data()) {
    responder_.pull_read_data(out);
  } else if (wants(kind, requests) && requester_.has_packet(now)) {
    departs = requester_.pull(now, out, id);
  } else {
    return false;
  }
  out.fields.dest_qpn = config_.remote_qpn;
  out.fields.pkey = config_.pkey;
  out.fields.migration = config_.migration;
  return true;
}

}  // namespace understudy
