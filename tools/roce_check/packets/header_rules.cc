#include "tools/roce_check/packets/header_rules.h"

#include <algorithm>
#include <cstring>

#include "dataplane/wire/build.h"
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

/// What a finding calls a packet; made when there is one.
struct Name {
  const FrameView& view;
  const RoceView& roce;
  std::string operator+(const std::string& text) const {
    return view.src.text() + " -> " + view.dst.text() + " QP " + std::to_string(roce.dest_qpn) +
           text;
  }
};

void check_addressing(Stamp stamp, const FrameView& view, const Name& name, Findings& findings) {
  if (!view.v6) {
    findings.examined(Rule::kA1_2);
    if ((header_at<Ipv4Header>(view, view.l3).fragment.get() & kDontFragment) == 0) {
      findings.add(Rule::kA1_2, stamp, name + ": DF is not set");
    }
  }
  if (view.ttl == 0) {
    findings.add(Rule::kA1_2, stamp, name + (view.v6 ? ": hop limit 0" : ": TTL 0"));
  }
  findings.examined(Rule::kA1_4);
  if (view.udp_src < kFirstUdpSource) {
    // That is Linux' choice and ours; other stacks have other ports.
    findings.remark(Rule::kA1_4, stamp, name + ": UDP source port " + std::to_string(view.udp_src),
                    Basis::kFrame);
  }
}

/// Whether bytes with this sum, their checksum among them, have the right one.
bool sums_up(uint32_t sum) { return checksum_finish(sum) == 0; }

/// RoCE sends 0 and looks at nothing; one that is there must be right all the same.
void check_udp_checksum(Stamp stamp, const FrameView& view, const Name& name, bool whole,
                        Findings& findings) {
  findings.examined(Rule::kA1_3);
  if (header_at<UdpHeader>(view, view.l4).checksum.get() == 0) return;
  if (!whole) return;
  const uint32_t length = view.ip_end - view.l4;
  uint32_t sum = pseudo_header_sum(view.src, view.dst, kIpProtoUdp, length);
  sum = checksum_add(sum, view.frame.data() + view.l4, length);
  if (sums_up(sum)) {
    findings.remark(Rule::kA1_3, stamp, name + ": with a UDP checksum, which RoCEv2 sends as 0");
  } else {
    findings.add(Rule::kA1_3, stamp, name + ": wrong UDP checksum, which RoCEv2 sends as 0");
  }
}

/// RoCEv2's marks are those of IP: BECN is a CNP's, and FECN nobody's. An ACK may hand a mark back.
void check_notification_bits(Stamp stamp, const RoceView& roce, const Name& name,
                             Findings& findings) {
  const OpKind kind = roce.info().kind;
  if (roce.fecn) findings.add(Rule::kA1_7, stamp, name + ": FECN is set");
  if (!roce.becn || kind == OpKind::kCnp) return;
  if (kind == OpKind::kAck) {
    findings.remark(Rule::kA1_7, stamp, name + ": BECN is set in an ACK");
  } else {
    findings.add(Rule::kA1_7, stamp, name + ": BECN is set, and it is no CNP");
  }
}

void check_cnp(Stamp stamp, const FrameView& view, const RoceView& roce, const Name& name,
               Findings& findings) {
  findings.examined(Rule::kA6_3);
  std::string wrong;
  if (!roce.becn) wrong += ", BECN is not set";
  if ((view.tos & 3) != 0) wrong += ", ECN-capable";
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

void check_headers(Stamp stamp, const FrameView& view, const RoceView& roce, bool whole,
                   Findings& findings) {
  const Name name{view, roce};
  check_addressing(stamp, view, name, findings);
  check_udp_checksum(stamp, view, name, whole, findings);

  findings.examined(Rule::kA1_7);
  const auto bth = header_at<Bth>(view, roce.bth);
  const bool deth = roce.info().deth;
  if ((bth.fecn_becn & kReservedOfByte4) != 0 || (bth.ack_req & kReservedOfByte8) != 0 ||
      (deth && header_at<Deth>(view, roce.bth + sizeof(Bth)).reserved != 0)) {
    findings.add(Rule::kA1_7, stamp, name + ": reserved bits are not zero");
  }
  check_notification_bits(stamp, roce, name, findings);
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
  out.migration = roce.migration;
  if (!view.v6) out.identification = header_at<Ipv4Header>(view, view.l3).id.get();
  return out;
}

void Ipv4Rules::packet(Stamp stamp, const FrameView& view, Findings& findings) {
  if (view.v6) return;
  if (newest_ == nullptr || newest_->first != view.src) {
    newest_ = &*sources_.try_emplace(view.src).first;
  }
  Source& source = newest_->second;
  ++source.packets;
  if (sums_up(checksum_add(0, view.frame.data() + view.l3, sizeof(Ipv4Header)))) return;
  if (header_at<Ipv4Header>(view, view.l3).checksum.get() != 0) {
    findings.add(
        Rule::kA1_2, stamp,
        view.src.text() + " -> " + view.dst.text() + ": wrong checksum of the IPv4 header");
    return;
  }
  if (source.without_checksum++ == 0) source.first = stamp;
}

void Ipv4Rules::finish(Findings& findings) const {
  for (const auto& [address, source] : sources_) {
    if (source.without_checksum == 0) continue;
    const std::string text = address.text() + ": " + std::to_string(source.without_checksum) +
                             " of " + std::to_string(source.packets) +
                             " IPv4 headers have a checksum of 0, which is wrong";
    if (source.without_checksum == source.packets) {
      findings.remark(Rule::kA1_2, source.first, text + "; captured before it was filled in?");
    } else {
      findings.add(Rule::kA1_2, source.first, text);
    }
  }
}

void Identifications::packet(Stamp stamp, uint16_t identification) {
  changes_ += packets_ != 0 && identification != before_ ? 1 : 0;
  const bool same = packets_ != 0 && identification == before_;
  ++packets_;
  before_ = identification;
  if (!same) {
    newest_ = static_cast<size_t>(
        std::ranges::find(entries_, identification, &Entry::identification) - entries_.begin());
    if (newest_ == entries_.size()) {
      if (entries_.size() < kCounted) {
        entries_.push_back({identification, 0, stamp});
      } else if (others_.packets == 0) {
        others_ = {identification, 0, stamp};
      }
    }
  }
  ++(newest_ < entries_.size() ? entries_[newest_] : others_).packets;
}

void Identifications::finish(Flow& flow, Findings& findings) const {
  flow.identification_changes = changes_;
  if (changes_ == 0) return;
  const auto usual = std::ranges::max_element(entries_, {}, &Entry::packets);
  const uint64_t others = packets_ - usual->packets;
  const Entry* other = others_.packets != 0 ? &others_ : nullptr;
  for (const Entry& entry : entries_) {
    if (&entry == &*usual) continue;
    if (other == nullptr || entry.first.frame < other->first.frame) other = &entry;
  }
  const Stamp stamp = other->first;
  const std::string text = flow.name() + ": IPv4 identification " +
                           std::to_string(other->identification) + ", not " +
                           std::to_string(usual->identification);
  // Linux' rdma_rxe counts them: one that stands still but for a few packets does not count.
  constexpr uint64_t kOften = 8;
  if (others * kOften < packets_) {
    findings.add(Rule::kA1_2, stamp, text + " as otherwise", Basis::kConnection);
  } else {
    findings.remark(Rule::kA1_2, stamp, text + ": it is not constant", Basis::kConnection);
  }
}

void check_class(Stamp stamp, const Flow& flow, const PacketClass& traffic, Findings& findings) {
  findings.examined(Rule::kA1_10);
  findings.examined(Rule::kA1_12);
  const PacketClass& first = flow.traffic;
  findings.examined(Rule::kA1_9);
  if (traffic.migration != first.migration) {
    findings.add(Rule::kA1_9, stamp,
                 flow.name() + (traffic.migration ? ": MigReq 1 after 0" : ": MigReq 0 after 1"));
  }
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
