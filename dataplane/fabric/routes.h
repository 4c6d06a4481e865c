// Which way through the graph: shortest paths by number of links, and one of several by a hash.
// Only switches and routers forward; NICs and GPUs are ends.
//
// Where a vertex has n links on shortest paths to the destination, in the order in which they were
// made, a packet with flow hash h takes number (mix(h ^ salt) >> 32) * n >> 32. mix is splitmix64's
// finaliser, salt = mix(seed + vertex): switches choose independently of one another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "dataplane/fabric/graph.h"
#include "dataplane/fabric/routing.h"

namespace understudy {

enum class RouteChoice : uint8_t {
  kEcmp,   ///< by the flow's hash
  kSpray,  ///< the caller takes a new hash for every packet
  kFirst,  ///< always the first of the shortest paths, hop by hop
};

/// Given instead of the shortest path for all pairs (from, to): these switches, one after another.
/// Parallel cables between two of them are chosen by hash.
struct StaticRoute {
  std::vector<bool> from, to;  ///< by vertex
  std::vector<VertexId> via;
};

/// A flow's hash: what a switch takes from addresses and ports, here of NICs and any number that
/// tells the flows of a pair apart (a UDP source port, a flow's position in a list).
uint64_t flow_hash(VertexId from, VertexId to, uint64_t flow);

/// A shortest path has fewer links than this everywhere.
inline constexpr uint16_t kUnreachable = 0xffff;

/// Stands for this many shortest paths of a pair, or more.
inline constexpr uint64_t kMostPathsCounted = uint64_t{1} << 63;

/// Links from each vertex to `to` on a shortest path, or kUnreachable; by vertex. Zero for `to`.
/// `down`: links that are not used, by link; empty: none.
std::vector<uint16_t> hops_to(const Graph& graph, VertexId to, std::span<const uint8_t> down = {});

/// What is computed for a destination is kept, so a lookup may allocate the first time: ask when
/// flows are set up, or warm up with path(). Not thread-safe.
class Routes {
 public:
  /// `graph` must outlive this; its rates and latencies may change, its cables not. Of several
  /// static routes for a pair the last one counts.
  Routes(const Graph& graph, RouteChoice choice, uint64_t seed,
         std::vector<StaticRoute> static_routes = {});

  RouteChoice choice() const { return choice_; }
  /// From now on paths avoid links that are down, or use them again; static routes do not ask.
  void set_links(std::span<const LinkState> links);
  /// By link, 1: it is avoided; empty: none is.
  std::span<const uint8_t> down() const { return down_; }
  /// Which of `n` links of `at` a packet with this hash takes.
  static size_t chosen(uint64_t seed, VertexId at, uint64_t hash, size_t n);
  /// Whether a static route is given for the pair.
  bool is_static(VertexId from, VertexId to) const { return static_route(from, to) != nullptr; }
  /// The vertex that everything for `to` comes by last, if it is a switch and the only one with a
  /// cable to it; else `to`.
  VertexId root_of(VertexId to) const;

  /// Links that leave `at` on shortest paths to `to` (a NIC or GPU), static routes aside; none if
  /// there is no path. Valid until the next call.
  std::span<const LinkId> next_hops(VertexId at, VertexId to);
  /// The links of one path in order; none if `to` cannot be reached, or is `from`.
  std::vector<LinkId> path(VertexId from, VertexId to, uint64_t hash);
  /// The same into `links`, which has room for it; gives their number. Allocates nothing once
  /// another path to `to` has been asked for.
  size_t path(VertexId from, VertexId to, uint64_t hash, LinkId* links);
  /// Up to `limit` different paths of a pair, all if it has no more; otherwise spread evenly over
  /// all in their order. A static route is the only one (times its parallel cables).
  std::vector<std::vector<LinkId>> paths(VertexId from, VertexId to, size_t limit);
  /// How many different paths a pair has, at most kMostPathsCounted.
  uint64_t path_count(VertexId from, VertexId to);

 private:
  static constexpr uint32_t kNotSwitch = 0xffffffff;
  using Ways = std::unordered_map<VertexId, uint64_t>;  ///< paths from a vertex onwards

  template <typename Take>
  bool walk(VertexId from, VertexId to, uint64_t hash, const Take& take);
  bool avoids(LinkId link) const { return !down_.empty() && down_[link] != 0; }
  const StaticRoute* static_route(VertexId from, VertexId to) const;
  const std::vector<uint16_t>& distances(VertexId root);
  size_t choose(VertexId at, uint64_t hash, size_t n) const;
  /// next_hops, or the links of the static route's hop number `hop` where there is one.
  std::span<const LinkId> choices(VertexId at, VertexId to, const StaticRoute* route, size_t hop);
  uint64_t count_ways(VertexId at, VertexId to, const StaticRoute* route, size_t hop, Ways& ways);

  const Graph& graph_;
  RouteChoice choice_;
  uint64_t seed_;
  std::vector<StaticRoute> static_routes_;
  std::vector<uint32_t> switch_index_;            ///< by vertex
  std::vector<std::vector<uint16_t>> distances_;  ///< by root, then by switch_index; filled late
  std::vector<uint8_t> down_;                     ///< down()
  std::vector<LinkId> found_;                     ///< by next_hops
};

}  // namespace understudy
