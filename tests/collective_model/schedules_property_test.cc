// Laws of every schedule, over random communicators and operations: what is sent is received, what
// is carried is what the collective needs, and nothing waits for itself.
#include <gtest/gtest.h>

#include <random>

#include "tests/collective_model/walk.h"

namespace understudy {
namespace {

constexpr DataType kTypes[] = {DataType::kInt8, DataType::kFloat16, DataType::kFloat32,
                               DataType::kFloat64};
constexpr Protocol kProtocols[] = {Protocol::kSimple, Protocol::kLL, Protocol::kLL128};

uint64_t draw(std::mt19937_64& random, uint64_t least, uint64_t most) {
  return least + random() % (most - least + 1);
}

/// Small sizes and large ones alike.
uint64_t draw_count(std::mt19937_64& random, uint64_t most) {
  return draw(random, 1,
              uint64_t{1} << draw(random, 0, 63 - static_cast<uint64_t>(__builtin_clzll(most))));
}

struct Case {
  Communicator communicator;
  Operation operation;
};

Case draw_case(std::mt19937_64& random, Collective collective) {
  Case c;
  c.communicator =
      nodes_of(static_cast<uint32_t>(draw(random, 2, 12)),
               static_cast<uint32_t>(draw(random, 1, 8)), static_cast<uint32_t>(draw(random, 1, 8)),
               static_cast<uint32_t>(draw(random, is_p2p(collective) ? 22 : 18, 30)));
  if (random() % 4 == 0) c.communicator.nodes = static_cast<uint32_t>(draw(random, 13, 64));
  if (c.communicator.ranks() > 64) c.communicator.gpus = 1;
  Operation& o = c.operation;
  o.collective = collective;
  o.type = kTypes[random() % 4];
  if (!is_p2p(collective)) o.protocol = kProtocols[random() % 3];
  const uint64_t ranks = c.communicator.ranks();
  o.count = draw_count(random, (uint64_t{1} << 23) / ranks / (o.protocol == Protocol::kLL ? 8 : 1));
  o.root = static_cast<uint32_t>(random() % ranks);
  return c;
}

std::string describe(const Case& c) {
  return std::string(name_of(kCollectiveNames, c.operation.collective)) + " of " +
         std::to_string(c.operation.bytes()) + " B by " +
         std::string(name_of(kAlgorithmNames, c.operation.algorithm)) + " " +
         std::string(name_of(kProtocolNames, c.operation.protocol)) + ", " +
         std::to_string(c.communicator.nodes) + " x " + std::to_string(c.communicator.gpus) +
         " ranks, " + std::to_string(c.communicator.channels) + " channels, 2." +
         std::to_string(c.communicator.version.minor);
}

/// Bytes that all ranks together send, by the collective's law; PAT's gaps come on top.
uint64_t law(const Case& c) {
  const uint64_t n = c.communicator.ranks(), bytes = c.operation.bytes();
  switch (c.operation.collective) {
    case Collective::kAllReduce:
      return 2 * (n - 1) * bytes;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return n * (n - 1) * bytes;
    case Collective::kSendRecv:
      return n * bytes;
    default:
      return (n - 1) * bytes;  // broadcast, reduce, gather, scatter
  }
}

void expect_laws(const Case& c, bool gaps = false) {
  SCOPED_TRACE(describe(c));
  const Walk walk(c.communicator, c.operation);
  if (::testing::Test::HasFailure()) return;
  walk.expect_matching();
  walk.expect_completes();
  uint64_t sum = 0;
  for (uint32_t r = 0; r < c.communicator.ranks(); ++r) sum += walk.data(r, Direction::kSend);
  if (gaps) {
    EXPECT_GE(sum, law(c));
  } else {
    EXPECT_EQ(sum, law(c));
  }
}

class Laws : public ::testing::TestWithParam<Collective> {};

TEST_P(Laws, OfRingsAndPairs) {
  std::mt19937_64 random(1000 + static_cast<unsigned>(GetParam()));
  for (int i = 0; i < 60 && !HasFailure(); ++i) expect_laws(draw_case(random, GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Collectives, Laws,
                         ::testing::Values(Collective::kAllReduce, Collective::kAllGather,
                                           Collective::kReduceScatter, Collective::kBroadcast,
                                           Collective::kReduce, Collective::kSendRecv,
                                           Collective::kAllToAll, Collective::kGather,
                                           Collective::kScatter),
                         [](const auto& info) {
                           std::string name(name_of(kCollectiveNames, info.param));
                           std::erase(name, '_');
                           return name;
                         });

TEST(Laws, OfTrees) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100 && !::testing::Test::HasFailure(); ++i) {
    Case c = draw_case(random, Collective::kAllReduce);
    c.operation.algorithm = Algorithm::kTree;
    expect_laws(c);
  }
}

TEST(Laws, OfPat) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100 && !::testing::Test::HasFailure(); ++i) {
    const bool gather = random() % 2 == 0;
    Case c = draw_case(random, gather ? Collective::kAllGather : Collective::kReduceScatter);
    c.communicator.gpus = 1;
    c.communicator.version = {static_cast<uint32_t>(draw(random, 23, 30))};
    c.operation.root = 0;
    c.operation.algorithm = Algorithm::kPat;
    c.operation.protocol = Protocol::kSimple;
    expect_laws(c, !gather && c.communicator.version >= NcclVersion{26});
  }
}

TEST(Laws, OfAllToAllV) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 40 && !::testing::Test::HasFailure(); ++i) {
    Case c = draw_case(random, Collective::kAllToAllV);
    const uint32_t n = c.communicator.ranks();
    uint64_t sum = 0;
    for (uint32_t from = 0; from < n; ++from) {
      for (uint32_t to = 0; to < n; ++to) {
        const uint64_t bytes =
            random() % 3 == 0 ? 0 : draw_count(random, 1 << 20) * element_bytes(c.operation.type);
        c.operation.pair_bytes.push_back(bytes);
        if (from != to) sum += bytes;
      }
    }
    SCOPED_TRACE(describe(c));
    const Walk walk(c.communicator, c.operation);
    walk.expect_matching();
    walk.expect_completes();
    uint64_t sent = 0;
    for (uint32_t r = 0; r < n; ++r) sent += walk.data(r, Direction::kSend);
    EXPECT_EQ(sent, sum);
  }
}

// Rings and trees for every number of ranks, in all three rules of cutting.
TEST(Laws, OfEveryNumberOfRanks) {
  for (uint32_t n = 2; n <= 64; ++n) {
    for (const uint32_t version : {18u, 21u, 28u}) {
      for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kTree}) {
        Case c;
        c.communicator = nodes_of(n, 2, 1, version);
        c.operation = operation_of(Collective::kAllReduce, 3000004, algorithm);
        expect_laws(c);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

// Operations of a group follow each other on the channels and leave out no byte.
TEST(Laws, OfGroups) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 300; ++i) {
    Communicator c = nodes_of(static_cast<uint32_t>(draw(random, 2, 32)),
                              static_cast<uint32_t>(draw(random, 1, 16)), 1,
                              static_cast<uint32_t>(draw(random, 20, 30)));
    std::vector<Operation> operations;
    for (uint64_t k = draw(random, 1, 6); k > 0; --k) {
      Operation o = operation_of(Collective::kAllReduce, 4 * draw_count(random, 1 << 24));
      if (random() % 3 == 0) o.channels = static_cast<uint32_t>(draw(random, 1, c.channels));
      operations.push_back(o);
    }
    const auto cuts = cut_group(c, operations);
    ASSERT_TRUE(cuts);
    for (size_t k = 0; k < operations.size(); ++k) {
      const OperationCut& cut = (*cuts)[k];
      ASSERT_LE(cut.first_channel + cut.parts.size(), c.channels);
      uint64_t end = 0;
      for (const ChannelPart& part : cut.parts) {
        ASSERT_EQ(part.offset, end);
        ASSERT_GT(part.bytes, 0u);
        end += part.bytes;
      }
      ASSERT_EQ(end, operations[k].bytes());
    }
  }
}

TEST(Errors, NameWhatIsWrong) {
  const auto why = [](const Communicator& c, const Operation& o) {
    const auto checked = check_operation(c, o);
    return checked ? std::string() : checked.error().text;
  };
  const auto with = [](Collective collective, Algorithm algorithm,
                       Protocol protocol = Protocol::kSimple) {
    return operation_of(collective, 4096, algorithm, protocol);
  };
  EXPECT_EQ(why(nodes_of(1), with(Collective::kAllReduce, Algorithm::kRing)),
            "ranks: 1: at least two");
  EXPECT_EQ(why(nodes_of(2, 65), with(Collective::kAllReduce, Algorithm::kRing)),
            "channels: 65: 1 to 64");
  EXPECT_EQ(why(nodes_of(4), operation_of(Collective::kAllReduce, 0)),
            "count: 0: NCCL does nothing then");
  EXPECT_EQ(why(nodes_of(4), with(Collective::kBroadcast, Algorithm::kTree)),
            "algorithm: tree: NCCL has it for all_reduce only, not for broadcast");
  EXPECT_EQ(why(nodes_of(4), with(Collective::kAllReduce, Algorithm::kPat)),
            "algorithm: pat: NCCL has it for all_gather and reduce_scatter only, not for "
            "all_reduce");
  EXPECT_EQ(why(nodes_of(4), with(Collective::kAllGather, Algorithm::kPat, Protocol::kLL)),
            "protocol: ll: pat goes by simple only");
  EXPECT_EQ(why(nodes_of(4, 1, 2), with(Collective::kAllGather, Algorithm::kPat)),
            "gpus: 2: pat needs one rank a node");
  EXPECT_EQ(why(nodes_of(4, 1, 1, 22), with(Collective::kAllGather, Algorithm::kPat)),
            "nccl: 2.22: pat came with 2.23");
  EXPECT_EQ(why(nodes_of(4, 1, 1, 21), with(Collective::kAllToAll, Algorithm::kRing)),
            "nccl: 2.21: all_to_all is known from 2.22 on");
  Operation rooted = with(Collective::kBroadcast, Algorithm::kRing);
  rooted.root = 4;
  EXPECT_EQ(why(nodes_of(4), rooted), "root: 4 of 4 ranks");
  Communicator orders = nodes_of(4, 1, 2);
  orders.orders = {{0, 0}};
  EXPECT_EQ(why(orders, with(Collective::kAllReduce, Algorithm::kRing)),
            "orders: every GPU of a node stands once in a channel's order");
  Operation pairs = with(Collective::kAllToAllV, Algorithm::kRing);
  pairs.pair_bytes = times(3, 4);
  EXPECT_EQ(why(nodes_of(2), pairs), "pair_bytes: 3 for 2 ranks");
  pairs.pair_bytes = times(4, 6);
  EXPECT_EQ(why(nodes_of(2), pairs), "pair_bytes: 6: no multiple of the type's 4 bytes");
}

}  // namespace
}  // namespace understudy
