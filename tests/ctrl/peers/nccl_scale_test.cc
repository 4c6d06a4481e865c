// Thousands of emulated ranks in one communicator: memory and work stay in proportion.
#include <gtest/gtest.h>

#include "tests/ctrl/peers/nccl_meeting.h"
#include "tests/rigs/live_bytes.h"

namespace understudy::nccl_test {
namespace {

const BootstrapLayout& layout_of(uint32_t minor) { return *layouts_of({minor}).front(); }

class NcclScale : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Releases, NcclScale, testing::Values(20, 27, 28));

TEST_P(NcclScale, OneRealRankAmongThousands) {
  for (const uint32_t n : {1024u, 4096u}) {
    std::vector<bool> real(n);
    real[0] = true;
    Meeting run(layout_of(GetParam()), real);
    [[maybe_unused]] const long long before = live_bytes;
    run.start_emulated_root_alone();
    run.world.run();
    // Of that the network in memory has its part: a listener is known by two maps.
    [[maybe_unused]] const long long listening = live_bytes - before;
#ifndef LIVE_BYTES_ARE_UNKNOWN
    EXPECT_LT(listening, 1024 * static_cast<long long>(n));
#endif
    run.begin();
    ASSERT_TRUE(run.ranks[0].done() && !run.ranks[0].failed()) << waiting(run);
    EXPECT_EQ(nccl_u32(run.comm(0)->peer_info[n - 1], 0), n - 1);
    EXPECT_LE(run.world.most_listeners, n + 1);
    run.comm(0)->close();
    run.world.run();
    EXPECT_TRUE(run.world.machine().finished());
  }
}

TEST_P(NcclScale, ThousandsCheckInAtARealRank) {
  std::vector<bool> real(2048);
  real[0] = true;
  Meeting run(layout_of(GetParam()), real);
  run.start_real_root();
  ASSERT_TRUE(run.ranks[0].done() && !run.ranks[0].failed()) << waiting(run);
  EXPECT_LE(run.world.most_listeners, 2048u);
}

/// Real ranks of many nodes among as many emulated ones: as many segments as there can be.
TEST_P(NcclScale, ManySegments) {
  std::vector<bool> real(256);
  for (size_t r = 0; r < real.size(); r += 2) real[r] = true;
  Meeting run(layout_of(GetParam()), real);
  run.start_emulated_root();
  for (auto& task : run.ranks) ASSERT_TRUE(task.done() && !task.failed()) << waiting(run);
}

}  // namespace
}  // namespace understudy::nccl_test
