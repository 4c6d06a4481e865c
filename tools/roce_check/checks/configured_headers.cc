#include "tools/roce_check/checks/configured_headers.h"

#include <algorithm>

#include "tools/roce_check/checks/analysis.h"

namespace understudy {
namespace {

constexpr uint16_t kVlanIdMask = 0xfff;
constexpr unsigned kPriorityShift = 13;
constexpr unsigned kDscpShift = 2;
constexpr uint16_t kFirstUdpSource = 0xc000;

}  // namespace

ConfiguredHeaders::ConfiguredHeaders(const Config& config, Analysis& analysis)
    : config_(config), analysis_(analysis), findings_(analysis.findings), addresses_(config) {
  for (const ServiceConfig& s : config.services) sends(s.node, s.sender);
  for (const ClientConfig& c : config.clients) sends(c.node, c.sender);
  for (const JobConfig& job : config.jobs) {
    for (const NodeId node : job.ranks) sends(node, job.sender);
  }
}

void ConfiguredHeaders::add() {
  for (const CnpRecord& cnp : analysis_.table.cnps) notification(cnp);
}

void ConfiguredHeaders::finish() {
  for (const ConnectionResult& c : analysis_.connections) {
    flow(c, c.connection.forward, c.connection.reverse);
    if (c.connection.reverse != c.connection.forward) {
      flow(c, c.connection.reverse, c.connection.forward);
    }
  }
  if (!sees_tags() && std::ranges::any_of(config_.prefixes, [](const PrefixConfig& p) {
        return p.vlan.has_value();
      })) {
    findings_.note(Check::kHeaders,
                   "VLANs not judged: no frame of this capture has a tag; a NIC may have taken "
                   "them away");
  }
}

void ConfiguredHeaders::sends(NodeId node, const SenderConfig& sender) {
  dscps_[node].insert(static_cast<uint8_t>(sender.traffic_class >> kDscpShift));
}

bool ConfiguredHeaders::sees_tags() const {
  return analysis_.source.has_run_times || analysis_.table.counts.tagged != 0;
}

void ConfiguredHeaders::flow(const ConnectionResult& connection, uint32_t index, uint32_t back) {
  if (index == kNoFlow) return;
  const Flow& flow = analysis_.table.flows[index];
  const auto from = addresses_.find(flow.src);
  if (!from) return;
  const Stamp first = flow.first.stamp();
  check_tag(flow.name(), first, *from, flow.traffic, nic(*from).pcp);
  check_dscp(flow, first, *from, connection, back);
  if (from->real) return;
  if (!flow.traffic.migration) fault(Rule::kA1_9, first, flow.name() + ": MigReq 0");
  if (flow.traffic.udp_src < kFirstUdpSource) {
    fault(Rule::kA1_4, first,
          flow.name() + ": UDP source port " + std::to_string(flow.traffic.udp_src));
  }
  if (flow.identification_changes != 0) {
    fault(Rule::kA1_2, first,
          flow.name() + ": the IPv4 identification changes " +
              std::to_string(flow.identification_changes) + " times");
  }
}

void ConfiguredHeaders::check_tag(const std::string& name, Stamp stamp, const NodePort& from,
                                  const PacketClass& traffic, uint8_t pcp) {
  if (!sees_tags()) return;
  const NicConfig& at = nic(from);
  const uint16_t vid = traffic.vlan_tci & kVlanIdMask;
  const unsigned priority = traffic.vlan_tci >> kPriorityShift;
  findings_.examined(Rule::kA1_12);
  // VLAN 0 is a priority alone.
  const uint16_t expected = at.vlan.value_or(0);
  if ((traffic.tagged ? vid : 0) != expected) {
    fault(Rule::kA1_12, stamp,
          name + (traffic.tagged ? ": VLAN " + std::to_string(vid) : std::string(": no VLAN")) +
              ", configured is " + (at.vlan ? std::to_string(expected) : std::string("none")));
  } else if (!from.real && traffic.tagged && priority != pcp) {
    fault(
        Rule::kA1_12, stamp,
        name + ": priority " + std::to_string(priority) + ", configured is " + std::to_string(pcp));
  }
}

// An answer has its connection's class, so that of who speaks first will do as well.
void ConfiguredHeaders::check_dscp(const Flow& flow, Stamp stamp, const NodePort& from,
                                   const ConnectionResult& connection, uint32_t back) {
  const auto configured = dscps_.find(from.node);
  if (configured == dscps_.end()) return;
  std::set<uint8_t> allowed = configured->second;
  if (!from.real && back != kNoFlow) {
    const Flow& other = analysis_.table.flows[back];
    const auto end = addresses_.find(other.src);
    if (end && end->real) allowed.insert(other.traffic.dscp);
  }
  if (const auto cm = connection.connection.cm) {
    const uint8_t asked = analysis_.table.cm_pairs[*cm].traffic_class;
    allowed.insert(static_cast<uint8_t>(asked >> kDscpShift));
  }
  findings_.examined(Rule::kA1_12);
  if (allowed.contains(flow.traffic.dscp)) return;
  const std::string text = flow.name() + ": DSCP " + std::to_string(flow.traffic.dscp) +
                           ", configured is " + std::to_string(*configured->second.begin());
  if (from.real) {
    findings_.remark(Rule::kA1_12, stamp, text, Basis::kConfiguration);
  } else {
    fault(Rule::kA1_12, stamp, text);
  }
}

void ConfiguredHeaders::notification(const CnpRecord& cnp) {
  const auto from = addresses_.find(cnp.src);
  if (!from || from->real) return;
  const std::string name = cnp.src.text() + " -> " + cnp.dst.text() + " CNP";
  check_tag(name, cnp.stamp, *from, cnp.traffic, config_.fabric.cnp.pcp);
  if (cnp.traffic.dscp == config_.fabric.cnp.dscp) return;
  fault(Rule::kA1_12, cnp.stamp,
        name + ": DSCP " + std::to_string(cnp.traffic.dscp) + ", configured is " +
            std::to_string(config_.fabric.cnp.dscp));
}

void ConfiguredHeaders::fault(Rule rule, Stamp stamp, const std::string& text) {
  findings_.add(rule, stamp, text, Basis::kConfiguration);
}

}  // namespace understudy
