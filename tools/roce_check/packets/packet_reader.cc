#include "tools/roce_check/packets/packet_reader.h"

#include <algorithm>
#include <cstring>

#include "dataplane/wire/headers.h"

namespace understudy {
namespace {

constexpr uint8_t kTransportMask = 0xe0;  // BTH opcode, bits 7..5
constexpr uint8_t kTransportRd = 0x40;
constexpr uint8_t kTransportXrc = 0xa0;
constexpr uint32_t kMostFrameBytes = 1 << 16;

/// Whether a packet goes on where the one before it, in the same flow, has ended.
bool continues(const PacketRecord& before, const PacketRecord& p) {
  return before.info().is_request() && p.info().is_request() && p.psn == before.psn.next();
}

}  // namespace

std::string Flow::name() const {
  return src.text() + " -> " + dst.text() + " QP " + std::to_string(dest_qpn);
}

size_t PacketReader::HashOfEnds::operator()(const Ends& ends) const {
  uint64_t words[4];
  std::memcpy(words, ends.src.data(), 16);
  std::memcpy(words + 2, ends.dst.data(), 16);
  uint64_t hash = uint64_t{ends.qpn} << 32 | ends.interface;
  for (const uint64_t word : words) {
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 by the golden ratio
    hash = (hash ^ word) * kOdd;
    hash ^= hash >> 32;
  }
  return hash;
}

void PacketReader::frame(const SourceFrame& captured) {
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
    // A receiver drops it; for the flows it is a loss.
    const Succession* flow = roce.info().is_request() ? find(in, view, roce) : nullptr;
    if (flow != nullptr) table_.damaged.push_back({flow->flow, roce.psn});
    return;
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

/// A frame that a snap length has cut, with zeros for what is missing: of a RoCEv2 packet the
/// headers are what matters.
std::span<const uint8_t> PacketReader::filled_up(const SourceFrame& in) {
  if (in.original_bytes > kMostFrameBytes) return in.bytes;
  filled_.assign(in.original_bytes, 0);
  std::ranges::copy(in.bytes, filled_.begin());
  return filled_;
}

void PacketReader::not_roce(const SourceFrame& in, const FrameView& view, const RoceView& roce,
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

/// Null where nothing of it has come yet. Packets of one flow mostly come one after the other.
PacketReader::Succession* PacketReader::find(const SourceFrame& in, const FrameView& view,
                                             const RoceView& roce) {
  const Ends ends{view.src, view.dst, roce.dest_qpn, in.interface};
  if (last_ != nullptr && ends == *last_ends_) return last_;
  const auto at = successions_.find(ends);
  if (at == successions_.end()) return nullptr;
  last_ends_ = &at->first;
  last_ = &at->second;
  return last_;
}

/// Whether it is a packet of another service than its queue pair has (rule A3.3). The same source
/// port: not another queue pair that used the number before or after.
bool PacketReader::check_service(const SourceFrame& in, const FrameView& view,
                                 const RoceView& roce) {
  const Succession* flow = find(in, view, roce);
  if (flow == nullptr) return false;
  const OpcodeInfo& info = roce.info();
  const bool fits =
      (info.is_request() || info.is_response()) && info.unreliable == flow->unreliable;
  if (fits || flow->port != view.udp_src) return false;
  findings_.add(Rule::kA3_3, {in.number, in.at},
                table_.flows[flow->flow].name() + ": opcode " +
                    std::to_string(view.frame[roce.bth]) + " on " +
                    (flow->unreliable ? "an unreliable" : "a reliable") + " connection");
  return true;
}

void PacketReader::connected(const SourceFrame& in, const FrameView& view, const RoceView& roce,
                             bool whole) {
  Succession* succession = find(in, view, roce);
  if (succession == nullptr) {
    const Ends ends{view.src, view.dst, roce.dest_qpn, in.interface};
    last_ = succession = &successions_[ends];
    last_ends_ = &successions_.find(ends)->first;
    succession->flow = add_flow(ends);
    succession->port = view.udp_src;
    in_order_.push_back(ends);
  }
  succession->mixed |= succession->port != view.udp_src;
  succession->port = view.udp_src;
  succession->unreliable = roce.info().unreliable;
  PacketRecord& p = table_.packets.emplace_back();
  p.frame = in.number;
  p.at = in.at;
  p.scheduled = in.scheduled;
  p.flow = succession->flow;
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
  p.traffic = class_of(view, roce);
  if (whole && roce.info().is_request() && roce.payload_bytes != 0) {
    p.payload_crc = icrc_go_on(~0u, in.bytes.subspan(roce.payload, roce.payload_bytes));
  }
  table_.flows[p.flow].packets.push_back(static_cast<uint32_t>(table_.packets.size() - 1));
}

uint32_t PacketReader::add_flow(const Ends& ends) {
  Flow& out = table_.flows.emplace_back();
  out.src = ends.src;
  out.dst = ends.dst;
  out.dest_qpn = ends.qpn;
  out.interface = ends.interface;
  identifications_.emplace_back();
  return static_cast<uint32_t>(table_.flows.size() - 1);
}

void PacketReader::settle() {
  settle_cm();
  for (const Ends& ends : in_order_) {
    Succession& succession = successions_.find(ends)->second;
    if (succession.mixed) split(succession);
    const std::vector<uint32_t>& packets = table_.flows[succession.flow].packets;
    if (packets.empty() || packets.back() < table_.newest) continue;
    succession.ports.insert(succession.port);
    succession.before = table_.packets[packets.back()];
    succession.any_before = true;
    succession.mixed = false;
  }
  for (uint32_t f = 0; f < table_.flows.size(); ++f) {
    const std::vector<uint32_t>& packets = table_.flows[f].packets;
    for (auto i = std::ranges::lower_bound(packets, table_.newest); i != packets.end(); ++i) {
      add_to_flow(f, table_.packets[*i]);
    }
  }
}

void PacketReader::settle_cm() {
  for (const auto& [interface, cm] : cm_) {
    size_t& known = known_pairs_[interface];
    const auto& pairs = cm.pairs();
    table_.cm_pairs.insert(table_.cm_pairs.end(),
                           pairs.begin() + static_cast<std::ptrdiff_t>(known), pairs.end());
    known = pairs.size();
  }
}

/// Splits a flow where one source port follows the other. Ports that alternate belong together,
/// and so does what goes on in PSN order: there the sender has changed its port (rule A1.4). Seen
/// is what has been read so far.
void PacketReader::split(Succession& succession) {
  uint32_t current = succession.flow;
  std::vector<uint32_t>& all = table_.flows[current].packets;
  const auto newest = std::ranges::lower_bound(all, table_.newest);
  const std::vector<uint32_t> packets(newest, all.end());
  all.erase(newest, all.end());
  const auto port = [&](size_t i) { return table_.packets[packets[i]].traffic.udp_src; };
  std::map<uint16_t, int64_t> last;  // position of each port's last packet
  for (size_t i = 0; i < packets.size(); ++i) last[port(i)] = static_cast<int64_t>(i);
  int64_t until = -1;  // where the last of the ports of this flow ends
  for (const uint16_t before : succession.ports) {
    if (const auto at = last.find(before); at != last.end()) until = std::max(until, at->second);
  }
  for (size_t i = 0; i < packets.size(); ++i) {
    PacketRecord& p = table_.packets[packets[i]];
    const bool first = i == 0 && !succession.any_before;
    const PacketRecord& before = i == 0 ? succession.before : table_.packets[packets[i - 1]];
    if (!first && port(i) != before.traffic.udp_src) {
      if (static_cast<int64_t>(i) <= until || continues(before, p)) {
        findings_.add(Rule::kA1_4, p.stamp(),
                      table_.flows[current].name() + ": UDP source port " +
                          std::to_string(port(i)) + " after " +
                          std::to_string(before.traffic.udp_src));
      } else {
        const Flow& f = table_.flows[current];
        current = add_flow({f.src, f.dst, f.dest_qpn, f.interface});
        succession.ports.clear();
      }
    }
    succession.ports.insert(port(i));
    until = std::max(until, last[port(i)]);
    p.flow = current;
    table_.flows[current].packets.push_back(packets[i]);
  }
  succession.flow = current;
}

void PacketReader::add_to_flow(uint32_t f, const PacketRecord& p) {
  Flow& flow = table_.flows[f];
  if (flow.total++ == 0) {
    flow.first = p;
    flow.traffic = p.traffic;
  }
  check_class(p.stamp(), flow, p.traffic, findings_);
  identifications_[f].packet(p.stamp(), p.traffic.identification);
}

void PacketReader::forget() {
  std::vector<uint32_t> left;
  for (const Flow& flow : table_.flows) {
    left.insert(left.end(), flow.packets.begin(), flow.packets.end());
  }
  std::ranges::sort(left);
  for (Flow& flow : table_.flows) std::vector<uint32_t>().swap(flow.packets);
  for (size_t i = 0; i < left.size(); ++i) {
    table_.packets[i] = table_.packets[left[i]];
    table_.flows[table_.packets[i].flow].packets.push_back(static_cast<uint32_t>(i));
  }
  table_.packets.resize(left.size());
  table_.newest = left.size();
  table_.damaged.clear();
  table_.cnps.clear();
}

void PacketReader::finish() {
  for (auto& [interface, cm] : cm_) cm.finish(options_.open_end, table_.last);
  for (uint32_t f = 0; f < table_.flows.size(); ++f) {
    identifications_[f].finish(table_.flows[f], findings_);
  }
  ipv4_.finish(findings_);
}

}  // namespace understudy
