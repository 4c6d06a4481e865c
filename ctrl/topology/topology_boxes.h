// What of a network is drawn as one box, so that a picture of many hosts stays legible.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "dataplane/fabric/graph.h"

namespace understudy {

/// Above this many hosts or vertices, not each is drawn.
inline constexpr size_t kMostHosts = 64, kMostDrawn = 200;
/// As many boxes and switches at most, where hosts or pods that are alike can be put together.
inline constexpr size_t kMostBoxes = 64;

/// What a box stands for.
struct Box {
  VertexId last = kNoVertex;  ///< of the NICs in it, or of the switches if it has none
  uint64_t nics = 0, switches = 0;
  uint64_t pods = 0;      ///< that have switches of their own
  bool troubled = false;  ///< a cable in it loses packets or is down at times
};

struct Boxes {
  std::vector<VertexId> shown;    ///< for each vertex the one that stands for it, or kNoVertex
  std::map<VertexId, Box> boxes;  ///< by that vertex, of those that stand for others
  bool routers = false;  ///< nodes forward, and are drawn for their NICs: torus, mesh, stack

  /// Vertices that stand for themselves or others.
  size_t drawn() const;
};

/// The cable of this link loses packets or is down at times.
bool is_troubled(const Graph& graph, LinkId link);

/// Every vertex for itself in a small network, or where `all` are wanted. Else the NICs of a switch
/// are one box, and what is inside nodes is left out. If more than kMostBoxes are left, what hangs
/// together below the highest tier of switches is one box (a pod of a fat tree, a rack), as are
/// switches of the highest tier with the same pods; if that is not enough, pods that are alike.
/// Where nodes forward, the smallest of `blocks` (ascending) that is enough, else the largest: how
/// many hosts of consecutive numbers become a box (those of the innermost dimension, of the two
/// innermost, ...).
Boxes boxes_of(const Graph& graph, bool all, const std::vector<uint32_t>& blocks);

}  // namespace understudy
