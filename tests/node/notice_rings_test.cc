// Notices of real nodes at ports of their own, and of endpoints, to one control.
#include "dataplane/node/notice_rings.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace understudy {
namespace {

Notice of(Qpn qpn) {
  Notice notice;
  notice.qpn = qpn;
  return notice;
}

/// Queue pairs of all that is there.
std::vector<Qpn> taken(NoticeRings& rings, size_t most = 1 << 20) {
  std::vector<Qpn> out;
  while (out.size() < most &&
         rings.take([&](const Notice& n, std::span<const uint8_t>) { out.push_back(n.qpn); })) {
  }
  return out;
}

TEST(NoticeRings, TheOldestIsTheFirst) {
  NoticeRings rings(3);
  EXPECT_TRUE(taken(rings).empty());
  rings.tell_from(2, of(1), {});
  rings.tell(of(2), {});
  rings.tell_from(0, of(3), {});
  rings.tell_from(2, of(4), {});
  EXPECT_EQ(taken(rings, 1), (std::vector<Qpn>{1}));
  rings.tell_from(1, of(5), {});
  EXPECT_FALSE(rings.empty());
  EXPECT_EQ(taken(rings), (std::vector<Qpn>{2, 3, 4, 5}));
  EXPECT_TRUE(rings.empty());
}

TEST(NoticeRings, BytesFollow) {
  NoticeRings rings(1);
  const std::vector<uint8_t> bytes{1, 2, 3};
  rings.tell_from(0, of(7), bytes);
  EXPECT_TRUE(rings.take([&](const Notice& n, std::span<const uint8_t> b) {
    EXPECT_EQ(n.qpn, 7u);
    EXPECT_EQ(std::vector<uint8_t>(b.begin(), b.end()), bytes);
  }));
}

TEST(NoticeRings, AFloodTakesNoRoomFromOthers) {
  NoticeRings rings(2);
  const std::vector<uint8_t> mad(256);
  size_t flooded = 0;
  while (rings.tell_from(0, of(1), mad)) ASSERT_LT(++flooded, size_t{1} << 20);
  EXPECT_GT(flooded, 1000u);
  EXPECT_TRUE(rings.tell_from(1, of(2), mad));
  EXPECT_TRUE(rings.tell(of(3), {}));
  EXPECT_FALSE(rings.tell_from(0, of(1), mad));
  const std::vector<Qpn> all = taken(rings);
  EXPECT_EQ(all.size(), flooded + 2);
  EXPECT_EQ(all[flooded], 2u);
  EXPECT_TRUE(rings.tell_from(0, of(1), mad)) << "there is room again";
}

/// Two notices at a time come to empty rings that control looks at, the older one to the ring that
/// it looks at first.
TEST(NoticeRings, TheOrderIsTheShardsWhileItGoesOn) {
  constexpr Qpn kAll = 4000;
  NoticeRings rings(3);
  std::atomic<Qpn> heard = 0;
  std::thread shard([&] {
    for (Qpn qpn = 1; qpn < kAll; qpn += 2) {
      rings.tell(of(qpn), {});
      rings.tell_from(2, of(qpn + 1), {});
      while (heard.load() < qpn + 1) std::this_thread::yield();
    }
  });
  size_t wrong = 0;
  while (heard.load() < kAll) {
    rings.take([&](const Notice& n, std::span<const uint8_t>) {
      wrong += n.qpn == heard.load() + 1 ? 0 : 1;
      ++heard;
    });
  }
  shard.join();
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace understudy
