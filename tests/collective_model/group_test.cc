// Operations of a group on their channels: one after another on a connection, and whatever a
// channel did before is done.
#include "collective_model/schedule/group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "collective_model/nccl/channel_cut.h"

namespace understudy {
namespace {

struct Group {
  Communicator communicator;
  std::vector<Operation> operations;
  std::vector<OperationCut> cuts;

  std::unique_ptr<RankSchedule> alone(size_t o, uint32_t rank) const {
    return rank_schedule(communicator, operations[o], cuts[o], rank);
  }
  std::unique_ptr<RankSchedule> together(uint32_t rank) const {
    std::vector<std::unique_ptr<RankSchedule>> parts;
    for (size_t o = 0; o < operations.size(); ++o) parts.push_back(alone(o, rank));
    return std::make_unique<GroupRankSchedule>(std::move(parts));
  }
};

Group group(uint32_t nodes, uint32_t channels, std::vector<uint64_t> counts,
            Algorithm algorithm = Algorithm::kRing) {
  Group out;
  out.communicator.nodes = nodes;
  out.communicator.channels = channels;
  for (const uint64_t count : counts) {
    Operation o;
    o.algorithm = algorithm;
    o.count = count;
    out.operations.push_back(o);
  }
  out.cuts = cut_group(out.communicator, out.operations).value();
  return out;
}

TEST(GroupSchedule, ConnectionsContinue) {
  const Group g = group(4, 1, {1000, 2000, 1u << 20});
  const auto together = g.together(2);
  ASSERT_EQ(together->connections().size(), 2u);
  for (uint32_t c = 0; c < 2; ++c) {
    uint64_t k = 0;
    for (size_t o = 0; o < 3; ++o) {
      const auto alone = g.alone(o, 2);
      for (uint64_t i = 0; i < alone->connections()[c].messages; ++i, ++k) {
        EXPECT_EQ(together->message(c, k), alone->message(c, i));
      }
    }
    EXPECT_EQ(together->connections()[c].messages, k);
  }
}

TEST(GroupSchedule, AnOperationWaitsForWhatItsChannelDidBefore) {
  const Group g = group(4, 1, {1000, 1000});
  const auto together = g.together(0);
  const uint64_t each = g.alone(0, 0)->connections()[0].messages;
  for (uint32_t c = 0; c < 2; ++c) {
    const Waits own = g.alone(1, 0)->waits(c, 0), waits = together->waits(c, each);
    ASSERT_EQ(waits.size(), own.size() + 2);
    for (uint32_t i = 0; i < own.size(); ++i) {
      EXPECT_EQ((waits.begin() + i)->message, (own.begin() + i)->message + each);
    }
    for (uint32_t i = 0; i < 2; ++i) {
      EXPECT_EQ(*(waits.begin() + own.size() + i), (Wait{Wait::Moment::kDone, i, each - 1}));
    }
    EXPECT_EQ(together->waits(c, each + 1).size(), g.alone(1, 0)->waits(c, 1).size());
  }
}

// Both ends of every connection have the same messages, and every joint's have the same number.
TEST(GroupSchedule, EndsFitTogether) {
  std::mt19937 random(5);
  const auto draw = [&](uint32_t least, uint32_t most) {
    return std::uniform_int_distribution<uint32_t>(least, most)(random);
  };
  for (unsigned i = 0; i < 200; ++i) {
    std::vector<uint64_t> counts;
    for (uint32_t n = draw(1, 5); n > 0; --n)
      counts.push_back(uint64_t{draw(1, 1000)} << draw(0, 10));
    std::sort(counts.begin(), counts.end());
    Group g = group(draw(2, 9), draw(1, 4), counts,
                    draw(0, 1) == 0 ? Algorithm::kRing : Algorithm::kTree);
    if (draw(0, 1) == 0) {  // the last one by another protocol and algorithm
      g.operations.back().protocol = Protocol::kLL;
      g.operations.back().algorithm = Algorithm::kRing;
      g.cuts = cut_group(g.communicator, g.operations).value();
    }
    std::vector<std::unique_ptr<RankSchedule>> ranks;
    for (uint32_t r = 0; r < g.communicator.ranks(); ++r) ranks.push_back(g.together(r));
    std::vector<const RankSchedule*> all;
    for (const auto& rank : ranks) all.push_back(rank.get());
    const auto ends = far_ends(all);
    ASSERT_TRUE(ends);
    for (uint32_t r = 0; r < all.size(); ++r) {
      const std::vector<Connection>& own = all[r]->connections();
      for (uint32_t c = 0; c < own.size(); ++c) {
        const FarEnd far = (*ends)[r][c];
        ASSERT_EQ(own[c].messages, all[far.rank]->connections()[far.connection].messages);
        for (uint64_t k = 0; k < own[c].messages; ++k) {
          ASSERT_EQ(all[r]->message(c, k), all[far.rank]->message(far.connection, k));
          for (const Wait& wait : all[r]->waits(c, k)) {
            ASSERT_LT(wait.message, own[wait.connection].messages);
          }
        }
        for (const Connection& other : own) {
          if (other.joint == own[c].joint && other.joint != 0) {
            ASSERT_EQ(other.messages, own[c].messages);
            ASSERT_EQ(other.channel, own[c].channel);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace understudy
