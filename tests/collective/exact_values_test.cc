// Values of exact payload against a plain collective on all ranks' buffers (rank_values.h),
// bit by bit: what each rank ends with, and that it comes once.
#include "dataplane/collective/exact_values.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "collective_model/schedule/group.h"
#include "collective_model/schedule/p2p.h"
#include "tools/rigs/ring_node/values/rank_values.h"

namespace understudy {
namespace {

using K = Collective;

constexpr DataType kTypes[] = {DataType::kInt8,     DataType::kUint8,      DataType::kInt32,
                               DataType::kUint32,   DataType::kInt64,      DataType::kUint64,
                               DataType::kFloat16,  DataType::kFloat32,    DataType::kFloat64,
                               DataType::kBfloat16, DataType::kFloat8E4m3, DataType::kFloat8E5m2};
constexpr ReduceOp kReductions[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin,
                                    ReduceOp::kMax};

struct Case {
  Communicator communicator;
  Operation operation;
  ReduceOp reduction = ReduceOp::kSum;
};

std::string text_of(const Case& c) {
  const Operation& o = c.operation;
  return std::string(name_of(kCollectiveNames, o.collective)) + " " +
         std::string(name_of(kAlgorithmNames, o.algorithm)) + " " +
         std::string(name_of(kProtocolNames, o.protocol)) + " " +
         std::string(name_of(kDataTypeNames, o.type)) + " " +
         std::string(name_of(kReduceOpNames, c.reduction)) + ", " + std::to_string(o.count) +
         " elements, root " + std::to_string(o.root) + ", " + std::to_string(c.communicator.nodes) +
         " x " + std::to_string(c.communicator.gpus) + " ranks, " +
         std::to_string(c.communicator.channels) + " channels, 2." +
         std::to_string(c.communicator.version.minor);
}

/// A job of emulated ranks only, with one operation.
struct Job {
  explicit Job(const Case& c) {
    auto made = kernel_schedules(c.communicator, {&c.operation, 1});
    EXPECT_TRUE(made) << (made ? "" : made.error().text);
    if (!made) return;
    std::vector<const RankSchedule*> all;
    for (const auto& rank : *made) all.push_back(rank.get());
    shape.values = std::make_shared<AllRanks>(AllRanks{*made, *far_ends(all)});
    job.real_index.assign(made->size(), CollectiveJob::kEmulated);
    job.operations = {&shape};
    job.exact = true;
    job.type = c.operation.type;
    job.reduction = c.reduction;
    for (uint32_t r = 0; r < made->size(); ++r) seeds.push_back(100 + r % 3);
  }
  const RankSchedule& rank(uint32_t r) const { return *shape.values->ranks[r]; }

  CollectiveShape shape;
  CollectiveJob job;
  std::vector<uint64_t> seeds;
};

/// What a rank ends with, and how often each byte came.
struct Ended {
  std::vector<uint8_t> bytes;
  std::vector<int> times;
};
Ended end_of(const Job& job, ExactValues& values, uint32_t rank, size_t bytes) {
  Ended end{std::vector<uint8_t>(bytes), std::vector<int>(bytes)};
  const RankSchedule& own = job.rank(rank);
  for (uint32_t c = 0; c < own.connections().size(); ++c) {
    if (own.connections()[c].direction != Direction::kReceive) continue;
    for (uint64_t k = 0; k < own.connections()[c].messages; ++k) {
      for (uint32_t i = 0; i < own.result_parts(c, k); ++i) {
        const ValuePart part = own.result_part(c, k, i);
        EXPECT_LE(part.to + part.bytes, bytes);
        if (part.to + part.bytes > bytes) return end;
        values.part(nullptr, 0, rank, part, 0, std::span(end.bytes).subspan(part.to, part.bytes));
        for (uint64_t b = 0; b < part.bytes; ++b) ++end.times[part.to + b];
      }
    }
  }
  return end;
}

/// Elements of all ranks' results that are wrong. `spoiled`: a rank whose contribution the plain
/// collective takes from another seed.
uint64_t wrong(const Case& c, int spoiled = -1) {
  Job job(c);
  if (testing::Test::HasFailure()) return 0;
  ExactValues values(job.job, job.seeds);
  if (spoiled >= 0) ++job.seeds[static_cast<size_t>(spoiled)];
  Operation plain = c.operation;
  // Sums of integers are the same in any order.
  const bool switches = is_nvls(plain.algorithm) || is_collnet(plain.algorithm);
  if (switches) plain.algorithm = Algorithm::kRing;
  const auto right = plain_results(c.communicator, {&plain, 1}, c.reduction, job.seeds);
  uint64_t wrong = 0;
  for (uint32_t r = 0; r < right.size(); ++r) {
    const Ended end = end_of(job, values, r, right[r].bytes.size());
    for (size_t b = 0; b < end.bytes.size(); ++b) {
      if (end.times[b] != (right[r].moved[b] ? 1 : 0)) ++wrong;
      if (right[r].moved[b] && end.bytes[b] != right[r].bytes[b]) ++wrong;
    }
  }
  return wrong;
}

uint64_t draw(std::mt19937_64& random, uint64_t least, uint64_t most) {
  return least + random() % (most - least + 1);
}

Case draw_case(std::mt19937_64& random, K collective, Algorithm algorithm) {
  Case c;
  Operation& o = c.operation;
  o.collective = collective;
  o.algorithm = algorithm;
  o.type = kTypes[random() % std::size(kTypes)];
  c.reduction = kReductions[random() % std::size(kReductions)];
  c.communicator.gpus = algorithm == Algorithm::kPat ? 1 : 1u << draw(random, 0, 2) / 2 * 2;
  c.communicator.nodes = static_cast<uint32_t>(draw(random, 2, c.communicator.gpus == 1 ? 17 : 5));
  c.communicator.channels = static_cast<uint32_t>(draw(random, 1, 4));
  const uint32_t oldest = algorithm == Algorithm::kPat ? 23 : is_p2p(collective) ? 22 : 18;
  c.communicator.version = {static_cast<uint32_t>(draw(random, oldest, 30))};
  // Several loops and chunks of a few elements.
  c.communicator.buffers.simple = 8 * 4096;
  c.communicator.buffers.p2p_chunk = 4096;
  const uint32_t n = c.communicator.ranks();
  if (algorithm != Algorithm::kPat && !is_p2p(collective)) {
    o.protocol = static_cast<Protocol>(random() % 3);
  }
  o.root = static_cast<uint32_t>(random() % n);
  o.count =
      draw(random, 1, uint64_t{1} << draw(random, 0, 13)) / (has_rank_parts(collective) ? 4 : 1) +
      1;
  if (collective == K::kAllToAllV) {
    for (uint32_t i = 0; i < n * n; ++i) {
      o.pair_bytes.push_back(random() % 5 == 0 ? kNoPair : random() % 3000 * element_bytes(o.type));
    }
  }
  return c;
}

struct Kind {
  K collective;
  Algorithm algorithm = Algorithm::kRing;
};
class ExactValuesOf : public testing::TestWithParam<Kind> {};

TEST_P(ExactValuesOf, AreThoseOfThePlainCollective) {
  const auto [collective, algorithm] = GetParam();
  std::mt19937_64 random(77 + static_cast<unsigned>(collective));
  for (int i = 0; i < 60 && !HasFailure(); ++i) {
    const Case c = draw_case(random, collective, algorithm);
    EXPECT_EQ(wrong(c), 0u) << text_of(c);
  }
}

/// Up to 17 ranks on up to 4 channels, whatever was drawn above.
TEST_P(ExactValuesOf, OfAllNumbersOfRanksAndChannels) {
  const auto [collective, algorithm] = GetParam();
  for (uint32_t ranks = 2; ranks <= 17; ++ranks) {
    for (uint32_t channels = 1; channels <= 4; ++channels) {
      Case c;
      c.communicator.nodes = ranks;
      c.communicator.channels = channels;
      // It gives small operations all channels.
      c.communicator.version = {algorithm == Algorithm::kPat ? 23u : 22u};
      c.operation.collective = collective;
      c.operation.algorithm = algorithm;
      c.operation.count = 521;
      c.operation.root = ranks / 2;
      if (collective == K::kAllToAllV) {
        for (uint64_t i = 0; i < uint64_t{ranks} * ranks; ++i) {
          c.operation.pair_bytes.push_back(i % 7 * 404);
        }
      }
      ASSERT_EQ(wrong(c), 0u) << text_of(c);
    }
  }
}

/// The comparison finds one rank's contribution that is another one.
TEST_P(ExactValuesOf, AnotherContributionShows) {
  const auto [collective, algorithm] = GetParam();
  Case c;
  c.communicator.nodes = 5;
  c.operation.collective = collective;
  c.operation.algorithm = algorithm;
  c.operation.count = 100;
  c.operation.root = 3;
  c.operation.pair_bytes.assign(25, 400);
  EXPECT_EQ(wrong(c), 0u);
  EXPECT_GT(wrong(c, collective == K::kGather ? 2 : 3), 50u);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ExactValuesOf,
    testing::Values(Kind{K::kAllReduce}, Kind{K::kAllReduce, Algorithm::kTree}, Kind{K::kAllGather},
                    Kind{K::kAllGather, Algorithm::kPat}, Kind{K::kReduceScatter},
                    Kind{K::kReduceScatter, Algorithm::kPat}, Kind{K::kBroadcast}, Kind{K::kReduce},
                    Kind{K::kSendRecv}, Kind{K::kAllToAll}, Kind{K::kAllToAllV}, Kind{K::kGather},
                    Kind{K::kScatter}),
    [](const auto& info) {
      std::string name(name_of(kCollectiveNames, info.param.collective));
      std::erase(name, '_');
      return name + std::string(name_of(kAlgorithmNames, info.param.algorithm));
    });

/// The switches of one node, and of several with trees between them.
TEST(ExactValues, OfNvls) {
  std::mt19937_64 random(9);
  for (uint32_t nodes = 1; nodes <= 6; ++nodes) {
    for (const uint32_t gpus : {2u, 5u}) {
      for (uint32_t nics = 1; nics <= gpus; nics += 3) {
        Case c;
        c.communicator.nodes = nodes;
        c.communicator.gpus = gpus;
        c.communicator.nics = nics;
        c.communicator.channels = 1 + nodes % 4;
        c.communicator.version = {22u + nodes};
        c.communicator.buffers.simple = 8 * 512;
        c.operation.algorithm = nodes == 1 ? Algorithm::kNvls : Algorithm::kNvlsTree;
        c.operation.type = DataType::kInt32;
        c.operation.count = draw(random, 1, 6'000);
        ASSERT_EQ(wrong(c), 0u) << text_of(c) << ", " << nics << " NICs";
        EXPECT_GT(wrong(c, 1), 0u) << text_of(c);
      }
    }
  }
}

/// Of many ranks trees lie further apart: pieces come to one another in all of the phases.
TEST(ExactValues, OfPatWithManyRanks) {
  for (const K collective : {K::kReduceScatter, K::kAllGather}) {
    for (const uint32_t ranks : {33u, 40u, 64u, 100u, 128u}) {
      Case c;
      c.communicator.nodes = ranks;
      c.communicator.buffers.simple = 8 * 4096;
      c.operation.collective = collective;
      c.operation.algorithm = Algorithm::kPat;
      c.operation.count = 700;
      EXPECT_EQ(wrong(c), 0u) << text_of(c);
    }
  }
}

/// Any piece of a message is that piece of the whole.
TEST(ExactValues, PiecesOfMessages) {
  std::mt19937_64 random(5);
  for (const Kind kind : {Kind{K::kAllReduce, Algorithm::kTree}, Kind{K::kAllGather},
                          Kind{K::kReduceScatter, Algorithm::kPat}}) {
    Case c;
    c.communicator.nodes = 7;
    c.operation.collective = kind.collective;
    c.operation.algorithm = kind.algorithm;
    c.operation.count = 9001;
    const Job job(c);
    ExactValues values(job.job, job.seeds);
    for (uint32_t r = 0; r < 7; ++r) {
      const auto& connections = job.rank(r).connections();
      for (uint32_t i = 0; i < connections.size(); ++i) {
        if (connections[i].direction != Direction::kSend || connections[i].messages == 0) continue;
        const uint32_t bytes = job.rank(r).message(i, 0).data;
        std::vector<uint8_t> whole(bytes);
        values.sent(nullptr, {0, r, i, 0, 0}, whole);
        const auto at = static_cast<uint32_t>(random() % (bytes / 4) * 4);
        std::vector<uint8_t> piece(4 + random() % ((bytes - at) / 4) * 4);
        values.sent(nullptr, {0, r, i, 0, at}, piece);
        EXPECT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + at));
      }
    }
  }
}

}  // namespace
}  // namespace understudy
