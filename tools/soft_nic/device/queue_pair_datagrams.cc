// Queue pairs of unreliable datagrams: each request is one packet to an address handle, sent and
// done; what comes in takes a receive or is lost.
#include <arpa/inet.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "dataplane/wire/headers.h"
#include "tools/soft_nic/device/nic.h"
#include "tools/soft_nic/device/objects.h"
#include "tools/soft_nic/device/queue_pair.h"

namespace understudy::soft_nic {

namespace {

/// Room before the payload in every receive: a global routing header, which IPv6's is, or in its
/// second half the IPv4 header that stands for it (rule A1).
constexpr uint32_t kGrhBytes = 40;
/// With this bit set the queue pair's own Q_Key is meant (IBTA 10.2.5).
constexpr uint32_t kOwnQkey = 0x80000000;
/// A completion says what the packet was (IBTA A17.4.5.1). Verbs have no field for that; mlx5's
/// driver says it in this one, where programs look: bit 3 is UDP, the others are 2 for IPv4 and 1
/// for IPv6.
constexpr uint8_t kUdpOverIpv4 = 0xa, kUdpOverIpv6 = 0x9;

}  // namespace

int QueuePair::check_datagram(const ibv_send_wr& request) const {
  if (request.opcode != IBV_WR_SEND && request.opcode != IBV_WR_SEND_WITH_IMM) return EINVAL;
  if (request.wr.ud.ah == nullptr) return EINVAL;
  uint64_t bytes = 0;
  for (int i = 0; i < request.num_sge; ++i) bytes += request.sg_list[i].length;
  return bytes <= nic_.mtu() ? 0 : EINVAL;
}

void QueuePair::address(const ibv_send_wr& request, Datagram& out) const {
  out.way = AddressHandle::of(request.wr.ud.ah).way;
  out.way.udp_src = static_cast<uint16_t>(0xc000 | (number() & 0x3fff));
  out.qpn = request.wr.ud.remote_qpn & kQpnMask;
  out.qkey =
      (request.wr.ud.remote_qkey & kOwnQkey) != 0 ? attributes_.qkey : request.wr.ud.remote_qkey;
  out.has_imm = request.opcode == IBV_WR_SEND_WITH_IMM;
  out.imm = ntohl(request.imm_data);
  out.solicited = (request.send_flags & IBV_SEND_SOLICITED) != 0;
}

bool QueuePair::is_datagram_local() const {
  const Datagram& next = sends_.oldest().datagram;
  return nic_.is_within(next.way.dst, next.qpn);
}

uint32_t QueuePair::build_datagram(uint8_t* out) {
  const Work& work = sends_.oldest();
  RoceFields fields;
  fields.opcode = work.datagram.has_imm ? Opcode::kUdSendOnlyImm : Opcode::kUdSendOnly;
  fields.dest_qpn = work.datagram.qpn;
  fields.psn = next_psn_;
  fields.qkey = work.datagram.qkey;
  fields.src_qpn = number();
  fields.imm = work.datagram.imm;
  fields.solicited = work.datagram.solicited;
  next_psn_ = next_psn_.next();
  const RoceAddressing& way = work.datagram.way;
  uint8_t* payload = begin_roce(out, way, fields, work.length);
  sends_.fill(sends_.slot_of(work), 0, {payload, work.length});
  finish_roce(out, way, fields.opcode, work.length);
  const uint32_t bytes = roce_frame_bytes(way, fields.opcode, work.length);
  complete(work, IBV_WC_SUCCESS);
  sends_.pop();
  finish_refused();
  return bytes;
}

void QueuePair::hear_datagram(const FrameView& view, const RoceView& roce, const uint8_t* payload) {
  if (roce.info().kind != OpKind::kUd || roce.qkey != attributes_.qkey || !take()) return;
  std::array<uint8_t, kGrhBytes> header{};
  const size_t bytes = view.v6 ? sizeof(Ipv6Header) : sizeof(Ipv4Header);
  std::memcpy(header.data() + kGrhBytes - bytes, view.frame.data() + view.l3, bytes);
  if (place(0, header) || place(kGrhBytes, {payload, roce.payload_bytes})) {
    return fail(std::nullopt);  // the receive's completion says why
  }
  ibv_wc wc{};
  wc.opcode = IBV_WC_RECV;
  wc.byte_len = kGrhBytes + roce.payload_bytes;
  wc.src_qp = roce.src_qpn;
  wc.wc_flags = IBV_WC_GRH;
  wc.sl = view.v6 ? kUdpOverIpv6 : kUdpOverIpv4;
  if (roce.info().imm) {
    wc.imm_data = htonl(roce.imm);
    wc.wc_flags |= IBV_WC_WITH_IMM;
  }
  complete_receive(wc, roce.solicited);
}

}  // namespace understudy::soft_nic
