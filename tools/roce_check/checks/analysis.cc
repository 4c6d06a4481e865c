#include "tools/roce_check/checks/analysis.h"

#include <map>
#include <set>
#include <utility>

#include "tools/roce_check/checks/collective_check.h"
#include "tools/roce_check/checks/configured_headers.h"
#include "tools/roce_check/checks/congestion_check.h"
#include "tools/roce_check/checks/rate_check.h"
#include "tools/roce_check/requests/request_stream.h"

namespace understudy {
namespace {

/// Both directions of a connection travel with one P_Key and in one VLAN.
void compare_ways(const Flow& there, const Flow& back, Stamp stamp, Findings& findings) {
  constexpr uint16_t kFullMember = 0x8000;
  constexpr uint16_t kVlanId = 0xfff;
  const uint16_t a = there.traffic.pkey;
  const uint16_t b = back.traffic.pkey;
  if ((a & ~kFullMember) != (b & ~kFullMember) || ((a | b) & kFullMember) == 0) {
    findings.add(
        Rule::kA1_10, stamp,
        back.name() + ": P_Key " + std::to_string(b) + ", the other way " + std::to_string(a));
  }
  if (there.traffic.tagged != back.traffic.tagged ||
      ((there.traffic.vlan_tci ^ back.traffic.vlan_tci) & kVlanId) != 0) {
    findings.add(Rule::kA1_12, stamp, back.name() + ": another VLAN than the other way");
  }
}

class Follower {
 public:
  Follower(const AnalysisOptions& options, Analysis& analysis)
      : options_(options), analysis_(analysis), table_(analysis.table) {
    const SourceSummary& source = analysis.source;
    complete_ = source.has_drop_counts && source.drops == 0 && !source.truncated &&
                source.cut_frames == 0 && !options.partial;
    for (const DamagedPacket& d : table_.damaged) damaged_[d.flow].insert(d.psn.value());
  }

  ConnectionResult follow(const FlowPair& connection) {
    const uint32_t f = connection.forward;
    const uint32_t r = connection.reverse;
    static const std::vector<uint32_t> kNothing;
    const auto& there = table_.flows[f].packets;
    const auto& back = r != kNoFlow && r != f ? table_.flows[r].packets : kNothing;
    if (connection.odd_mtu != 0) {
      analysis_.findings.add(Rule::kA1_13, table_.packets[there.front()].stamp(),
                             table_.flows[f].name() + ": messages are cut into packets of " +
                                 std::to_string(connection.odd_mtu) + " bytes");
    }
    if (connection.misled != kNoFlow) {
      const Flow& flow = table_.flows[connection.misled];
      analysis_.findings.add(
          Rule::kA9_2, table_.packets[flow.packets.front()].stamp(),
          flow.name() + ": RDMA-CM agreed on queue pair " + std::to_string(connection.agreed_qpn));
    }
    const uint32_t pmtu = connection.odd_mtu != 0 ? connection.odd_mtu : connection.pmtu;
    RequestStream forward(table_.flows[f].name(), pmtu, context(connection, f, r),
                          analysis_.findings);
    RequestStream reverse(
        r != kNoFlow ? table_.flows[r].name() : "answer to " + table_.flows[f].name(), pmtu,
        context(connection, r, f), analysis_.findings);
    if (!back.empty()) {
      compare_ways(table_.flows[f], table_.flows[r], table_.packets[back.front()].stamp(),
                   analysis_.findings);
    }
    size_t i = 0, j = 0;
    while (i < there.size() || j < back.size()) {
      const bool take_there = j == back.size() || (i < there.size() && there[i] < back[j]);
      const PacketRecord& p = table_.packets[take_there ? there[i++] : back[j++]];
      RequestStream& asks = take_there ? forward : reverse;
      RequestStream& answered = take_there && r != f ? reverse : forward;
      if (p.info().unreliable) {
        asks.unreliable(p);
      } else if (p.info().is_request()) {
        const unsigned resets = asks.resets();
        asks.request(p);
        if (asks.resets() != resets && r != f)
          (take_there ? reverse : forward).other_way_is_reset();
      } else {
        answered.response(p);
      }
    }
    ConnectionResult out;
    out.connection = connection;
    out.broken = forward.broken() || reverse.broken();
    const bool excused = out.broken || options_.open_end || options_.partial;
    forward.finish(excused);
    reverse.finish(excused);
    out.forward = {f, forward.counts(), forward.times(), rate(f), forward.messages()};
    out.reverse = {r, reverse.counts(), reverse.times(), rate(r), reverse.messages()};
    for (const DirectionResult* d : {&out.forward, &out.reverse}) missing(*d);
    return out;
  }

  /// The capture says, or as far as it shows, lacks nothing.
  bool gapless() const {
    const SourceSummary& source = analysis_.source;
    return complete_ ||
           (source.drops == 0 && !source.truncated && source.cut_frames == 0 && not_captured_ == 0);
  }

 private:
  StreamContext context(const FlowPair& connection, uint32_t flow, uint32_t other) const {
    StreamContext out;
    out.complete = complete_;
    out.from_start =
        (analysis_.source.has_run_times && !options_.partial) || connection.cm.has_value();
    if (connection.cm && flow != kNoFlow) {
      const CmPair& cm = table_.cm_pairs[*connection.cm];
      const CmSide& side = table_.flows[flow].src == cm.active.address ? cm.active : cm.passive;
      out.limits = side.limits;
      out.first_psn = side.first_psn;
    }
    out.impaired = options_.impaired;
    out.other_way = other != kNoFlow;
    if (const auto at = damaged_.find(flow); at != damaged_.end()) out.damaged = at->second;
    return out;
  }
  QueueRate rate(uint32_t flow) const {
    return flow == kNoFlow ? QueueRate{} : measure_rate(table_, table_.flows[flow]);
  }
  void missing(const DirectionResult& d) {
    const uint64_t count = d.counts.not_captured;
    if (count == 0) return;
    not_captured_ += count;
    const std::string name =
        d.flow == kNoFlow ? std::string("the other direction") : table_.flows[d.flow].name();
    analysis_.findings.add(
        Rule::kComplete, {},
        name + ": " + std::to_string(count) + " packets were not captured, as others show");
  }

  const AnalysisOptions& options_;
  Analysis& analysis_;
  const PacketTable& table_;
  std::map<uint32_t, std::set<uint32_t>> damaged_;  ///< PSNs, by flow
  bool complete_ = false;
  uint64_t not_captured_ = 0;
};

void check_completeness(const SourceSummary& source, const PacketTable& table, Findings& findings) {
  findings.examined(Rule::kComplete);
  if (source.truncated) {
    findings.add(Rule::kComplete, {}, "the file ends inside a packet");
  }
  if (source.cut_frames != 0) {
    findings.add(Rule::kComplete, {},
                 std::to_string(source.cut_frames) + " frames were cut by a snap length");
  }
  if (source.drops != 0) {
    findings.add(Rule::kComplete, {},
                 std::to_string(source.drops) + " frames were dropped by the capture");
  }
  if (!source.has_drop_counts && source.has_run_times) {
    findings.add(Rule::kComplete, {}, "no statistics block: the capture was not closed");
  }
  if (table.counts.roce == 0) findings.add(Rule::kComplete, {}, "no RoCEv2 packet");
}

}  // namespace

Result<Analysis> analyse(const std::string& path, const AnalysisOptions& options) {
  auto source = open_capture_source(path);
  if (!source) return tl::unexpected(source.error());
  Analysis out;
  // Where packets are lost behind the capture, the last DREQ of a program that ends has no DREP.
  const bool open_end = options.open_end || options.partial || options.impaired;
  auto table = read_packets(**source, {open_end, options.impaired}, out.findings);
  if (!table) return tl::unexpected(table.error());
  out.table = std::move(*table);
  out.source = (*source)->summary();
  Follower follower(options, out);
  for (const FlowPair& connection : pair_flows(out.table)) {
    out.connections.push_back(follower.follow(connection));
  }
  check_congestion(out.table, {options.cnp_interval, options.without_cnps, options.config},
                   out.findings);
  check_completeness(out.source, out.table, out.findings);
  if (options.config != nullptr) {
    check_rates(*options.config, out);
    check_configured_headers(*options.config, out);
    if (options.partial) {
      out.findings.note(Check::kCollective,
                        "not judged: a part of the traffic has not all messages");
    } else {
      check_collectives(*options.config, options.open_end, out);
    }
  }
  out.findings.settle(follower.gapless() && !options.partial);
  if (options.partial) out.findings.excuse(Rule::kComplete);
  return out;
}

}  // namespace understudy
