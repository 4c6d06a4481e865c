// What one packet's headers must be whatever its connection does: rules A1 and A3, and the form of
// a CNP.
#pragma once

#include <map>
#include <utility>
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

/// Rule A1.2, of a whole flow: IPv4 identifications that change now and then.
class Identifications {
 public:
  void packet(Stamp stamp, uint16_t identification);
  /// All packets of the flow have been seen.
  void finish(Flow& flow, Findings& findings) const;

 private:
  static constexpr size_t kCounted = 16;  ///< different ones; of senders that count there are more
  struct Entry {
    uint16_t identification = 0;
    uint64_t packets = 0;
    Stamp first;
  };
  uint64_t packets_ = 0, changes_ = 0;
  size_t newest_ = 0;  ///< in `entries_`; behind them: one of the others
  uint16_t before_ = 0;
  std::vector<Entry> entries_;
  Entry others_;
};

/// Rule A1.2, of sources: checksums of IPv4 headers. Those that are 0 throughout were not filled in
/// yet where they were captured.
class Ipv4Rules {
 public:
  void packet(Stamp stamp, const FrameView& view, Findings& findings);
  void finish(Findings& findings) const;

 private:
  struct Source {
    uint64_t packets = 0, without_checksum = 0;
    Stamp first;  ///< without
  };
  std::map<IpAddress, Source> sources_;
  std::pair<const IpAddress, Source>* newest_ = nullptr;
};

PacketClass class_of(const FrameView& view, const RoceView& roce);
/// Rules A1.9, A1.10 and A1.12: the packet's class is that of its flow's first one.
void check_class(Stamp stamp, const Flow& flow, const PacketClass& traffic, Findings& findings);

}  // namespace understudy
