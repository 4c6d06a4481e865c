// A guest's memory and its rings: everything in them is the guest's word.
#include <gtest/gtest.h>

#include <limits>

#include "dataplane/virtual_time/guest_queue.h"
#include "tests/virtual_time/guest_memory.h"

namespace understudy {
namespace {

constexpr size_t kBytes = 64 << 10;
constexpr uint64_t kBuffers = 16 << 10;  ///< offset; before it are rings
constexpr uint16_t kEntries = 8;

constexpr uint64_t guest(uint64_t offset) { return GuestFile::kGuest + offset; }

class Queue : public testing::Test {
 protected:
  Queue() {
    EXPECT_TRUE(memory.add(file.fd(), 0, GuestFile::kGuest, GuestFile::kUser, kBytes));
    EXPECT_TRUE(join(queue, ring));
  }
  bool join(GuestQueue& to, const GuestRing& from) {
    if (!to.set_size(from.entries()) ||
        !to.set_rings(memory, from.descriptors(), from.used(), from.available())) {
      return false;
    }
    to.enable(true);
    return true;
  }
  /// The only chain on offer is broken: it is taken, without parts.
  void expect_broken() {
    GuestQueue::Chain chain;
    ASSERT_TRUE(queue.take(memory, chain));
    EXPECT_TRUE(chain.parts.empty());
    EXPECT_EQ(chain.bytes, 0u);
    EXPECT_FALSE(queue.take(memory, chain));
  }

  GuestFile file{kBytes};
  GuestMemory memory;
  GuestRing ring{file, 0, kEntries};
  GuestQueue queue;
};

TEST_F(Queue, HandsChainsOutInOrderAndTakesThemBack) {
  ring.describe(2, guest(kBuffers), 12, GuestRing::kNext, 5);
  ring.describe(5, guest(kBuffers + 100), 30, GuestRing::kNext, 0);
  ring.describe(0, guest(kBuffers + 200), 1);
  ring.describe(7, guest(kBuffers + 300), 64);
  ring.offer(2);
  ring.offer(7);
  EXPECT_EQ(queue.offered(), 2);

  GuestQueue::Chain chain;
  ASSERT_TRUE(queue.peek(memory, 1, chain));
  EXPECT_EQ(chain.head, 7);
  EXPECT_EQ(queue.offered(), 2) << "looking takes nothing";
  ASSERT_TRUE(queue.take(memory, chain));
  EXPECT_EQ(chain.head, 2);
  EXPECT_EQ(chain.bytes, 43u);
  ASSERT_EQ(chain.parts.size(), 3u);
  file.put<uint8_t>(kBuffers + 129, 77);
  EXPECT_EQ(chain.parts[1].size(), 30u);
  EXPECT_EQ(chain.parts[1][29], 77) << "it is the guest's own memory";

  ASSERT_TRUE(queue.take(memory, chain));
  EXPECT_FALSE(queue.take(memory, chain));
  queue.give_back(7, 64);
  queue.give_back(2, 43);
  EXPECT_EQ(ring.take_used(), (std::vector<GuestRing::Used>{{7, 64}, {2, 43}}));
}

TEST_F(Queue, IndicesWrapWithTheRingAndWithSixteenBits) {
  GuestRing late(file, 4096, kEntries, 65530);
  GuestQueue wrapped;
  ASSERT_TRUE(join(wrapped, late));
  wrapped.set_base(65530);
  for (uint16_t i = 0; i < kEntries; ++i) {
    late.describe(i, guest(kBuffers + uint64_t{i} * 64), 64);
  }
  for (uint16_t round = 0; round < 20; ++round) {
    const auto head = static_cast<uint16_t>(round % kEntries);
    late.offer(head);
    ASSERT_EQ(wrapped.offered(), 1);
    GuestQueue::Chain chain;
    ASSERT_TRUE(wrapped.take(memory, chain));
    EXPECT_EQ(chain.head, head);
    EXPECT_EQ(wrapped.offered(), 0);
    wrapped.give_back(head, round);
    ASSERT_EQ(late.take_used(), (std::vector<GuestRing::Used>{{head, round}}));
  }
  EXPECT_EQ(wrapped.base(), 14);
}

TEST_F(Queue, AllEntriesMayBeOnOfferAndNoMore) {
  for (uint16_t i = 0; i < kEntries; ++i) {
    ring.describe(i, guest(kBuffers), 16);
    ring.offer(i);
  }
  GuestQueue::Chain chain;
  EXPECT_TRUE(queue.peek(memory, kEntries - 1, chain));
  EXPECT_EQ(chain.head, kEntries - 1);
  EXPECT_FALSE(queue.peek(memory, kEntries, chain));
  ring.set_offered(kEntries + 1);
  EXPECT_FALSE(queue.take(memory, chain)) << "more than the ring has";
}

TEST_F(Queue, ChainsThatLeaveTheMemoryAreBroken) {
  for (const auto& [address, bytes] : std::vector<std::pair<uint64_t, uint32_t>>{
           {guest(kBytes), 1},
           {guest(kBytes - 1), 2},
           {GuestFile::kGuest - 1, 2},
           {0, 1},
           {std::numeric_limits<uint64_t>::max(), 2},
           {guest(0), std::numeric_limits<uint32_t>::max()}}) {
    SCOPED_TRACE(address);
    ring.describe(0, guest(kBuffers), 64, GuestRing::kNext, 1);
    ring.describe(1, address, bytes);
    ring.offer(0);
    expect_broken();
  }
}

TEST_F(Queue, ChainsInALoopAreBroken) {
  ring.describe(0, guest(kBuffers), 64, GuestRing::kNext, 1);
  ring.describe(1, guest(kBuffers), 64, GuestRing::kNext, 0);
  ring.offer(0);
  expect_broken();
}

TEST_F(Queue, IndicesOutsideTheRingAreBroken) {
  ring.offer(kEntries);
  expect_broken();
  ring.describe(0, guest(kBuffers), 64, GuestRing::kNext, kEntries);
  ring.offer(0);
  expect_broken();
}

TEST_F(Queue, IndirectChainsWereNotAgreedOn) {
  ring.describe(0, guest(kBuffers), 32, GuestRing::kIndirect);
  ring.offer(0);
  expect_broken();
}

/// 2^32 bytes and four: a sum of 32 bits would say 4.
TEST_F(Queue, LengthsOfAChainDoNotWrap) {
  constexpr uint64_t kHuge = uint64_t{1} << 31;
  GuestFile large(kHuge);
  ASSERT_TRUE(memory.add(large.fd(), 0, kHuge, kHuge, kHuge));
  ring.describe(0, kHuge, kHuge, GuestRing::kNext, 1);
  ring.describe(1, kHuge, kHuge, GuestRing::kNext, 2);
  ring.describe(2, kHuge, 4);
  ring.offer(0);
  GuestQueue::Chain chain;
  ASSERT_TRUE(queue.take(memory, chain));
  EXPECT_EQ(chain.parts.size(), 3u);
  EXPECT_EQ(chain.bytes, 2 * kHuge + 4);
}

TEST_F(Queue, SizesAreVirtios) {
  GuestQueue fresh;
  for (const uint32_t size : {0u, 3u, 65536u, 1u << 31, 65535u}) EXPECT_FALSE(fresh.set_size(size));
  for (const uint32_t size : {1u, 2u, 256u, 32768u}) EXPECT_TRUE(fresh.set_size(size));
}

TEST_F(Queue, RingsHaveToBeInTheMemory) {
  GuestQueue fresh;
  EXPECT_FALSE(fresh.set_rings(memory, ring.descriptors(), ring.used(), ring.available()))
      << "without a size";
  ASSERT_TRUE(fresh.set_size(kEntries));
  const uint64_t end = GuestFile::kUser + kBytes;
  EXPECT_FALSE(fresh.set_rings(memory, end - 64, ring.used(), ring.available()));
  EXPECT_FALSE(fresh.set_rings(memory, ring.descriptors(), end - 32, ring.available()));
  EXPECT_FALSE(fresh.set_rings(memory, ring.descriptors(), ring.used(), end - 8));
  EXPECT_FALSE(fresh.set_rings(memory, ring.descriptors() + 8, ring.used(), ring.available()));
  EXPECT_FALSE(fresh.set_rings(memory, ring.descriptors(), ring.used() + 2, ring.available()));
  EXPECT_FALSE(fresh.set_rings(memory, ring.descriptors(), ring.used(), ring.available() + 1));
  EXPECT_TRUE(fresh.set_rings(memory, end - 128, ring.used(), ring.available()));
}

/// Addresses of rings may be aligned where the memory behind them is not.
TEST_F(Queue, RingsAreAlignedInOurMemoryToo) {
  GuestMemory odd;
  ASSERT_TRUE(odd.add(file.fd(), 8, GuestFile::kGuest, GuestFile::kUser, kBytes - 8));
  GuestQueue fresh;
  ASSERT_TRUE(fresh.set_size(kEntries));
  EXPECT_FALSE(fresh.set_rings(odd, ring.descriptors(), ring.used(), ring.available()));
}

TEST_F(Queue, AnotherSizeNeedsOtherRings) {
  ring.describe(0, guest(kBuffers), 64);
  ring.offer(0);
  ASSERT_TRUE(queue.set_size(32768));
  GuestQueue::Chain chain;
  EXPECT_FALSE(queue.take(memory, chain));
  queue.give_back(0, 0);
  EXPECT_TRUE(ring.take_used().empty());
}

TEST_F(Queue, NothingComesOfAQueueThatIsOff) {
  ring.describe(0, guest(kBuffers), 64);
  ring.offer(0);
  EXPECT_TRUE(queue.wants_interrupt());
  queue.enable(false);
  GuestQueue::Chain chain;
  EXPECT_FALSE(queue.take(memory, chain));
  EXPECT_FALSE(queue.wants_interrupt());
  queue.enable(true);
  EXPECT_TRUE(queue.take(memory, chain));
  queue.reset();
  EXPECT_FALSE(queue.ready());
  queue.give_back(0, 0);  // of a chain that it had before
  EXPECT_TRUE(ring.take_used().empty());
}

TEST_F(Queue, TheGuestMayWantNoInterrupts) {
  ring.no_interrupts(true);
  EXPECT_FALSE(queue.wants_interrupt());
  ring.no_interrupts(false);
  EXPECT_TRUE(queue.wants_interrupt());
}

TEST(Memory, HasRegionsAndNothingElse) {
  GuestFile file(kBytes);
  GuestMemory memory;
  EXPECT_TRUE(memory.add(file.fd(), 4096, 0x10000, 0x20000, 8192));
  EXPECT_TRUE(memory.add(file.fd(), 0, 0x12000, 0x90000, 4096));
  file.put<uint8_t>(4096 + 5, 42);
  ASSERT_NE(memory.at(0x10005, 1), nullptr);
  EXPECT_EQ(*memory.at(0x10005, 1), 42);
  EXPECT_EQ(memory.at_user(0x20005, 1), memory.at(0x10005, 1));
  EXPECT_EQ(memory.at(0x20005, 1), nullptr);
  EXPECT_EQ(memory.at(0x11fff, 2), nullptr) << "two regions beside each other are two";
  EXPECT_NE(memory.at(0x12000, 4096), nullptr);
  memory.clear();
  EXPECT_EQ(memory.at(0x10005, 1), nullptr);
}

TEST(Memory, IsNotLargerThanItsFile) {
  GuestFile file(kBytes);
  GuestMemory memory;
  EXPECT_FALSE(memory.add(file.fd(), 0, 0, 0, kBytes + 1));
  EXPECT_FALSE(memory.add(file.fd(), 4096, 0, 0, kBytes));
  EXPECT_FALSE(memory.add(file.fd(), 0, 0, 0, 0));
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  EXPECT_FALSE(memory.add(file.fd(), kMost, 0, 0, 4096)) << "the sum wraps";
  EXPECT_FALSE(memory.add(file.fd(), 0, kMost - 10, 0, 4096)) << "so do its addresses";
  EXPECT_FALSE(memory.add(file.fd(), 0, 0, kMost - 10, 4096));
  EXPECT_FALSE(memory.add(-1, 0, 0, 0, 4096));
  EXPECT_TRUE(memory.add(file.fd(), 4096, 0, 0, kBytes - 4096));
}

}  // namespace
}  // namespace understudy
