// Which ranks are neighbours, from what all ranks said of their nodes (docs/nccl 1.7.2, 2.6 to 2.8;
// source: init.cc initTransportsRank, graph/connect.cc, graph/trees.cc).
#pragma once

#include <vector>

#include "tests/rigs/nccl_rank/process.h"
#include "tools/nccl_decode/layout.h"

namespace understudy::nccl_rank {

/// A rank's place in a tree; -1: none.
struct TreePlace {
  int up = -1;
  std::vector<int> down;
};

struct Topology {
  std::vector<int> node_of;  ///< by rank
  int nodes = 0;
  int channels = 0;
  std::vector<std::vector<int>> next, previous;  ///< by channel and rank
  std::vector<std::vector<TreePlace>> trees;     ///< by channel and rank
};

/// `infos`: of all ranks. Throws Refused as NCCL gives up: rings that do not close.
Topology topology_of(const std::vector<Bytes>& infos, const nccl_decode::GraphInfoLayout& layout,
                     int most_channels);

}  // namespace understudy::nccl_rank
