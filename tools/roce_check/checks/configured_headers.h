// Do packets look as the configuration says: VLAN, priority, DSCP, MigReq, UDP source port? What
// emulated nodes send is understudy's own and must; a real node's program may have chosen another
// DSCP, which is a note.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "ctrl/config/config.h"
#include "tools/roce_check/findings/findings.h"
#include "tools/roce_check/packets/node_addresses.h"
#include "tools/roce_check/packets/packet_table.h"

namespace understudy {

struct Analysis;
struct ConnectionResult;

/// Rules A1.2, A1.4, A1.9 and A1.12 by the configuration: CNPs part by part, flows at the end.
class ConfiguredHeaders {
 public:
  ConfiguredHeaders(const Config& config, Analysis& analysis);
  /// The newest part of the capture is in the table.
  void add();
  /// The capture is over.
  void finish();

 private:
  void sends(NodeId node, const SenderConfig& sender);
  bool sees_tags() const;
  const NicConfig& nic(const NodePort& at) const { return config_.nodes[at.node].nics[at.nic]; }
  void flow(const ConnectionResult& connection, uint32_t index, uint32_t back);
  void check_tag(const std::string& name, Stamp stamp, const NodePort& from,
                 const PacketClass& traffic, uint8_t pcp);
  void check_dscp(const Flow& flow, Stamp stamp, const NodePort& from,
                  const ConnectionResult& connection, uint32_t back);
  void notification(const CnpRecord& cnp);
  void fault(Rule rule, Stamp stamp, const std::string& text);

  const Config& config_;
  Analysis& analysis_;
  Findings& findings_;
  NodeAddresses addresses_;
  std::map<NodeId, std::set<uint8_t>> dscps_;  ///< of what each node sends
};

}  // namespace understudy
