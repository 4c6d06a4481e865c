#include "tools/roce_check/packets/header_rules.h"

#include <algorithm>
#include <cstring>

#include "dataplane/wire/headers.h"

namespace understudy {
namespace {

constexpr uint16_t kDontFragment = 0x4000;
constexpr uint16_t kFirstUdpSource = 0xc000;
constexpr uint32_t kQp1Qkey = 0x80010000;
constexpr uint8_t kReservedOfByte4 = 0x3f;  // beside FECN and BECN
constexpr uint8_t kReservedOfByte8 = 0x7f;  // beside AckReq
constexpr uint16_t kVlanIdAndPriority = 0xefff;

template <typename T>
T header_at(const FrameView& view, size_t offset) {
  T out;
  std::memcpy(&out, view.frame.data() + offset, sizeof out);
  return out;
}

void check_addressing(Stamp stamp, const FrameView& view, const std::string& name,
                      Findings& findings) {
  if (!view.v6) {
    findings.examined(Rule::kA1_2);
    if ((header_at<Ipv4Header>(view, view.l3).fragment.get() & kDontFragment) == 0) {
      findings.add(Rule::kA1_2, stamp, name + ": DF is not set");
    }
  }
  findings.examined(Rule::kA1_4);
  if (view.udp_src < kFirstUdpSource) {
    findings.add(Rule::kA1_4, stamp, name + ": UDP source port " + std::to_string(view.udp_src));
  }
}

void check_cnp(Stamp stamp, const FrameView& view, const RoceView& roce, const std::string& name,
               Findings& findings) {
  findings.examined(Rule::kA6_3);
  std::string wrong;
  if (!roce.becn) wrong += ", BECN is not set";
  if (roce.psn != Psn(0)) wrong += ", PSN " + std::to_string(roce.psn.value());
  if (roce.ack_request) wrong += ", it asks for an ACK";
  const auto body = view.frame.subspan(roce.payload, roce.payload_bytes);
  if (body.size() != kCnpPadBytes) wrong += ", " + std::to_string(body.size()) + " bytes";
  if (std::ranges::any_of(body, [](uint8_t b) { return b != 0; })) wrong += ", bytes not zero";
  if (!wrong.empty()) findings.add(Rule::kA6_3, stamp, name + ": CNP" + wrong);
}

}  // namespace

Rule parse_rule(FrameKind kind, const RoceView& roce) {
  switch (kind) {
    case FrameKind::kBadIp:
      return Rule::kA1_2;
    case FrameKind::kBadTver:
      return Rule::kA1_8;
    case FrameKind::kBadOpcode:
      return Rule::kA3_3;
    case FrameKind::kBadPad:
      return Rule::kA3_1;
    default:
      return roce.bth != 0 ? Rule::kA3_1 : Rule::kA1_1;
  }
}

void check_headers(Stamp stamp, const FrameView& view, const RoceView& roce, Findings& findings) {
  const std::string name =
      view.src.text() + " -> " + view.dst.text() + " QP " + std::to_string(roce.dest_qpn);
  check_addressing(stamp, view, name, findings);

  findings.examined(Rule::kA1_7);
  const auto bth = header_at<Bth>(view, roce.bth);
  const bool deth = roce.info().deth;
  if ((bth.fecn_becn & kReservedOfByte4) != 0 || (bth.ack_req & kReservedOfByte8) != 0 ||
      (deth && header_at<Deth>(view, roce.bth + sizeof(Bth)).reserved != 0)) {
    findings.add(Rule::kA1_7, stamp, name + ": reserved bits are not zero");
  }
  findings.examined(Rule::kA1_8);
  if (roce.dest_qpn == 0) findings.add(Rule::kA1_8, stamp, name + ": queue pair 0");
  if (roce.dest_qpn == kGsiQpn && deth) {
    findings.examined(Rule::kA1_11);
    if (roce.qkey != kQp1Qkey) {
      findings.add(Rule::kA1_11, stamp, name + ": Q_Key " + std::to_string(roce.qkey));
    }
  }
  if (roce.info().kind == OpKind::kCnp) return check_cnp(stamp, view, roce, name, findings);

  findings.examined(Rule::kA3_1);
  const OpKind kind = roce.info().kind;
  const bool data = kind == OpKind::kSend || kind == OpKind::kWrite ||
                    kind == OpKind::kReadResponse || kind == OpKind::kUd;
  if (!data && roce.payload_bytes + roce.pad != 0) {
    findings.add(Rule::kA3_1, stamp,
                 name + ": " + roce.info().name + " with " +
                     std::to_string(roce.payload_bytes + roce.pad) + " bytes behind its headers");
  } else if ((roce.payload_bytes + roce.pad) % 4 != 0) {
    findings.add(Rule::kA3_1, stamp,
                 name + ": " + std::to_string(roce.payload_bytes) + " bytes with a pad count of " +
                     std::to_string(roce.pad));
  }
}

PacketClass class_of(const FrameView& view, const RoceView& roce) {
  PacketClass out;
  out.tagged = view.vlans != 0;
  if (out.tagged) out.vlan_tci = view.vlan[view.vlans - 1].tci & kVlanIdAndPriority;
  out.dscp = view.tos >> 2;
  out.pkey = roce.pkey;
  out.udp_src = view.udp_src;
  return out;
}

void check_class(Stamp stamp, const Flow& flow, const PacketClass& traffic, Findings& findings) {
  findings.examined(Rule::kA1_10);
  findings.examined(Rule::kA1_12);
  const PacketClass& first = flow.traffic;
  if (traffic.pkey != first.pkey) {
    findings.add(Rule::kA1_10, stamp,
                 flow.name() + ": P_Key " + std::to_string(traffic.pkey) + " after " +
                     std::to_string(first.pkey));
  }
  if (traffic.tagged != first.tagged || traffic.vlan_tci != first.vlan_tci ||
      traffic.dscp != first.dscp) {
    findings.add(Rule::kA1_12, stamp, flow.name() + ": another VLAN, priority or DSCP than before");
  }
}

}  // namespace understudy
