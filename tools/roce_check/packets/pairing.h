// Which two flows are the two directions of one connection. A packet names its receiver's queue
// pair only; the sender's is inferred from a CM exchange, or from which flow's PSNs the other one
// acknowledges.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "tools/roce_check/packets/packet_table.h"

namespace understudy {

inline constexpr uint32_t kNoFlow = 0xffffffff;

struct FlowPair {
  uint32_t forward = kNoFlow;  ///< one direction, mostly the one that was seen first
  uint32_t reverse = kNoFlow;  ///< kNoFlow: nothing ever came back
  uint32_t pmtu = 0;           ///< path MTU in bytes: of the CM exchange, or inferred
  std::optional<size_t> cm;    ///< that exchange, an index into PacketTable::cm_pairs
  uint32_t odd_mtu = 0;        ///< what its messages are cut to, if that is no path MTU
  /// The exchange agreed on this queue pair, but the packets of `misled` go to another one.
  Qpn agreed_qpn = 0;
  uint32_t misled = kNoFlow;
};

/// Finds pairs among the flows of a table, part by part of a capture: what can be told for sure so
/// far, and in the end all.
class Pairing {
 public:
  /// Whether what one flow, which was taken to be alone, asks for with this PSN still waits for its
  /// answer.
  using Fits = std::function<bool(uint32_t alone, Psn psn)>;
  Pairing(const PacketTable& table, Fits fits) : table_(table), fits_(std::move(fits)) {}

  struct Found {
    std::vector<FlowPair> pairs;  ///< path MTUs only where RDMA-CM agreed on them
    std::vector<std::pair<uint32_t, uint32_t>> late;  ///< a flow that was alone, and its other way
  };
  /// What was not found before. `all`: no more packets are waited for; who has no other direction
  /// then is alone.
  Found pair(bool all);

 private:
  using Way = std::tuple<IpAddress, IpAddress, uint32_t>;  ///< ends and interface
  /// An exchange of which one direction is there and the other is not.
  struct HalfFound {
    size_t exchange;
    uint32_t flow;
    Qpn agreed;  ///< of the other direction
  };
  struct Misled {
    uint32_t flow;
    Qpn agreed;
  };

  Way way_of(uint32_t flow) const;
  static Way reversed(const Way& way) {
    return {std::get<1>(way), std::get<0>(way), std::get<2>(way)};
  }
  uint64_t begin(uint32_t flow) const { return table_.flows[flow].first.frame; }
  bool is_ripe(uint32_t flow, uint64_t packets) const;
  bool are_ripe(uint32_t a, uint32_t b) const;
  bool stays_alone(uint32_t flow, const std::map<Way, std::vector<uint32_t>>& open) const;
  void join(uint32_t a, uint32_t b) {
    partner_[a] = b;
    partner_[b] = a;
  }
  void by_cm();
  void by_half(const HalfFound& half);
  void by_behaviour(const std::vector<uint32_t>& there, const std::vector<uint32_t>& back,
                    bool all);
  using Votes = std::map<uint32_t, int64_t>;  ///< by number in `back`; none: no entry
  std::vector<Votes> votes_by_order(const std::vector<uint32_t>& there,
                                    const std::vector<uint32_t>& back) const;
  void join_late(uint32_t flow, bool all, Found& out);
  void take(uint32_t flow, uint32_t other, Found& out);

  const PacketTable& table_;
  Fits fits_;
  std::vector<uint32_t> partner_;                ///< by flow
  std::vector<std::optional<size_t>> exchange_;  ///< of CM, by flow
  std::vector<bool> done_;                       ///< flows that were found
  std::vector<bool> met_;                        ///< exchanges whose flows were found
  std::vector<HalfFound> half_found_;
  std::vector<Misled> misled_;
  std::map<Way, std::vector<uint32_t>> alone_;
};

}  // namespace understudy
