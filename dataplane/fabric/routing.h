// Which way packets go. A packet carries where it goes to (Way); each switch asks the routing for
// its next link when the packet arrives, so a routing may change its mind while packets are under
// way. The exception are packets that carry their links with them: source routing.
#pragma once

#include <cstdint>
#include <span>

#include "dataplane/fabric/graph.h"

namespace understudy {

/// What a packet carries for its way; one of three kinds. 16 bytes.
struct Way {
  uint64_t key = 0;         ///< the flow's hash, the path's number, or where the links are
  VertexId to = kNoVertex;  ///< and kNumbered; kNoVertex: the links are given
  LinkId link = kNoLink;    ///< it is on this one, or came by it to where it waits

  /// Source routing: these links from NIC to NIC. They outlive the packet.
  static Way along(const LinkId* links) {
    return {reinterpret_cast<uint64_t>(links + 1), kNoVertex, kNoLink};
  }
  /// Where switches have a choice they choose by the hash of the packet's flow (ECMP).
  static Way by_hash(VertexId to, uint64_t hash) { return {hash, to, kNoLink}; }
  /// Path number `number` of all shortest ones of a pair, in the order of Routes::paths().
  static Way by_number(VertexId to, uint64_t number) { return {number, to | kNumbered, kNoLink}; }

  bool has_links() const { return to == kNoVertex; }
  bool numbered() const { return (to & kNumbered) != 0; }
  VertexId destination() const { return to & ~kNumbered; }
  /// The next one of those that are given. Each is asked for once.
  LinkId take_link() {
    const LinkId next = *links();
    key += sizeof(LinkId);
    return next;
  }
  // One word holds a destination with its hash, a number, or this. NOLINTNEXTLINE(performance-no-int-to-ptr)
  const LinkId* links() const { return reinterpret_cast<const LinkId*>(key); }

 private:
  static constexpr VertexId kNumbered = 0x80000000;
};
static_assert(sizeof(Way) == 16 && sizeof(uintptr_t) == sizeof(uint64_t));

/// What routing has come to know of a link.
struct LinkState {
  LinkId link = kNoLink;
  bool up = true;
};

/// Decides at each switch. Ways that have their links do not come here.
class Routing {
 public:
  virtual ~Routing() = default;
  /// Packets to `to` will come. Before the first one, and not on the packet path: it may allocate.
  virtual void learn(VertexId to) = 0;
  /// The link by which a packet that is at `at` goes on; kNoLink: none that is up leads there,
  /// which can be at a switch only. What is left of the way may change with it.
  virtual LinkId next(VertexId at, Way& way) = 0;
  /// What next() would say now, as far as that is known: for memory that is fetched early, and for
  /// how long a packet that is cut through has to wait in front of a faster link.
  virtual LinkId expected(VertexId at, Way way) = 0;
  /// How many different paths next() has from NIC `from` to `to`, for Way::by_number().
  virtual uint64_t paths(VertexId from, VertexId to) = 0;
  /// From now on ways avoid the links that are down, and use again those that are up. Works out all
  /// that was learnt anew: rare, and not on the packet path.
  virtual void set_links(std::span<const LinkState> links) { static_cast<void>(links); }
};

}  // namespace understudy
