// The plan of an all-to-all, which lists no connections, equals the general evaluator: drawn
// operations, whose real ranks send and acknowledge at random, causal times, give the same outputs
// after every input, to the picosecond, and the same completions. ALL_TO_ALL_SEED and
// ALL_TO_ALL_CASES change what is drawn.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "collective_model/plan/general_plan.h"
#include "collective_model/schedule/all_to_all.h"
#include "collective_model/schedule/p2p.h"
#include "tests/rigs/plan_equality.h"

namespace understudy {
namespace {

RaceCase draw(uint64_t seed, uint64_t i) {
  Random random(seed * 1'000'003 + i);
  RaceCase c;
  Communicator& communicator = c.communicator;
  communicator.gpus = static_cast<uint32_t>(random() % 2 == 0 ? 1 : among(random, 2, 8));
  const uint64_t most = (random() % 8 == 0 ? 80 : 24) / communicator.gpus;
  communicator.nodes = static_cast<uint32_t>(among(random, 2, std::max<uint64_t>(most, 3)));
  communicator.channels = static_cast<uint32_t>(among(random, 1, 8));
  communicator.version.minor = static_cast<uint32_t>(among(random, 22, 30));
  if (random() % 3 == 0) communicator.channels_per_peer = 1u << among(random, 0, 3);
  communicator.nic_gigabytes = static_cast<uint32_t>(among(random, 0, 50));
  communicator.buffers.p2p_chunk >>= among(random, 0, 4);
  const uint32_t n = communicator.ranks();
  const auto draw_bytes = [&]() -> uint64_t {
    if (random() % 16 == 0) return 0;
    // Up to some 40 messages.
    const uint64_t bytes = uint64_t{4} << among(random, 0, 20);
    return std::min<uint64_t>(bytes + among(random, 0, bytes / 4) * 4,
                              40 * communicator.buffers.p2p_chunk);
  };
  if (random() % 2 == 0) {
    c.operation.collective = Collective::kAllToAll;
    c.operation.count = draw_bytes() / 4;
  } else {
    c.operation.collective = Collective::kAllToAllV;
    const uint64_t base = draw_bytes() / 4 * 4;
    const bool alike = random() % 4 == 0;
    const uint64_t mute = random() % 3 == 0 ? among(random, 2, 8) : 0;  // one pair of so many
    for (uint32_t pair = 0; pair < n * n; ++pair) {
      c.operation.pair_bytes.push_back(alike ? base : draw_bytes() / 4 * 4);
      if (mute != 0 && random() % mute == 0) c.operation.pair_bytes.back() = kNoPair;
    }
  }
  const auto checked = check_operation(communicator, c.operation);
  EXPECT_TRUE(checked) << (checked ? "" : checked.error().text);
  c.ruled.all_to_all = std::make_shared<AllToAll>(communicator, c.operation);
  draw_rest(c, random, {});
  c.name = "case " + std::to_string(i) + ": " + c.name + ", " +
           std::to_string(communicator.p2p_channels_per_peer()) + " per peer, chunk " +
           std::to_string(communicator.buffers.p2p_chunk);
  return c;
}

TEST(AllToAll, EqualsTheGeneralEvaluator) {
  const uint64_t seed = number("ALL_TO_ALL_SEED", 1);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  expect_equals_general(draw, seed, number("ALL_TO_ALL_FIRST", 0), number("ALL_TO_ALL_CASES", 100));
}

TEST(AllToAll, UncongestedPlansEqualTheGeneralEvaluator) {
  expect_uncongested_equals_general(draw, number("ALL_TO_ALL_SEED", 1) + 7,
                                    number("ALL_TO_ALL_CASES", 100));
}

// The other ends of a rank's connections are where its list and those of all others say.
TEST(AllToAll, KnowsFarEndsWithoutAList) {
  for (uint64_t i = 0; i < 60; ++i) {
    const RaceCase c = draw(11, i);
    for (const uint32_t rank : c.ruled.real) {
      expect_known_far_ends(c, rank, c.ruled.all_to_all->far_ends(*c.listed.ranks[rank]));
    }
  }
}

TEST(AllToAll, NamesWhatDoesNotFit) {
  const auto why = [](const PlanInput& config) {
    const auto plan = make_plan(config);
    return plan ? "" : plan.error().text;
  };
  PlanInput config;
  Communicator communicator;
  communicator.nodes = 4;
  communicator.gpus = 2;
  Operation operation;
  operation.collective = Collective::kAllToAll;
  operation.count = 1000;
  config.all_to_all = std::make_shared<AllToAll>(communicator, operation);
  Random random(1);
  config.pair_hops = std::make_shared<DrawnHops>(random, 8);
  EXPECT_EQ(why(config), "plan: real: no rank is real");
  config.real = {8};
  EXPECT_EQ(why(config), "plan: real: rank 8 of 8");
  config.real = {4};
  EXPECT_EQ(why(config), "plan: real: ranks 4 and 5 share a node, and one of them is not real");
  config.real = {4, 5};
  EXPECT_EQ(why(config), "");
  config.entry_delay.resize(7);
  EXPECT_EQ(why(config), "plan: entry_delay: 7 given for 8 ranks");
  config.entry_delay = {};
  config.wire.mtu = 0;
  EXPECT_EQ(why(config), "plan: wire.mtu: must not be 0");
  config.wire.mtu = 4096;
  config.pair_hops = nullptr;
  EXPECT_EQ(why(config), "plan: pair_hops: missing");
}

}  // namespace
}  // namespace understudy
