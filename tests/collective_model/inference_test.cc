// What is inferred of operations from the stream of a real rank: schedules are played as that
// stream, in orders drawn at random, and what is said is compared with what was played.
#include "collective_model/inference/inference.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/collective_model/inference_rig.h"

namespace understudy {
namespace {

TEST(Inference, WhatItSaysIsNeverWrong) {
  std::map<DeliveryOrder, Played::Counts> all;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    Communicator c = nodes_of(static_cast<uint32_t>(draw(random, 2, 8)),
                              static_cast<uint32_t>(draw(random, 1, 4)), 1,
                              static_cast<uint32_t>(draw(random, 18, 30)));
    if (random() % 5 == 0) c.gpus = static_cast<uint32_t>(draw(random, 2, 3));
    const auto node = static_cast<uint32_t>(random() % c.nodes);
    std::vector<uint32_t> real;
    for (uint32_t g = 0; g < c.gpus; ++g) real.push_back(node * c.gpus + g);
    std::vector<Operation> operations;
    for (uint64_t i = draw(random, 1, 5); i > 0; --i) {
      // What one operation explains is taken for one: a rank that only sends in one and only
      // receives in the next looks like one that does both. So pipelines come among their like
      // here.
      Operation o = draw_operation(random, c);
      while (!operations.empty() &&
             is_pipeline(o.collective) != is_pipeline(operations[0].collective)) {
        o = draw_operation(random, c);
      }
      if (!operations.empty() && is_pipeline(o.collective)) {
        const uint64_t bytes = o.bytes();
        o = operations[0];
        o.count = ceil_div(bytes, element_bytes(o.type));
      }
      operations.push_back(o);
    }
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + describe(c, operations));
    const auto way = static_cast<DeliveryOrder>(seed % 3);
    Played played(c, real, operations, random(), way);
    ASSERT_TRUE(played.play());
    played.check(all[way]);
    if (HasFailure()) return;
  }
  for (const auto& [way, counts] : all) {
    std::printf(
        "%s: of %lu operations the kind of %lu and all of %lu is known, a border of %lu is in "
        "doubt\n",
        way == DeliveryOrder::kAtOnce    ? "at once"
        : way == DeliveryOrder::kInOrder ? "in order"
                                         : "credits first",
        counts.operations, counts.kind, counts.unique, counts.open);
  }
}

/// Plays operations and returns what is said of them.
std::vector<InferredOperation> said(const Communicator& communicator, uint32_t real,
                                    const std::vector<Operation>& operations) {
  Played played(communicator, {real}, operations, 1, DeliveryOrder::kAtOnce);
  EXPECT_TRUE(played.play());
  Played::Counts counts;
  played.check(counts);
  return played.verdicts();
}

/// All-reduces of the recorded runs (docs/nccl J.3) by 2.28: their size is known to the byte.
TEST(Inference, RecordedAllReduces) {
  struct Case {
    uint32_t ranks, channels;
    uint64_t floats;
  };
  for (const Case& c : {Case{4, 1, 25000}, Case{4, 4, 26214400}, Case{8, 2, 3000001},
                        Case{5, 2, 16777216}, Case{4, 3, 16777216}}) {
    const Operation o = operation_of(Collective::kAllReduce, c.floats * 4);
    for (const InferredOperation& v : said(nodes_of(c.ranks, c.channels), 0, {o, o})) {
      ASSERT_FALSE(v.border_open) << text_of(v);
      const auto& candidates = v.candidates;
      const auto found = std::ranges::find_if(candidates, [](const auto& candidate) {
        return candidate.collective == Collective::kAllReduce;
      });
      ASSERT_NE(found, candidates.end()) << text_of(v);
      EXPECT_TRUE(found->bytes == SizeSet(c.floats * 4, c.floats * 4)) << text_of(v);
      EXPECT_EQ(v.channels, c.channels);
    }
  }
}

/// Credits as emulated rank 3 saw them in the run of docs/nccl J.5: LL 18, Simple by two steps 12,
/// LL 18, Simple 12, LL 6, Simple 12 (two operations), Simple by one step 1.
TEST(Inference, RecordedSequenceOfProtocols) {
  const uint64_t count = 98304;
  std::vector<Operation> operations = {
      operation_of(Collective::kAllReduce, count * 4, Algorithm::kRing, Protocol::kLL),
      operation_of(Collective::kAllReduce, count * 8, Algorithm::kRing, Protocol::kSimple,
                   DataType::kFloat64),
      operation_of(Collective::kAllReduce, count * 4, Algorithm::kRing, Protocol::kLL,
                   DataType::kInt32),
      operation_of(Collective::kAllReduce, count * 8, Algorithm::kRing, Protocol::kSimple,
                   DataType::kInt64),
      operation_of(Collective::kAllReduce, count, Algorithm::kRing, Protocol::kLL, DataType::kInt8),
      operation_of(Collective::kAllGather, count * 4),
      operation_of(Collective::kReduceScatter, count * 4),
      operation_of(Collective::kBroadcast, count * 4),
  };
  operations.back().root = 1;
  const auto verdicts = said(nodes_of(4), 0, operations);
  ASSERT_EQ(verdicts.size(), operations.size());
  for (const InferredOperation& v : verdicts) EXPECT_FALSE(v.border_open) << text_of(v);
}

/// What followed an operation before is expected behind it from its first credit on.
TEST(Inference, WhatCameBeforeIsExpectedAgain) {
  const Operation a = operation_of(Collective::kAllReduce, 100000);
  const Operation b = operation_of(Collective::kAllReduce, 5 << 20);
  Inference inference(nodes_of(4), {2});
  uint32_t credits = 0;
  while (!inference.connections()[credits].to_real) ++credits;
  inference.on_credit(credits, nodes_of(4).buffers.simple / 8 * 2);
  const std::vector<Operation> before = {a, b, a};
  const auto taken = inference.current(before);
  ASSERT_TRUE(taken);
  EXPECT_TRUE(taken->expected);
  EXPECT_EQ(taken->operation.count, b.count);
  const auto nothing = inference.current({});
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(nothing->expected);
}

/// The root of a tree waits for its children before it sends anything on that tree's channels; on
/// the other tree's it is a leaf, whose message tells how long the operation is.
TEST(Inference, ATreesRootIsToldByItsOtherTree) {
  const Communicator communicator = nodes_of(4, 2, 1, 28);
  for (const uint64_t bytes : {uint64_t{65536}, uint64_t{98304}, uint64_t{100000}}) {
    Operation o;
    o.algorithm = Algorithm::kTree;
    o.count = bytes / 4;
    const auto cut = cut_group(communicator, {&o, 1});
    ASSERT_TRUE(cut.has_value());
    ASSERT_EQ((*cut)[0].parts.size(), 2u);
    Inference inference(communicator, {0});
    const auto at = [&](uint32_t channel, bool to_real) {
      for (uint32_t c = 0; c < inference.connections().size(); ++c) {
        const BorderConnection& b = inference.connections()[c];
        // Channel 0: rank 2 is our child; channel 1: rank 1 is our parent.
        const uint32_t other = channel == 0 ? 2 : 1;
        if (b.channel == channel && b.to_real == to_real && (b.from == other || b.to == other)) {
          return c;
        }
      }
      ADD_FAILURE() << "no connection on channel " << channel;
      return 0u;
    };
    inference.on_credit(at(0, true), 524288);
    inference.on_credit(at(1, true), 524288);
    inference.on_data(at(1, false), static_cast<uint32_t>((*cut)[0].parts[1].bytes));
    const auto taken = inference.current({});
    ASSERT_TRUE(taken.has_value()) << bytes;
    EXPECT_EQ(taken->operation.algorithm, Algorithm::kTree);
    EXPECT_EQ(taken->operation.protocol, Protocol::kSimple);
    const auto taken_cut = cut_group(communicator, {&taken->operation, 1});
    EXPECT_EQ((*taken_cut)[0].parts[1].bytes, (*cut)[0].parts[1].bytes);
    if (bytes % 16384 != 0) continue;  // equal parts are likelier
    EXPECT_EQ(taken->operation.bytes(), bytes);
  }
}

TEST(Inference, WhatNothingExplainsIsLost) {
  Inference inference(nodes_of(4), {0});
  uint32_t receive = 0;
  while (!inference.connections()[receive].to_real) ++receive;
  inference.on_credit(receive, 12345);
  ASSERT_TRUE(inference.lost());
  EXPECT_NE(inference.lost()->find("a credit of 12345 bytes on channel 0"), std::string::npos)
      << *inference.lost();
}

TEST(Inference, OfFewerChannelsThanThereAre) {
  const Operation small = operation_of(Collective::kAllReduce, 8);
  const Operation larger = operation_of(Collective::kAllReduce, 65536);
  for (const InferredOperation& v :
       said(nodes_of(4, 2), 0, {small, small, larger, larger, small})) {
    EXPECT_FALSE(v.border_open) << text_of(v);
  }
}

}  // namespace
}  // namespace understudy
