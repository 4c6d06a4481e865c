// Small traces for tests.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "collective_model/traces/replay.h"

namespace understudy {

/// Nodes with the ids that they wait for.
class TraceBuilder {
 public:
  using Ids = std::vector<uint64_t>;

  TraceBuilder& compute(uint64_t id, uint64_t us, Ids after = {}, bool on_cpu = false) {
    TraceNode node;
    node.kind = TraceNodeKind::kCompute;
    node.duration_us = us;
    node.on_cpu = on_cpu;
    return add(id, node, std::move(after));
  }
  TraceBuilder& collective(uint64_t id, TraceCollective collective, uint64_t bytes,
                           Ids after = {}) {
    TraceNode node;
    node.kind = TraceNodeKind::kCollective;
    node.collective = collective;
    node.bytes = bytes;
    return add(id, node, std::move(after));
  }
  TraceBuilder& send(uint64_t id, uint32_t to, uint64_t bytes, uint32_t tag, Ids after = {}) {
    TraceNode node;
    node.kind = TraceNodeKind::kSend;
    node.destination = to;
    node.bytes = bytes;
    node.tag = tag;
    return add(id, node, std::move(after));
  }
  TraceBuilder& receive(uint64_t id, uint32_t from, uint64_t bytes, uint32_t tag, Ids after = {}) {
    TraceNode node;
    node.kind = TraceNodeKind::kReceive;
    node.source = from;
    node.bytes = bytes;
    node.tag = tag;
    return add(id, node, std::move(after));
  }
  TraceBuilder& add(uint64_t id, TraceNode node, Ids data, Ids control = {}) {
    node.id = id;
    nodes_.push_back({std::move(node), std::move(data), std::move(control)});
    return *this;
  }
  /// Of the node that was added last.
  TraceNode& last() { return nodes_.back().node; }

  std::shared_ptr<const TraceGraph> graph() const {
    auto made = TraceGraph::make(nodes_);
    EXPECT_TRUE(made) << made.error().text;
    return made ? std::make_shared<const TraceGraph>(*std::move(made)) : nullptr;
  }

 private:
  std::vector<TraceNodeParents> nodes_;
};

/// A ring or a fully connected network of `ranks`, with 50 * 2^30 bytes a second and 500 ns, endpoints
/// of 10 ns, four chunks, and memory of 1,600 GB/s.
inline ReplaySettings settings_of(uint32_t ranks, TraceCongestion congestion,
                                  TraceDimension::Kind kind = TraceDimension::Kind::kRing) {
  ReplaySettings settings;
  auto network = TraceNetwork::make({{kind, ranks, 50, 500}}, congestion);
  EXPECT_TRUE(network) << network.error().text;
  if (network) settings.network = *std::move(network);
  settings.system.splits = 4;
  settings.system.memory_gb_s = 1600;
  for (const TraceCollective collective :
       {TraceCollective::kAllReduce, TraceCollective::kAllGather, TraceCollective::kReduceScatter,
        TraceCollective::kAllToAll}) {
    settings.system.algorithms[collective] = {"ring"};
  }
  return settings;
}

inline int64_t ns_of(Time time) { return (time - Time::zero()).ps() / 1000; }

inline std::vector<int64_t> finish_ns(const Result<std::vector<RankReplay>>& ranks) {
  std::vector<int64_t> all;
  EXPECT_TRUE(ranks) << ranks.error().text;
  if (!ranks) return all;
  for (const RankReplay& rank : *ranks) all.push_back(ns_of(rank.finish));
  return all;
}

}  // namespace understudy
