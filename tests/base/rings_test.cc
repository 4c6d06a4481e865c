// The two rings between threads: order, fullness, wrap, and both ends at once.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "dataplane/base/byte_ring.h"
#include "dataplane/base/fair_rings.h"
#include "dataplane/base/spsc_chain.h"
#include "dataplane/base/spsc_ring.h"
#include "dataplane/base/spsc_slots.h"

namespace understudy {
namespace {

TEST(SpscRing, FullEmptyAndOrder) {
  SpscRing<int> ring(3);  // rounded up to 4
  int v = -1;
  EXPECT_FALSE(ring.pop(v));
  EXPECT_TRUE(ring.empty());
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.push(i));
    EXPECT_FALSE(ring.push(9));
    EXPECT_FALSE(ring.empty());
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(ring.pop(v));
      EXPECT_EQ(v, i);
    }
    EXPECT_FALSE(ring.pop(v));
  }
}

TEST(SpscSlots, WhatStandsInASlotStaysForTheProducer) {
  SpscSlots<int> slots(3);  // rounded up to 4
  EXPECT_EQ(slots.capacity(), 4U);
  EXPECT_EQ(slots.front(), nullptr);
  for (int i = 0; i < 4; ++i) *slots.free_slot(static_cast<size_t>(i)) = i;
  EXPECT_EQ(slots.free_slot(4), nullptr);
  EXPECT_EQ(slots.front(), nullptr) << "filled, not published";
  slots.publish(3);
  EXPECT_EQ(*slots.front(), 0);
  EXPECT_EQ(*slots.front(2), 2);
  EXPECT_EQ(slots.front(3), nullptr);
  EXPECT_EQ(slots.done_with(), 0U);
  EXPECT_EQ(slots.free_slots(), 1U);
  slots.pop(2);
  EXPECT_EQ(slots.free_slots(), 1U) << "as of the last look";
  EXPECT_EQ(slots.done_with(), 2U);
  EXPECT_EQ(slots.free_slots(), 3U);
  EXPECT_EQ(slots.filled(1), 1);
  EXPECT_EQ(*slots.front(), 2);
  EXPECT_NE(slots.free_slot(2), nullptr);
  EXPECT_EQ(slots.free_slot(3), nullptr);
}

TEST(SpscSlots, TwoThreads) {
  constexpr uint64_t kCount = 200'000;
  SpscSlots<uint64_t> slots(64);
  std::thread producer([&] {
    for (uint64_t i = 0; i < kCount;) {
      uint64_t* slot = slots.free_slot();
      if (slot == nullptr) {
        std::this_thread::yield();
        continue;
      }
      *slot = i++;
      slots.publish();
    }
  });
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < kCount;) {
    size_t n = 0;
    for (; n < 8; ++n) {
      const uint64_t* slot = slots.front(n);
      if (slot == nullptr) break;
      wrong += *slot == i++ ? 0 : 1;
    }
    slots.pop(n);
    if (n == 0) std::this_thread::yield();
  }
  producer.join();
  EXPECT_EQ(wrong, 0U);
}

TEST(SpscRing, TwoThreads) {
  SpscRing<uint64_t> ring(64);
  constexpr uint64_t kCount = 200'000;
  std::thread producer([&] {
    for (uint64_t i = 0; i < kCount;) {
      if (ring.push(i)) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  uint64_t expected = 0;
  for (uint64_t v; expected < kCount;) {
    if (!ring.pop(v)) {
      std::this_thread::yield();
    } else if (v != expected++) {
      ADD_FAILURE() << v;
      break;
    }
  }
  producer.join();
}

TEST(SpscChain, HasTheRoomThatItIsGiven) {
  SpscChain<int> chain;
  int v = -1, in = 0, out = 0;
  EXPECT_FALSE(chain.pop(v));
  EXPECT_TRUE(chain.empty());
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    for (uint64_t n = random() % 100; n > 0; --n) {
      chain.make_room();
      chain.push(in++);
    }
    ASSERT_EQ(chain.size(), static_cast<size_t>(in - out));
    int expected = out;
    chain.look(chain.size(), [&](int seen) { EXPECT_EQ(seen, expected++); });
    EXPECT_EQ(expected, in);
    for (uint64_t n = random() % 100; n > 0 && out < in; --n) {
      ASSERT_TRUE(chain.pop(v));
      EXPECT_EQ(v, out++);
    }
  }
  while (chain.pop(v)) EXPECT_EQ(v, out++);
  EXPECT_EQ(out, in);
}

/// Questions go one way, in room that their sender gives; answers come back, in room that the same
/// one has given with each question.
TEST(SpscChain, TwoThreadsOfWhichOneGivesTheRoom) {
  SpscChain<uint64_t> questions, answers;
  constexpr uint64_t kCount = 200'000;
  std::thread other([&] {
    uint64_t v;
    for (uint64_t n = 0; n < kCount;) {
      if (!questions.pop(v)) {
        std::this_thread::yield();
        continue;
      }
      answers.push(v * 3);
      ++n;
    }
  });
  uint64_t expected = 0, v;
  const auto listen = [&] {
    while (answers.pop(v)) {
      if (v != expected * 3) ADD_FAILURE() << v;
      ++expected;
    }
  };
  for (uint64_t i = 0; i < kCount; ++i) {
    answers.make_room();
    questions.make_room();
    questions.push(i);
    if (i % 7 == 0) listen();
  }
  while (expected < kCount) {
    listen();
    std::this_thread::yield();
  }
  other.join();
}

void put(ByteRing& ring, uint32_t bytes, uint8_t value) {
  uint8_t* at = ring.reserve(bytes);
  ASSERT_NE(at, nullptr);
  std::memset(at, value, bytes);
  ring.commit(bytes);
}

TEST(ByteRing, RecordsOfAnySizeComeBackInOrder) {
  std::mt19937_64 random(3);
  ByteRing ring(4096);
  std::vector<std::vector<uint8_t>> inside;
  size_t read = 0;
  for (int round = 0; round < 20'000; ++round) {
    const auto bytes = static_cast<uint32_t>(random() % 5 == 0 ? random() % 2000 : random() % 100);
    if (uint8_t* at = random() % 2 != 0 ? ring.reserve(bytes) : nullptr) {
      const auto used = static_cast<uint32_t>(random() % (bytes + 1));  // commits less
      std::vector<uint8_t> record(used);
      for (uint8_t& b : record) b = static_cast<uint8_t>(random());
      if (used != 0) std::memcpy(at, record.data(), used);
      ring.commit(used);
      inside.push_back(record);
    } else if (read < inside.size()) {
      const auto front = ring.front();
      ASSERT_NE(front.data(), nullptr);
      ASSERT_EQ(std::vector<uint8_t>(front.begin(), front.end()), inside[read++]);
      ring.pop();
    }
    ASSERT_EQ(ring.front().data() == nullptr, read == inside.size());
  }
  EXPECT_GT(read, 3000u);
}

TEST(ByteRing, FullUntilPopped) {
  ByteRing ring(256);
  for (int i = 0; i < 4; ++i) put(ring, 56, static_cast<uint8_t>(i));  // 8 bytes of length each
  EXPECT_EQ(ring.reserve(1), nullptr);
  EXPECT_EQ(ring.front()[0], 0);
  ring.pop();
  put(ring, 56, 9);
  EXPECT_EQ(ring.reserve(1), nullptr);
}

TEST(ByteRing, HalfItsSizeAlwaysFitsOnceEmpty) {
  ByteRing ring(1024);
  for (uint32_t lead = 0; lead <= 504; lead += 8) {
    put(ring, lead, 1);
    ring.pop();
    put(ring, 504, 2);  // with its header: half the ring
    ASSERT_EQ(ring.front().size(), 504u);
    ring.pop();
  }
}

TEST(FairRings, EachHasItsTurnAndItsRoom) {
  FairRings rings(3, 1 << 18);
  const auto put = [&](uint32_t ring, uint8_t value) {
    uint8_t* const at = rings[ring].reserve(1);
    if (at == nullptr) return false;
    *at = value;
    rings[ring].commit(1);
    return true;
  };
  EXPECT_TRUE(rings.empty());
  EXPECT_EQ(rings.front().data(), nullptr);
  while (put(0, 10)) {
  }
  EXPECT_TRUE(put(2, 20));
  EXPECT_TRUE(put(2, 21));
  std::vector<uint8_t> taken;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(rings.front().data(), rings.front().data());
    taken.push_back(rings.front()[0]);
    rings.pop();
  }
  EXPECT_EQ(taken, (std::vector<uint8_t>{10, 20, 10, 21, 10}));
  EXPECT_FALSE(rings.empty());
}

}  // namespace
}  // namespace understudy
