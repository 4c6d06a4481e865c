#include "tools/roce_check/packets/packet_table.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "dataplane/wire/headers.h"
#include "dataplane/wire/parse.h"
#include "tools/roce_check/packets/header_rules.h"

namespace understudy {
namespace {

constexpr uint8_t kTransportMask = 0xe0;  // BTH opcode, bits 7..5
constexpr uint8_t kTransportRd = 0x40;
constexpr uint8_t kTransportXrc = 0xa0;
constexpr uint32_t kMostFrameBytes = 1 << 16;

class TableBuilder {
 public:
  TableBuilder(const ReadOptions& options, Findings& findings)
      : options_(options), findings_(findings) {}

  void frame(const SourceFrame& captured) {
    SourceFrame in = captured;
    const bool whole = in.bytes.size() >= in.original_bytes;
    if (!whole) in.bytes = filled_up(captured);
    table_.changes.insert(table_.changes.end(), in.changes.begin(), in.changes.end());
    table_.first = any_ ? std::min(table_.first, in.at) : in.at;
    table_.last = any_ ? std::max(table_.last, in.at) : in.at;
    any_ = true;
    FrameView view;
    RoceView roce;
    const FrameKind kind = parse_frame(in.bytes, view, roce);
    if (kind != FrameKind::kRoce || roce.payload > captured.bytes.size()) {
      return not_roce(captured, view, roce, kind);
    }
    ++table_.counts.roce;
    table_.counts.cut += whole ? 0 : 1;
    table_.counts.tagged += view.vlans != 0 ? 1 : 0;
    findings_.examined(Rule::kA1_1);
    const Rule icrc = view.v6 ? Rule::kA2_2 : Rule::kA2_1;
    if (whole) findings_.examined(icrc);
    if (whole && !icrc_ok(view, roce)) {
      findings_.add(icrc, {in.number, in.at}, "ICRC is wrong");
      return damaged(in, view, roce);  // a receiver drops it; for the flows it is a loss
    }
    check_headers({in.number, in.at}, view, roce, whole, findings_);
    ipv4_.packet({in.number, in.at}, view, findings_);
    if (roce.dest_qpn == 0) return;  // which nobody has
    table_.counts.congestion_marked += (view.tos & 3) == 3 ? 1 : 0;
    if (roce.info().kind == OpKind::kCnp) {
      ++table_.counts.cnp;
      table_.cnps.push_back(
          {{in.number, in.at}, view.src, view.dst, roce.dest_qpn, class_of(view, roce)});
    } else if (roce.info().kind == OpKind::kUd) {
      ++table_.counts.ud;
      if (roce.dest_qpn == kGsiQpn) {
        if (!whole) return;
        CmFollower& cm =
            cm_.try_emplace(in.interface, findings_, in.interface, options_.impaired).first->second;
        cm.packet({in.number, in.at}, view, in.bytes.subspan(roce.payload, roce.payload_bytes));
      } else {
        check_service(in, view, roce);
      }
    } else {
      ++(roce.info().unreliable ? table_.counts.uc : table_.counts.rc);
      if (!check_service(in, view, roce)) connected(in, view, roce, whole);
    }
  }

  PacketTable take() {
    for (auto& [interface, cm] : cm_) {
      cm.finish(options_.open_end, table_.last);
      table_.cm_pairs.insert(table_.cm_pairs.end(), cm.pairs().begin(), cm.pairs().end());
    }
    const size_t flows = table_.flows.size();
    for (uint32_t f = 0; f < flows; ++f) split(f);
    for (Flow& flow : table_.flows) {
      flow.traffic = classes_[flow.packets.front()];
      for (uint32_t packet : flow.packets) {
        check_class(table_.packets[packet].stamp(), flow, classes_[packet], findings_);
      }
      Ipv4Rules::flow(flow, table_.packets, classes_, findings_);
    }
    ipv4_.finish(findings_);
    return std::move(table_);
  }

 private:
  /// A frame that a snap length has cut, with zeros for what is missing: of a RoCEv2 packet the
  /// headers are what matters.
  std::span<const uint8_t> filled_up(const SourceFrame& in) {
    if (in.original_bytes > kMostFrameBytes) return in.bytes;
    filled_.assign(in.original_bytes, 0);
    std::ranges::copy(in.bytes, filled_.begin());
    return filled_;
  }

  void not_roce(const SourceFrame& in, const FrameView& view, const RoceView& roce,
                FrameKind kind) {
    const bool cut = in.bytes.size() < in.original_bytes;  // counted by the source
    const bool to_roce = view.udp_dst == kRoceUdpPort;
    if (cut || kind < FrameKind::kTruncated || (kind > FrameKind::kTruncated && !to_roce)) {
      ++table_.counts.other;
      return;
    }
    table_.counts.roce += to_roce ? 1 : 0;
    if (kind == FrameKind::kBadOpcode) {
      const uint8_t transport = roce.opcode & kTransportMask;
      if (transport == kTransportRd || transport == kTransportXrc) {
        ++table_.counts.other_services;
        check_service(in, view, roce);
        return;
      }
    }
    findings_.add(parse_rule(kind, roce), {in.number, in.at},
                  std::string("not a RoCEv2 packet: ") + frame_kind_name(kind));
  }

  /// Whether it is a packet of another service than its queue pair has (rule A3.3). The same source
  /// port: not another queue pair that used the number before or after.
  bool check_service(const SourceFrame& in, const FrameView& view, const RoceView& roce) {
    const auto flow = flows_.find({view.src, view.dst, roce.dest_qpn, in.interface});
    if (flow == flows_.end()) return false;
    const Flow& f = table_.flows[flow->second];
    const bool unreliable = table_.packets[f.packets.back()].info().unreliable;
    const OpcodeInfo& info = roce.info();
    const bool fits = (info.is_request() || info.is_response()) && info.unreliable == unreliable;
    if (fits || udp_src(f.packets.back()) != view.udp_src) return false;
    findings_.add(Rule::kA3_3, {in.number, in.at},
                  f.name() + ": opcode " + std::to_string(view.frame[roce.bth]) + " on " +
                      (unreliable ? "an unreliable" : "a reliable") + " connection");
    return true;
  }

  void damaged(const SourceFrame& in, const FrameView& view, const RoceView& roce) {
    const auto flow = flows_.find({view.src, view.dst, roce.dest_qpn, in.interface});
    if (flow != flows_.end() && roce.info().is_request()) {
      table_.damaged.push_back({flow->second, roce.psn});
    }
  }

  void connected(const SourceFrame& in, const FrameView& view, const RoceView& roce, bool whole) {
    const auto [at, is_new] = flows_.try_emplace({view.src, view.dst, roce.dest_qpn, in.interface},
                                                 static_cast<uint32_t>(table_.flows.size()));
    if (is_new) table_.flows.push_back(flow_of(view.src, view.dst, roce.dest_qpn, in.interface));
    PacketRecord p;
    p.frame = in.number;
    p.at = in.at;
    p.scheduled = in.scheduled;
    p.flow = at->second;
    p.psn = roce.psn;
    p.payload_bytes = roce.payload_bytes;
    p.wire_bytes = std::max<uint32_t>(in.original_bytes, kMinFrameBytes) + kEthernetOverheadBytes;
    p.dma_length = roce.dma_length;
    p.msn = roce.msn;
    p.imm = roce.imm;
    p.rkey = roce.rkey;
    p.va = roce.info().atomic_ack ? roce.atomic_original : roce.va;
    p.ecn = view.tos & 3;
    p.opcode = roce.opcode;
    p.syndrome = roce.syndrome;
    p.direction = in.direction;
    p.ack_request = roce.ack_request;
    p.becn = roce.becn;
    p.whole = whole;
    if (whole && roce.info().is_request() && roce.payload_bytes != 0) {
      p.payload_crc = icrc_go_on(~0u, in.bytes.subspan(roce.payload, roce.payload_bytes));
    }
    table_.flows[p.flow].packets.push_back(static_cast<uint32_t>(table_.packets.size()));
    table_.packets.push_back(p);
    classes_.push_back(class_of(view, roce));
  }

  static Flow flow_of(const IpAddress& src, const IpAddress& dst, Qpn dest_qpn,
                      uint32_t interface) {
    Flow out;
    out.src = src;
    out.dst = dst;
    out.dest_qpn = dest_qpn;
    out.interface = interface;
    return out;
  }

  uint16_t udp_src(uint32_t packet) const { return classes_[packet].udp_src; }

  /// Whether a packet goes on where the one before it, in the same flow, has ended.
  bool continues(const PacketRecord& before, const PacketRecord& p) const {
    return before.info().is_request() && p.info().is_request() && p.psn == before.psn.next();
  }

  /// Splits a flow where one source port follows the other. Ports that alternate belong together,
  /// and so does what goes on in PSN order: there the sender has changed its port (rule A1.4).
  void split(uint32_t flow) {
    const std::vector<uint32_t> packets = table_.flows[flow].packets;
    std::map<uint16_t, size_t> last;  // position of each port's last packet
    for (size_t i = 0; i < packets.size(); ++i) last[udp_src(packets[i])] = i;
    if (last.size() == 1) return;
    uint32_t current = flow;
    table_.flows[flow].packets.clear();
    size_t until = 0;  // where the last of the ports of this part ends
    for (size_t i = 0; i < packets.size(); ++i) {
      const bool other_port = i > 0 && udp_src(packets[i]) != udp_src(packets[i - 1]);
      const bool same = other_port && (i <= until || continues(table_.packets[packets[i - 1]],
                                                               table_.packets[packets[i]]));
      if (same) {
        findings_.add(Rule::kA1_4, table_.packets[packets[i]].stamp(),
                      table_.flows[flow].name() + ": UDP source port " +
                          std::to_string(udp_src(packets[i])) + " after " +
                          std::to_string(udp_src(packets[i - 1])));
      } else if (i > until) {
        current = static_cast<uint32_t>(table_.flows.size());
        const Flow& f = table_.flows[flow];
        table_.flows.push_back(flow_of(f.src, f.dst, f.dest_qpn, f.interface));
      }
      until = std::max(until, last[udp_src(packets[i])]);
      table_.packets[packets[i]].flow = current;
      table_.flows[current].packets.push_back(packets[i]);
    }
  }

  const ReadOptions options_;
  Findings& findings_;
  PacketTable table_;
  Ipv4Rules ipv4_;
  std::vector<uint8_t> filled_;
  std::vector<PacketClass> classes_;   ///< of each packet
  std::map<uint32_t, CmFollower> cm_;  ///< by the interface that saw the exchange
  std::map<std::tuple<IpAddress, IpAddress, Qpn, uint32_t>, uint32_t> flows_;
  bool any_ = false;
};

}  // namespace

std::string Flow::name() const {
  return src.text() + " -> " + dst.text() + " QP " + std::to_string(dest_qpn);
}

Result<PacketTable> read_packets(CaptureSource& source, const ReadOptions& options,
                                 Findings& findings) {
  TableBuilder builder(options, findings);
  for (;;) {
    auto frame = source.next();
    if (!frame) return tl::unexpected(frame.error());
    if (!*frame) return builder.take();
    builder.frame(**frame);
  }
}

}  // namespace understudy
