// Sorts a capture's frames into a packet table. What can be judged packet by packet (parsing,
// headers, ICRC) and flow by flow (ports, VLANs, identifications) is judged here, and RDMA-CM's
// exchanges are followed.
//
// The table may be emptied in between: what is kept of a flow does not grow with its packets.
#pragma once

#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "dataplane/wire/parse.h"
#include "tools/roce_check/packets/header_rules.h"
#include "tools/roce_check/packets/packet_table.h"

namespace understudy {

/// How far unfinished exchanges and copies of the network's are no fault.
struct ReadOptions {
  bool open_end = false;  ///< what is unfinished at the end is no fault
  bool impaired = false;  ///< the network copies and reorders
};

class PacketReader {
 public:
  /// What is wrong with packets goes into `findings` (parse, headers, icrc, cm).
  PacketReader(const ReadOptions& options, PacketTable& table, Findings& findings)
      : options_(options), table_(table), findings_(findings) {}

  void frame(const SourceFrame& captured);
  /// The part of the capture that has been read is to be judged now: its packets get their flows.
  void settle();
  /// Empties the table of what no flow lists any more; what is left is no newest part.
  void forget();
  /// The capture is over, and all of it settled.
  void finish();

 private:
  struct Ends {
    IpAddress src, dst;
    Qpn qpn = 0;
    uint32_t interface = 0;
    bool operator==(const Ends&) const = default;
  };
  struct HashOfEnds {
    size_t operator()(const Ends& ends) const;
  };
  /// All flows, one after the other, of one source to one queue pair.
  struct Succession {
    uint32_t flow = 0;  ///< the newest
    uint16_t port = 0;  ///< of the newest packet
    bool unreliable = false;
    std::set<uint16_t> ports;  ///< of the newest flow, in the parts before
    PacketRecord before;       ///< the last packet of the parts before
    bool any_before = false;
    bool mixed = false;  ///< the newest part has packets with other ports than the one before them
  };

  std::span<const uint8_t> filled_up(const SourceFrame& in);
  void not_roce(const SourceFrame& in, const FrameView& view, const RoceView& roce, FrameKind kind);
  Succession* find(const SourceFrame& in, const FrameView& view, const RoceView& roce);
  bool check_service(const SourceFrame& in, const FrameView& view, const RoceView& roce);
  void connected(const SourceFrame& in, const FrameView& view, const RoceView& roce, bool whole);
  uint32_t add_flow(const Ends& ends);
  void settle_cm();
  void split(Succession& succession);
  void add_to_flow(uint32_t flow, const PacketRecord& p);

  const ReadOptions options_;
  PacketTable& table_;
  Findings& findings_;
  Ipv4Rules ipv4_;
  std::vector<uint8_t> filled_;
  std::map<uint32_t, CmFollower> cm_;       ///< by the interface that saw the exchange
  std::map<uint32_t, size_t> known_pairs_;  ///< how many of its pairs are in the table
  std::unordered_map<Ends, Succession, HashOfEnds> successions_;
  std::vector<Ends> in_order_;  ///< of their first packets
  const Ends* last_ends_ = nullptr;
  Succession* last_ = nullptr;
  std::vector<Identifications> identifications_;  ///< by flow
  bool any_ = false;
};

}  // namespace understudy
