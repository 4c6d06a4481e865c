// DCTCP by hand: alpha, one cut a window, one step a window.
#include "dataplane/cc/dctcp.h"

#include <gtest/gtest.h>

#include "tests/cc/acks.h"

namespace understudy {
namespace {

const SenderPath kPath = {gbps(10), Duration::us(8), 1000};

DctcpParameters paper() {
  return std::get<DctcpParameters>(*find_control_preset("dctcp", "paper"));
}

// rules: A7.1
TEST(Dctcp, HalvesAtTheFirstMarkThenFollowsTheShare) {
  Dctcp law(paper(), kPath);
  Acks acks;
  EXPECT_EQ(law.window(), 10'000u);  // 10 Gbit/s times 8 us
  // The first acknowledgement begins a window of 4 packets that ends with the fifth after it.
  law.on_ack(acks.next(4));
  EXPECT_EQ(law.rate(), gbps(10));
  law.on_ack(acks.next(4, true));
  EXPECT_EQ(law.rate(), gbps(5));
  EXPECT_EQ(law.window(), 5'000u);
  law.on_ack(acks.next(4, true));  // no second cut in this window
  law.on_ack(acks.next(4));
  law.on_ack(acks.next(4));
  EXPECT_EQ(law.rate(), gbps(5));
  EXPECT_EQ(law.alpha(), 1.0);
  // The sixth passes the window: two of six were marked. The cut's window (to the sixth) lasts.
  law.on_ack(acks.next(4));
  const double alpha = 15. / 16 + 1. / 16 * 2 / 6;
  EXPECT_DOUBLE_EQ(law.alpha(), alpha);
  EXPECT_EQ(law.rate(), gbps(5));
  for (int i = 0; i < 4; ++i) law.on_ack(acks.next(4));
  EXPECT_EQ(law.rate(), gbps(5));
  // The next window has no cut: one packet of 1000 bytes per 8 us, 1 Gbit/s.
  law.on_ack(acks.next(4));
  EXPECT_EQ(law.rate(), gbps(6));
  EXPECT_DOUBLE_EQ(law.alpha(), alpha * 15 / 16);
  EXPECT_EQ(law.window(), 6'000u);
  // A mark now cuts by the present alpha.
  law.on_ack(acks.next(4, true));
  EXPECT_EQ(law.rate().bps(), static_cast<uint64_t>(6e9 * (1 - alpha * 15 / 16 / 2)));
}

TEST(Dctcp, AMarkThatPassesAWindowCutsByTheNewAlpha) {
  Dctcp law(paper(), kPath);
  Acks acks;
  law.on_ack(acks.next(1));
  law.on_ack(acks.next(1));
  law.on_ack(acks.next(1, true));  // passes the window: one of three marked
  const double alpha = 15. / 16 + 1. / 16 / 3;
  EXPECT_EQ(law.rate().bps(), static_cast<uint64_t>(10e9 * (1 - alpha / 2)));
}

TEST(Dctcp, MarkedForeverEndsAtTheLeastRate) {
  Dctcp law(DctcpParameters{}, kPath);
  Acks acks;
  for (int i = 0; i < 100; ++i) law.on_ack(acks.next(1, true));
  EXPECT_EQ(law.rate(), mbps(100));
  EXPECT_EQ(law.window(), 100u);
  for (int i = 0; i < 1000; ++i) law.on_ack(acks.next(1));
  EXPECT_EQ(law.rate(), gbps(10));
}

TEST(Dctcp, WindowCanBeOff) {
  DctcpParameters p;
  p.window = {};
  Dctcp law(p, kPath);
  Acks acks;
  law.on_ack(acks.next(1, true));
  EXPECT_EQ(law.rate(), gbps(5));
  EXPECT_EQ(law.window(), Controller::kNoWindow);
}

}  // namespace
}  // namespace understudy
