// What is inferred of sends and receives, event by event.
#include "collective_model/inference/pair_inference.h"

#include <gtest/gtest.h>

#include "collective_model/inference/belief.h"
#include "collective_model/nccl/chunking.h"
#include "collective_model/nccl/p2p_rounds.h"
#include "collective_model/schedule/p2p.h"

namespace understudy {
namespace {

/// Real rank 0 of 4 nodes with one channel: connection 2 * (f - 1) to rank f, the next one back.
struct Border {
  Border() {
    communicator.nodes = 4;
    std::vector<PairConnection> connections;
    for (uint32_t far = 1; far < 4; ++far) {
      for (const bool to_real : {false, true}) connections.push_back({0, 0, far, to_real});
    }
    inference.emplace(communicator, std::vector<uint32_t>{0}, connections);
  }
  void receive(uint32_t far, uint32_t capacity, unsigned messages = 1) {
    for (unsigned i = 0; i < messages; ++i) inference->on_credit(2 * far - 1, capacity);
  }
  void answer(uint32_t far, unsigned messages = 1) {
    for (unsigned i = 0; i < messages; ++i) inference->on_acknowledged(2 * far - 1);
  }
  void send(uint32_t far, uint32_t bytes) { inference->on_data(2 * far - 2, bytes); }

  Communicator communicator;
  std::optional<PairInference> inference;
};

/// A credit says the size of a message that comes alone.
TEST(PairInference, OneCreditTellsAMessage) {
  Border border;
  border.receive(2, 5000);
  const auto taken = border.inference->current();
  ASSERT_TRUE(taken);
  EXPECT_EQ(pair_bytes(border.communicator, *taken, 2, 0), 5000u);
  EXPECT_FALSE(pair_bytes(border.communicator, *taken, 0, 2));
  EXPECT_FALSE(pair_bytes(border.communicator, *taken, 1, 0));
}

TEST(PairInference, KindsByTheirPeers) {
  Border gather;
  for (uint32_t far = 1; far < 4; ++far) gather.receive(far, 5000);
  EXPECT_EQ(gather.inference->current()->collective, Collective::kGather);
  Border all;
  for (uint32_t far = 1; far < 4; ++far) all.receive(far, 5000);
  all.send(1, 5000);  // the others will follow
  EXPECT_EQ(all.inference->current()->collective, Collective::kAllToAll);
  Border next;
  next.receive(3, 5000);
  next.send(1, 5000);
  EXPECT_EQ(next.inference->current()->collective, Collective::kSendRecv);
}

/// Credits while some are not answered belong to the operation, behind that to the next one.
TEST(PairInference, CreditsTellOperationsApart) {
  Border border;
  border.receive(1, 32768, 2);
  border.answer(1);
  border.receive(1, 32768);
  border.answer(1, 2);
  border.receive(1, 32768);
  border.answer(1);
  border.inference->settle(0);
  border.inference->expect(*border.inference->current(), false);
  PairInference::Found found;
  ASSERT_TRUE(border.inference->next(found));
  ASSERT_TRUE(found.operation);
  EXPECT_EQ(pair_bytes(border.communicator, *found.operation, 1, 0), 3u * 32768);
  EXPECT_FALSE(found.unique);
  border.inference->settle(0);
  ASSERT_TRUE(border.inference->next(found));
  EXPECT_EQ(pair_bytes(border.communicator, *found.operation, 1, 0), 32768u);
  EXPECT_TRUE(found.unique);
  EXPECT_FALSE(border.inference->next(found));
}

/// What it sends may come behind its first credits of the next operation.
TEST(PairInference, SendsMayComeLate) {
  Border border;
  border.receive(3, 5000);
  border.answer(3);
  Operation o;
  o.collective = Collective::kSendRecv;
  o.type = DataType::kInt8;
  o.count = 5000;
  border.inference->expect(o, true);
  border.receive(3, 6000);
  PairInference::Found found;
  EXPECT_FALSE(border.inference->next(found));
  border.send(1, 5000);
  ASSERT_TRUE(border.inference->next(found));
  EXPECT_EQ(found.operation->bytes(), 5000u);
  border.send(1, 6000);
  border.answer(3);
  border.inference->settle(0);
  ASSERT_TRUE(border.inference->next(found));
  EXPECT_EQ(found.operation->bytes(), 6000u);
}

/// Two operations of whole chunks each look like one of twice as many.
TEST(PairInference, SendsOfWholeChunksShowNoBorder) {
  Border border;
  const uint32_t chunk = p2p_cut(border.communicator, 1 << 20, true).chunk;
  border.send(1, chunk);
  border.send(1, chunk);
  border.inference->finish();
  PairInference::Found found;
  ASSERT_TRUE(border.inference->next(found));
  EXPECT_FALSE(found.unique);
  EXPECT_TRUE(found.border_open);
  EXPECT_EQ(Beliefs::judge(found).confidence, 0.5);
  EXPECT_EQ(Beliefs::judge(found).explanations, 2u);
}

/// Of several messages that a rank receives the last one's size is not known.
TEST(PairInference, AnUnknownSizeIsOneOfMany) {
  Border border;
  border.receive(1, 32768, 2);
  border.answer(1, 2);
  border.inference->finish();
  PairInference::Found found;
  ASSERT_TRUE(border.inference->next(found));
  EXPECT_FALSE(found.unique);
  EXPECT_FALSE(found.border_open);
  ASSERT_EQ(found.unknown.size(), 1u);
  EXPECT_EQ(found.unknown[0].least, 32769u);
  EXPECT_EQ(found.unknown[0].most, 65536u);
  const Belief belief = Beliefs::judge(found);
  EXPECT_EQ(belief.explanations, 32768u);
  EXPECT_LT(belief.confidence, 0.01);
  EXPECT_GT(belief.confidence, 1.0 / 32768);
}

TEST(PairInference, WhatNoSendHasIsLost) {
  Border border;
  border.receive(2, 1 << 20);
  ASSERT_TRUE(border.inference->lost());
  EXPECT_EQ(*border.inference->lost(),
            "a credit of 1048576 bytes on channel 0 between rank 0 and rank 2: no send or receive "
            "has so large ones");
}

}  // namespace
}  // namespace understudy
