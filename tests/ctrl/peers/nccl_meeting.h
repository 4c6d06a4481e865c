// A communicator of real ranks (ctrl_peers_nccl_real_rank.h) and emulated ones.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/ctrl/peers/nccl_real_rank.h"

namespace understudy::nccl_test {

struct Meeting {
  explicit Meeting(const BootstrapLayout& layout, std::vector<bool> real, uint32_t per_node = 1,
                   uint64_t seed = 1)
      : world(seed),
        job{world, layout, {}, static_cast<uint32_t>(real.size()), {}, 1},
        real(std::move(real)) {
    job.id.magic = 0x1122334455667788;
    for (uint32_t r = 0; r < job.ranks; ++r) job.node.push_back(r / per_node);
  }
  NcclCommunicatorSettings settings() const {
    NcclCommunicatorSettings s;
    s.version = {configured > 0 ? configured : job.layout.minor};
    s.id = job.id;
    for (uint32_t r = 0; r < job.ranks; ++r) s.ranks.push_back({real[r], job.node[r]});
    return s;
  }
  /// Without the real ranks.
  void start_real_root_alone() {
    job.id.root = world.real_listen();
    root.emplace(real_root(job, job.id.root));
    world.start(settings());
  }
  void start_emulated_root_alone() {
    const auto first =
        static_cast<uint32_t>(std::find(real.begin(), real.end(), false) - real.begin());
    const ListenerId listener = world.new_listener();
    job.id.root = *world.listen(first, listener);
    NcclCommunicatorSettings s = settings();
    s.emulated_root = true;
    s.root_rank = first;
    s.root_listener = listener;
    world.start(s);
  }
  void start_real_root() {
    start_real_root_alone();
    begin();
  }
  void start_emulated_root() {
    start_emulated_root_alone();
    begin();
  }
  void begin() {
    for (uint32_t r = 0; r < job.ranks; ++r) {
      if (real[r]) ranks.push_back(init_rank(job, r));
    }
    world.run();
  }
  std::shared_ptr<RealComm> comm(size_t i) { return ranks[i].result(); }

  World world;
  Job job;
  uint32_t configured = 0;  ///< the release that the configuration says, if another
  std::vector<bool> real;
  std::optional<Task<int>> root;
  std::vector<Task<std::shared_ptr<RealComm>>> ranks;
};

inline std::string waiting(Meeting& run) {
  std::string text = run.world.machine().failure();
  for (const auto& line : run.world.machine().waiting()) text += "\n" + line;
  return text;
}

/// All real ranks leave in good order, and nothing is left.
inline void finish(Meeting& run) {
  for (auto& task : run.ranks) {
    const auto comm = task.result();
    EXPECT_FALSE(comm->unexpected());
    comm->close();
  }
  run.world.run();
  EXPECT_EQ(run.world.machine().failure(), "");
  EXPECT_TRUE(run.world.machine().finished());
  EXPECT_TRUE(run.world.connectors.empty());
  EXPECT_EQ(run.world.open_streams(), 0u);
  EXPECT_EQ(run.world.open_listeners(), 0u);
}

}  // namespace understudy::nccl_test
