// The plan of ranks that all do the same, which keeps one rank's part only, equals the general
// evaluator: drawn operations by PAT, whose real ranks send and acknowledge at random, causal
// times. ALIKE_SEED and ALIKE_CASES change what is drawn.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "collective_model/plan/general_plan.h"
#include "collective_model/plan/symmetric_ranks.h"
#include "tests/rigs/plan_equality.h"
#include "tests/rigs/plan_race.h"

namespace understudy {
namespace {

RaceCase draw(uint64_t seed, uint64_t i) {
  Random random(seed * 1'000'003 + i);
  RaceCase c;
  c.communicator.nodes = static_cast<uint32_t>(among(random, 2, random() % 6 == 0 ? 70 : 20));
  c.communicator.channels = static_cast<uint32_t>(among(random, 1, 8));
  c.communicator.version.minor = static_cast<uint32_t>(among(random, 23, 30));
  c.communicator.buffers.simple >>= among(random, 0, 10);
  c.operation.collective = random() % 2 == 0 ? Collective::kAllGather : Collective::kReduceScatter;
  c.operation.algorithm = Algorithm::kPat;
  // From one message for all blocks to blocks of several messages.
  const uint64_t bytes = uint64_t{4} << among(random, 0, 18);
  c.operation.count =
      std::min<uint64_t>(bytes + among(random, 0, bytes / 4) * 4, c.communicator.buffers.simple) /
      4;
  const auto checked = check_operation(c.communicator, c.operation);
  EXPECT_TRUE(checked) << (checked ? "" : checked.error().text);
  const auto cut = cut_group(c.communicator, {&c.operation, 1});
  EXPECT_TRUE(cut);
  c.ruled.alike = std::make_shared<SymmetricRanks>(c.communicator, c.operation, cut->at(0));
  draw_rest(c, random, cut->at(0));
  c.name = "case " + std::to_string(i) + ": " + c.name + ", buffer " +
           std::to_string(c.communicator.buffers.simple);
  return c;
}

TEST(Alike, EqualsTheGeneralEvaluator) {
  const uint64_t seed = number("ALIKE_SEED", 1);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  expect_equals_general(draw, seed, number("ALIKE_FIRST", 0), number("ALIKE_CASES", 100));
}

TEST(Alike, UncongestedPlansEqualTheGeneralEvaluator) {
  expect_uncongested_equals_general(draw, number("ALIKE_SEED", 1) + 7, number("ALIKE_CASES", 100));
}

// The other ends of a rank's connections are where the lists of all ranks say.
TEST(Alike, KnowsFarEndsWithoutAList) {
  for (uint64_t i = 0; i < 60; ++i) {
    const RaceCase c = draw(11, i);
    for (const uint32_t rank : c.ruled.real) {
      expect_known_far_ends(c, rank, c.ruled.alike->far_ends(rank));
    }
  }
}

}  // namespace
}  // namespace understudy
