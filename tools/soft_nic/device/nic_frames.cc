// Frames in and out of the soft NIC.
#include <cstring>

#include "dataplane/wire/build.h"
#include "tools/soft_nic/device/nic.h"
#include "tools/soft_nic/device/queue_pair.h"
#include "tools/soft_nic/device/ways.h"

namespace understudy::soft_nic {

namespace {

constexpr size_t kTagAt = 12;  ///< behind the MACs
constexpr int kTurn = 16;      ///< packets of one queue pair before the next one's
constexpr Duration kPollsOn = Duration::us(20);
constexpr int kMostAtOnce = 512;  ///< packets sent before packets are received again

}  // namespace

bool Nic::receive(FramePort& port, Time now) {
  const auto frames = port.receive();
  for (const auto bytes : frames) frame(bytes, now);
  return !frames.empty();
}

void Nic::frame(std::span<const uint8_t> bytes, Time now) {
  FrameView view;
  RoceView roce;
  ++counters_.rx_frames;
  const FrameKind kind = parse_frame(bytes, view, roce);
  if (!is_in_our_vlan(view)) {
    ++counters_.other_vlan;
    return;
  }
  switch (kind) {
    case FrameKind::kArp:
      return neighbour_frame(view);
    case FrameKind::kRoce:
      break;
    case FrameKind::kIp:
      if (is_neighbour_frame(view)) return neighbour_frame(view);
      [[fallthrough]];
    case FrameKind::kMacControl:
    case FrameKind::kOther:
      return hand_to_kernel(view);
    default:
      ++counters_.malformed;
      return;
  }
  if (!interface_.has(view.dst)) {
    ++counters_.other_address;
    return;
  }
  if (roce.dest_qpn == kGsiQpn) return services_frame(view, roce, now);
  const uint32_t slot = roce.dest_qpn - first_qpn_;
  QueuePair* qp = slot < slots_.size() ? slots_[slot] : nullptr;
  if (qp == nullptr || !qp->hears(view.src, view.dst)) {
    ++counters_.unknown_qp;  // it may be of another program: before the ICRC, which takes long
    return;
  }
  if (!icrc_ok(view, roce)) {
    ++counters_.bad_icrc;
    return;
  }
  qp->on_packet(now, view, roce, bytes.data() + roce.payload);
  touch(*qp, now);
}

void Nic::services_frame(const FrameView& view, const RoceView& roce, Time now) {
  if (services_ == nullptr || roce.info().kind != OpKind::kUd || roce.qkey != kGsiQkey) {
    ++counters_.unknown_qp;
    return;
  }
  if (!icrc_ok(view, roce)) {
    ++counters_.bad_icrc;
    return;
  }
  // It will be answered; who asks has just shown where it is.
  if (interface_.next_hop(view.src) == view.src) neighbours_.learn(view.src, view.src_mac);
  services_->on_datagram(now, {view.dst, view.src},
                         {view.frame.data() + roce.payload, roce.payload_bytes});
  touch_services();
}

bool Nic::send_to_services(const CmEnds& ends, std::span<const uint8_t> bytes) {
  const IpAddress& to = ends.remote;
  const IpAddress hop = interface_.has(to) ? to : interface_.next_hop(to);
  const auto mac = neighbours_.find(hop);
  if (!mac) {
    ask(hop);
    return false;
  }
  const RoceAddressing way = way_of(interface_, ends.local, to, *mac);
  RoceFields fields;
  fields.opcode = Opcode::kUdSendOnly;
  fields.dest_qpn = kGsiQpn;
  fields.src_qpn = kGsiQpn;
  fields.qkey = kGsiQkey;
  fields.psn = services_psn_;
  services_psn_ = services_psn_.next();
  const auto size = static_cast<uint32_t>(bytes.size());
  FramePort& port = is_within(to, kGsiQpn) ? static_cast<FramePort&>(loop_) : *port_;
  uint8_t* out = port.reserve(longest_frame_);
  if (out == nullptr) return false;
  std::memcpy(begin_roce(out, way, fields, size), bytes.data(), size);
  finish_roce(out, way, fields.opcode, size);
  port.commit(roce_frame_bytes(way, fields.opcode, size));
  port.flush();
  return true;
}

bool Nic::is_in_our_vlan(const FrameView& view) const {
  const uint16_t vlan = view.vlans > 0 ? view.vlan[0].vid() : uint16_t{0};
  return view.vlans < 2 && vlan == interface_.vlan.value_or(0);
}

void Nic::hand_to_kernel(const FrameView& view) {
  if (!to_kernel_) return;
  if (!interface_.vlan) return to_kernel_(view.frame, {});
  to_kernel_(view.frame.first(kTagAt), view.frame.subspan(kTagAt + sizeof(VlanTag)));
}

void Nic::neighbour_frame(const FrameView& view) {
  const bool asks_us = neighbours_.hear(view);
  if (to_kernel_) return hand_to_kernel(view);  // it answers
  if (asks_us && !port_->kernel_answers()) answer_neighbour(view);
}

void Nic::send_from_kernel(std::span<const uint8_t> frame) {
  if (frame.size() < sizeof(EthHeader)) return;
  const size_t tag_bytes = interface_.vlan ? sizeof(VlanTag) : 0;
  const auto bytes = static_cast<uint32_t>(frame.size() + tag_bytes);
  uint8_t* out = port_->reserve(bytes);
  if (out == nullptr) return;
  std::memcpy(out, frame.data(), kTagAt);
  if (interface_.vlan) {
    const Be16 tag[] = {kEtherVlan, *interface_.vlan};
    std::memcpy(out + kTagAt, tag, sizeof tag);
  }
  std::memcpy(out + kTagAt + tag_bytes, frame.data() + kTagAt, frame.size() - kTagAt);
  port_->commit(bytes);
  port_->flush();
}

void Nic::answer_neighbour(const FrameView& view) {
  uint8_t* out = port_->reserve(Neighbours::kFrameBytes);
  if (out == nullptr) return;  // it will ask again
  port_->commit(neighbours_.answer(view, out));
}

/// False when the port takes no more.
bool Nic::send_from(QueuePair& qp, Time now) {
  for (int i = 0; i < kTurn && qp.has_packet(now); ++i) {
    FramePort& port = qp.is_local() ? static_cast<FramePort&>(loop_) : *port_;
    uint8_t* out = port.reserve(longest_frame_);
    if (out == nullptr) return false;
    const uint32_t bytes = qp.build(now, out);
    if (bytes == 0) continue;
    port.commit(bytes);
    ++counters_.tx_frames;
  }
  return true;
}

/// Frames that stay behind wake the helper thread at the latest.
void Nic::send_posted(const QueuePair& qp, Time now) {
  if (qp.works() < 2 || now - polled_at() > kPollsOn) return send(now);
  build(now);
  set_wake(now);
}

void Nic::send(Time now) {
  build(now);
  port_->flush();
  const bool more = !ready_.empty() || !loop_.empty();
  set_wake(more ? now : timers_);
}

void Nic::build(Time now) {
  bool blocked = false;
  for (int sent = 0; !ready_.empty() && sent < kMostAtOnce && !blocked; sent += kTurn) {
    QueuePair& qp = *ready_.front();
    blocked = !send_from(qp, now);
    ready_.pop_front();
    qp.is_ready = false;
    touch(qp, now);
  }
}

}  // namespace understudy::soft_nic
