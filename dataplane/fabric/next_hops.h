// Forwarding tables of all switches: the links that lead to a destination on shortest paths, and one
// of several by the packet's hash (routes.h says how) or by the number of its path.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/fabric/routes.h"
#include "dataplane/fabric/routing.h"

namespace understudy {

/// Static routes aside: these depend on the source, whose packets carry their links. A table has an
/// entry of four bytes for each switch and each destination that was learnt; NICs behind one switch
/// are one destination. Links that are down leave all groups; among the rest the same rule chooses.
class NextHops final : public Routing {
 public:
  /// `graph` outlives this; its cables do not change.
  NextHops(const Graph& graph, RouteChoice choice, uint64_t seed);

  void learn(VertexId to) override;
  LinkId next(VertexId at, Way& way) override {
    const uint32_t index = switch_index_[at];
    if (index >= kNic) return index == kNic ? from_nic(at, way) : index & ~kOneLink;
    const Destination& d = destinations_[way.destination()];
    const uint32_t entry = at == d.root ? d.last : d.row[index];
    if ((entry & kOneLink) != 0) return entry & ~kOneLink;
    return pick(at, groups_.data() + entry + kGroupHead, groups_[entry], way);
  }
  LinkId expected(VertexId at, Way way) override { return next(at, way); }
  uint64_t paths(VertexId from, VertexId to) override;
  void set_links(std::span<const LinkState> links) override;

 private:
  static constexpr uint32_t kOneLink = 0x80000000;  ///< an entry is a link, else a group's place
  /// In switch_index_: a NIC that has several cables. One that has one has kOneLink and that.
  static constexpr uint32_t kNic = kOneLink - 1;
  static constexpr uint32_t kGroupHead = 2;  ///< its size, and the next one of its switch
  static constexpr uint32_t kNoEntry = 0;

  struct Destination {
    const uint32_t* row = nullptr;   ///< by switch_index_; null: not learnt
    const uint64_t* ways = nullptr;  ///< the same: how many ways lead to `root`
    VertexId root = kNoVertex;       ///< its only switch, or itself
    uint32_t last = kNoEntry;        ///< entry of `root`
    uint32_t cables = 1;             ///< from `root` to it
  };

  void learn_root(VertexId to, VertexId root);
  void learn_last(VertexId to, VertexId root);
  void count_ways(VertexId to, VertexId root);
  uint32_t entry_of(VertexId at, std::span<const LinkId> links);
  LinkId pick(VertexId at, const LinkId* links, size_t n, Way& way) const;
  LinkId from_nic(VertexId nic, Way& way);
  LinkId first_uplink(VertexId nic) const;
  uint64_t ways_from(VertexId at, VertexId to) const;

  const Graph& graph_;
  RouteChoice choice_;
  uint64_t seed_;
  Routes routes_;
  std::vector<VertexId> switches_;
  std::vector<uint32_t> switch_index_;       ///< by vertex
  std::vector<Destination> destinations_;    ///< by vertex
  std::vector<std::vector<uint32_t>> rows_;  ///< by root
  std::vector<std::vector<uint64_t>> ways_;  ///< by root, where packets are sprayed
  std::vector<uint32_t> groups_;             ///< links that packets are spread over
  std::vector<uint32_t> first_group_;        ///< by switch_index_
};

}  // namespace understudy
