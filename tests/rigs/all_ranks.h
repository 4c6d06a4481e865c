// A configuration's first job carried out packet by packet with all its ranks emulated, without a
// plan: what runs beside real nodes are compared with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "ctrl/compile/rank_job.h"
#include "tests/rigs/lone_run.h"

namespace understudy {

/// First entry of `count` ranks from `first` on into operation `o`, and their last one's end.
inline std::pair<Time, Time> span_of(const RankJob& job, size_t o, uint32_t first, uint32_t count) {
  Time entry = Time::never(), end;
  for (uint32_t rank = first; rank < first + count; ++rank) {
    entry = std::min(entry, job.ranks->entry(o, rank));
    end = std::max(end, job.ranks->completion(o, rank));
  }
  return {entry, end};
}

/// The job when all its operations are over.
inline RankJob run_all_ranks(const Config& config) {
  const auto topology = build_topology(config);
  EXPECT_TRUE(topology);
  std::vector<FlowSpec> flows;
  uint32_t connections = 0;
  auto job = build_rank_job(config, config.jobs[0], *topology, flows, connections);
  EXPECT_TRUE(job) << (job ? "" : job.error().text);
  EXPECT_TRUE(route_flows(*topology, config.seed, flows));
  EXPECT_TRUE(run_packets(config, topology->graph, topology->next_hops(config.seed), flows,
                          {job->ranks.get()}));
  return std::move(*job);
}

}  // namespace understudy
