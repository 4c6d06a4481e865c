// Plans that list no connections equal the general evaluator: what all of them must show, for cases
// that `draw` makes of a seed and a number.
#pragma once

#include <memory>
#include <vector>

#include "collective_model/plan/general_plan.h"
#include "tests/rigs/plan_race.h"

namespace understudy {

using DrawCase = RaceCase (*)(uint64_t seed, uint64_t i);

/// Real ranks send and acknowledge at random, causal times: outputs after every input and
/// completions are equal, for two operations one after the other.
inline void expect_equals_general(DrawCase draw, uint64_t seed, uint64_t first, uint64_t cases) {
  for (uint64_t i = first; i < cases; ++i) {
    const RaceCase c = draw(seed, i);
    Result<GeneralPlan> general = GeneralPlan::make(c.listed);
    ASSERT_TRUE(general) << c.name;
    const auto plan = make_plan(c.ruled);
    ASSERT_TRUE(plan) << c.name;
    Race race(c, *general, **plan, seed + i);
    ASSERT_TRUE(race.run(Time::zero() + Duration::us(3), i % 2 == 0)) << c.name;
    ASSERT_TRUE(race.run(Time::zero() + Duration::ms(30), i % 4 == 0)) << c.name;
  }
}

/// All ranks are emulated: completions are equal, for operations one after the other.
inline void expect_uncongested_equals_general(DrawCase draw, uint64_t seed, uint64_t cases) {
  for (uint64_t i = 0; i < cases; ++i) {
    const RaceCase c = draw(seed, i);
    Result<GeneralPlan> general = GeneralPlan::make_ideal(c.listed);
    ASSERT_TRUE(general) << c.name;
    const auto plan = make_uncongested_plan(c.ruled);
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

/// `known`: the other ends of a rank's connections, as the plan's input works them out; they are
/// where the lists of all ranks say.
inline void expect_known_far_ends(const RaceCase& c, uint32_t rank,
                                  const std::vector<FarEnd>& known) {
  ASSERT_EQ(known.size(), c.far[rank].size()) << c.name;
  for (size_t k = 0; k < known.size(); ++k) {
    ASSERT_EQ(known[k].rank, c.far[rank][k].rank) << c.name << ", connection " << k;
    ASSERT_EQ(known[k].connection, c.far[rank][k].connection) << c.name << ", connection " << k;
  }
}

}  // namespace understudy
