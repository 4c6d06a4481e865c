#include "tests/rigs/nccl_rank/topology.h"

#include <algorithm>
#include <array>
#include <map>

#include "tools/nccl_decode/fields.h"

namespace understudy::nccl_rank {
namespace {

using nccl_decode::i32_at;

enum Array { kRingRecv, kRingSend, kRingPrev, kRingNext, kToParent, kToChild0, kToChild1 };

struct Edges {
  int up = -1, child_type = 0;
  std::array<int, 2> down = {-1, -1};
};

/// The binary tree whose leaves are the odd numbers.
Edges btree(int nodes, int node) {
  Edges out;
  int bit = 1;
  while (bit < nodes && (node & bit) == 0) bit <<= 1;
  if (node == 0) {
    if (nodes > 1) out.down[1] = bit >> 1;
    return out;
  }
  const int above = (node ^ bit) | (bit << 1);
  out.up = above >= nodes ? node ^ bit : above;
  out.child_type = node < out.up ? 0 : 1;
  const int half = bit >> 1;
  out.down[0] = half == 0 ? -1 : node - half;
  for (int step = half; step > 0; step >>= 1) {
    if (node + step < nodes) {
      out.down[1] = node + step;
      break;
    }
  }
  return out;
}

/// The second tree: the first one mirrored, or, of an odd number of nodes, shifted by one.
Edges other_btree(int nodes, int node) {
  const bool even = nodes % 2 == 0;
  const auto there = [&](int x) { return even ? nodes - 1 - x : (x - 1 + nodes) % nodes; };
  const auto back = [&](int x) { return x < 0 ? -1 : even ? nodes - 1 - x : (x + 1) % nodes; };
  Edges out = btree(nodes, there(node));
  out.up = back(out.up);
  out.down = {back(out.down[0]), back(out.down[1])};
  return out;
}

}  // namespace

Topology topology_of(const std::vector<Bytes>& infos, const nccl_decode::GraphInfoLayout& layout,
                     int most_channels) {
  const int ranks = static_cast<int>(infos.size());
  const auto entry = [&](int rank, Array array, int channel) {
    return i32_at(infos[static_cast<size_t>(rank)],
                  static_cast<size_t>(layout.array(array) + 4 * channel));
  };
  Topology out;
  std::map<int, int> nodes;  // by the first rank of channel 0's ring
  std::vector<int> first;    // rank of each node
  for (int rank = 0; rank < ranks; ++rank) {
    const auto [found, added] = nodes.try_emplace(entry(rank, kRingRecv, 0), out.nodes);
    if (added) {
      ++out.nodes;
      first.push_back(rank);
    }
    out.node_of.push_back(found->second);
  }
  int found_channels = layout.channels;
  for (const Bytes& info : infos) {
    const auto graph = [&](int which) {
      return i32_at(info, static_cast<size_t>(which * layout.graph_bytes + 4));
    };
    found_channels = std::min({found_channels, graph(0), graph(1)});
  }
  require(found_channels > 0, "no channels");
  out.channels = std::min({2 * found_channels, layout.channels, most_channels});
  const auto node_count = static_cast<size_t>(out.nodes);
  const auto checked = [&](int rank) {
    require(rank >= 0 && rank < ranks, "rank " + std::to_string(rank) + " in a graph");
    return static_cast<size_t>(rank);
  };
  for (int c = 0; c < out.channels; ++c) {
    const int search = c % found_channels;
    std::vector<int> next(infos.size(), -1), previous(infos.size(), -1);
    for (int rank = 0; rank < ranks; ++rank) {
      next[static_cast<size_t>(rank)] = entry(rank, kRingNext, search);
      previous[static_cast<size_t>(rank)] = entry(rank, kRingPrev, search);
    }
    for (size_t n = 0; n < node_count; ++n) {
      const int here = first[n], before = first[(n + node_count - 1) % node_count];
      const int behind = first[(n + 1) % node_count];
      previous[checked(entry(here, kRingRecv, search))] = entry(before, kRingSend, search);
      next[checked(entry(here, kRingSend, search))] = entry(behind, kRingRecv, search);
    }
    int at = 0;
    std::vector<bool> seen(infos.size());
    for (int i = 0; i < ranks; ++i) {
      require(!seen[checked(at)], "a ring that does not close");
      seen[static_cast<size_t>(at)] = true;
      const int after = next[static_cast<size_t>(at)];
      require(previous[checked(after)] == at, "a ring whose ends do not fit");
      at = after;
    }
    require(at == 0, "a ring that does not return");
    out.next.push_back(std::move(next));
    out.previous.push_back(std::move(previous));

    std::vector<TreePlace> tree(infos.size());
    for (size_t n = 0; n < node_count; ++n) {
      const Edges edges = c < found_channels ? btree(out.nodes, static_cast<int>(n))
                                             : other_btree(out.nodes, static_cast<int>(n));
      const int here = first[n];
      if (edges.up >= 0) {
        const int parent = first[static_cast<size_t>(edges.up)];
        tree[checked(entry(here, kToParent, search))].up =
            entry(parent, edges.child_type == 0 ? kToChild0 : kToChild1, search);
      }
      for (size_t child = 0; child < 2; ++child) {
        if (edges.down[child] < 0) continue;
        const int below = first[static_cast<size_t>(edges.down[child])];
        tree[checked(entry(here, child == 0 ? kToChild0 : kToChild1, search))].down.push_back(
            entry(below, kToParent, search));
      }
    }
    // What a parent says of its child the child says of its parent.
    for (int rank = 0; rank < ranks; ++rank) {
      for (int below : tree[static_cast<size_t>(rank)].down) {
        require(tree[checked(below)].up == rank, "a tree whose ends do not fit");
      }
    }
    out.trees.push_back(std::move(tree));
  }
  return out;
}

}  // namespace understudy::nccl_rank
