// What one packet's headers must be whatever its connection does: rules A1 and A3, and the form of
// a CNP.
#pragma once

#include <map>
#include <vector>

#include "dataplane/wire/parse.h"
#include "tools/roce_check/findings/findings.h"
#include "tools/roce_check/packets/packet_table.h"

namespace understudy {

/// The rule that a frame to RoCE's port breaks when it does not parse.
Rule parse_rule(FrameKind kind, const RoceView& roce);

/// Rules A1.2, A1.3, A1.4, A1.7, A1.8, A1.11, A3.1 and A6.3 of a packet with a right ICRC.
/// `whole`: its payload was captured.
void check_headers(Stamp stamp, const FrameView& view, const RoceView& roce, bool whole,
                   Findings& findings);

/// Rule A1.2, of whole flows and sources: identifications that change now and then, and checksums
/// of IPv4 headers. Those that are 0 throughout were not filled in yet where they were captured.
class Ipv4Rules {
 public:
  void packet(Stamp stamp, const FrameView& view, Findings& findings);
  /// `classes`: of all packets.
  static void flow(Flow& flow, const std::vector<PacketRecord>& packets,
                   const std::vector<PacketClass>& classes, Findings& findings);
  void finish(Findings& findings) const;

 private:
  struct Source {
    uint64_t packets = 0, without_checksum = 0;
    Stamp first;  ///< without
  };
  std::map<IpAddress, Source> sources_;
};

PacketClass class_of(const FrameView& view, const RoceView& roce);
/// Rules A1.9, A1.10 and A1.12: the packet's class is that of its flow's first one.
void check_class(Stamp stamp, const Flow& flow, const PacketClass& traffic, Findings& findings);

}  // namespace understudy
