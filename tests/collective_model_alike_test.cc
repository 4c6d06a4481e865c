// The plan of ranks that all do the same, which keeps one rank's part only, equals the general
// evaluator: drawn operations by PAT, whose real ranks send and acknowledge at random, causal
// times. ALIKE_SEED and ALIKE_CASES change what is drawn.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "collective_model/alike_ranks.h"
#include "collective_model/environment.h"
#include "tests/plan_race.h"

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
  c.ruled.alike = std::make_shared<AlikeRanks>(c.communicator, c.operation, cut->at(0));
  draw_rest(c, random, cut->at(0));
  c.name = "case " + std::to_string(i) + ": " + c.name + ", buffer " +
           std::to_string(c.communicator.buffers.simple);
  return c;
}

TEST(Alike, EqualsTheGeneralEvaluator) {
  const uint64_t seed = number("ALIKE_SEED", 1), cases = number("ALIKE_CASES", 100);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (uint64_t i = number("ALIKE_FIRST", 0); i < cases; ++i) {
    const RaceCase c = draw(seed, i);
    Result<Environment> general = Environment::make(c.listed);
    ASSERT_TRUE(general) << c.name;
    const auto plan = make_plan(c.ruled);
    ASSERT_TRUE(plan) << c.name;
    Race race(c, *general, **plan, seed + i);
    ASSERT_TRUE(race.run(Time::zero() + Duration::us(3), i % 2 == 0)) << c.name;
    ASSERT_TRUE(race.run(Time::zero() + Duration::ms(30), i % 4 == 0)) << c.name;
  }
}

// With all ranks emulated, for operations one after the other.
TEST(Alike, IdealPlansEqualTheGeneralEvaluator) {
  const uint64_t seed = number("ALIKE_SEED", 1), cases = number("ALIKE_CASES", 100);
  for (uint64_t i = 0; i < cases; ++i) {
    const RaceCase c = draw(seed + 7, i);
    Result<Environment> general = Environment::make_ideal(c.listed);
    ASSERT_TRUE(general) << c.name;
    const auto plan = make_ideal_plan(c.ruled);
    ASSERT_TRUE(plan) << c.name;
    general->start(Time::zero());
    (*plan)->start(Time::zero());
    for (int operation = 0; operation < 2; ++operation) {
      ASSERT_TRUE((*plan)->finished()) << c.name;
      std::vector<Time> ends;
      for (uint32_t rank = 0; rank < c.communicator.ranks(); ++rank) {
        ends.push_back(general->completion(rank));
        ASSERT_EQ((*plan)->completion(rank), ends.back()) << c.name << ", rank " << rank;
      }
      general->begin();
      (*plan)->begin();
      for (uint32_t rank = 0; rank < ends.size(); ++rank) {
        general->enter(rank, ends[rank]);
        (*plan)->enter(rank, ends[rank]);
      }
    }
  }
}

// The other ends of a rank's connections are where the lists of all ranks say.
TEST(Alike, KnowsFarEndsWithoutAList) {
  for (uint64_t i = 0; i < 60; ++i) {
    const RaceCase c = draw(11, i);
    for (const uint32_t rank : c.ruled.real) {
      const std::vector<FarEnd> ends = c.ruled.alike->far_ends(rank);
      ASSERT_EQ(ends.size(), c.far[rank].size()) << c.name;
      for (size_t k = 0; k < ends.size(); ++k) {
        ASSERT_EQ(ends[k].rank, c.far[rank][k].rank) << c.name << ", connection " << k;
        ASSERT_EQ(ends[k].connection, c.far[rank][k].connection) << c.name << ", connection " << k;
      }
    }
  }
}

}  // namespace
}  // namespace understudy
