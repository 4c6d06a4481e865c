// Two hosts of our own over a wire that loses, repeats and delays: whatever it does, bytes come in
// their order, once, and connections end.
#include <gtest/gtest.h>

#include <random>

#include "dataplane/base/pattern.h"
#include "tests/rigs/virtual_hosts.h"

namespace understudy {
namespace {

std::string text_of(size_t size, uint64_t seed) {
  std::string text(size, 0);
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(splitmix64(seed + i));
  return text;
}

/// One conversation: side 0 calls.
struct Talk {
  Talk(VirtualHosts::Wire wire, std::string from_caller, std::string from_called, bool v4 = true,
       uint32_t mtu = 1500)
      : hosts(std::move(wire), v4, mtu), asked(from_caller), answered(from_called) {
    const IpAddress any = v4 ? IpAddress::v4(0) : IpAddress();
    const auto port = hosts.hosts[1]->listen(any, 5000, [this](const AcceptedConnection&) {
      return std::make_unique<TalkingPeer>(answered, asked.size(), called);
    });
    EXPECT_TRUE(port.has_value());
    const auto call =
        hosts.hosts[0]->call(hosts.address(0), {hosts.address(1), 5000},
                             std::make_unique<TalkingPeer>(asked, answered.size(), caller));
    EXPECT_TRUE(call.has_value());
  }
  /// Runs to its end, which is a good one.
  void expect_good() {
    hosts.run();
    quiet = hosts.now;
    EXPECT_TRUE(caller->connected);
    EXPECT_TRUE(called->heard == asked);
    EXPECT_TRUE(caller->heard == answered);
    EXPECT_TRUE(called->closed);
    ASSERT_EQ(hosts.ended[0].size(), 1u);
    ASSERT_EQ(hosts.ended[1].size(), 1u);
    EXPECT_EQ(hosts.ended[0][0].failure + hosts.ended[1][0].failure, "");
    hosts.outlast();
    EXPECT_EQ(hosts.hosts[0]->tcp_connections(), 0u);
    EXPECT_EQ(hosts.hosts[1]->tcp_connections(), 0u);
  }

  VirtualHosts hosts;
  Time quiet;  ///< when nothing was left to do
  const std::string asked, answered;
  std::shared_ptr<TalkingPeer::Memory> caller = std::make_shared<TalkingPeer::Memory>(),
                                       called = std::make_shared<TalkingPeer::Memory>();
};

TEST(VirtualHostPair, TalkOverAGoodWire) {
  for (const bool v4 : {true, false}) {
    for (const uint32_t mtu : {576u, 1500u, 9000u}) {
      Talk talk({}, text_of(1'000'000, 1), text_of(700'000, 2), v4, mtu);
      talk.expect_good();
      EXPECT_EQ(talk.hosts.hosts[0]->counters().retransmissions, 0u);
      EXPECT_EQ(talk.hosts.hosts[1]->counters().retransmissions, 0u);
    }
  }
}

TEST(VirtualHostPair, EqualRunsAreEqual) {
  const auto frames = [] {
    Talk talk({}, text_of(100'000, 1), text_of(100'000, 2));
    talk.hosts.keep_frames = true;
    talk.expect_good();
    return std::move(talk.hosts.frames);
  };
  const auto first = frames();
  EXPECT_GT(first.size(), 100u);
  EXPECT_TRUE(first == frames());
}

/// A conversation of some segments each way, of which one has a misfortune, takes less than
/// `limit`.
template <typename Misfortune>
void each_frame_in_turn(Duration limit, Misfortune misfortune) {
  const std::string ask = text_of(5000, 1), answer = text_of(7000, 2);
  size_t frames = 1;
  for (size_t unlucky = 0; unlucky < frames; ++unlucky) {
    SCOPED_TRACE(unlucky);
    Talk talk(
        [&](size_t number, int) {
          return number == unlucky ? misfortune() : std::vector{VirtualHosts::kLatency};
        },
        ask, answer);
    talk.expect_good();
    EXPECT_LT(talk.quiet, Time::zero() + limit);
    frames = talk.hosts.sent;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(frames, 15u);
}

TEST(VirtualHostPair, EachFrameIsLostInTurn) {
  each_frame_in_turn(Duration::ms(201), [] { return std::vector<Duration>{}; });
}

TEST(VirtualHostPair, EachFrameComesTwiceInTurn) {
  each_frame_in_turn(Duration::ms(1), [] {
    return std::vector{VirtualHosts::kLatency, VirtualHosts::kLatency + Duration::us(3)};
  });
}

TEST(VirtualHostPair, EachFrameComesLateInTurn) {
  each_frame_in_turn(Duration::ms(1), [] { return std::vector{Duration::us(55)}; });
  // A call that comes when its connection has ended is answered until that is given up.
  each_frame_in_turn(Duration::s(75), [] { return std::vector{Duration::s(3)}; });
}

TEST(VirtualHostPair, EachFrameComesAgainMuchLater) {
  each_frame_in_turn(Duration::s(100), [] {
    return std::vector{VirtualHosts::kLatency, Duration::s(30)};
  });
}

TEST(VirtualHostPair, BadWires) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t n) { return random() % n; };
    const uint64_t loss = below(25), twice = below(20), late = below(60);  // in per cent
    const auto wire = [&](size_t, int) {
      std::vector<Duration> arrivals;
      if (below(100) >= loss) arrivals.push_back(VirtualHosts::kLatency);
      if (below(100) < twice) arrivals.push_back(VirtualHosts::kLatency + Duration::us(5));
      for (Duration& at : arrivals) {
        if (below(100) < late) at += Duration::ns(static_cast<int64_t>(below(200'000)));
        if (below(1000) < late) at += Duration::ms(static_cast<int64_t>(below(900)));
      }
      return arrivals;
    };
    Talk talk(wire, text_of(1 + below(300'000), seed), text_of(1 + below(300'000), seed + 1),
              seed % 2 == 0, seed % 3 == 0 ? 9000 : 1500);
    talk.expect_good();
    if (HasFailure()) return;
  }
}

TEST(VirtualHostPair, TheOtherSideVanishes) {
  const std::string ask = text_of(2'000'000, 1), answer = text_of(2'000'000, 2);
  size_t total = 0;
  {
    Talk talk({}, ask, answer);
    talk.expect_good();
    total = talk.hosts.sent;
  }
  for (const size_t from : {size_t{0}, size_t{1}, size_t{2}, size_t{10}, total / 2}) {
    SCOPED_TRACE(from);
    Talk talk(
        [&](size_t number, int) {
          return number < from ? std::vector{VirtualHosts::kLatency} : std::vector<Duration>{};
        },
        ask, answer);
    talk.hosts.run();
    ASSERT_EQ(talk.hosts.ended[0].size(), 1u);
    EXPECT_EQ(talk.hosts.ended[0][0].connected, from >= 2);
    if (from < 2) {
      EXPECT_EQ(talk.hosts.ended[0][0].failure, "Connection timed out");
      EXPECT_FALSE(talk.hosts.ended[0][0].refused);
    } else {
      EXPECT_TRUE(talk.caller->closed);
      EXPECT_EQ(talk.hosts.ended[0][0].failure, "too little");
    }
    // 0.2 + 0.4 + ... + 6.4 s, then five times 10 s
    EXPECT_GT(talk.hosts.now, Time::zero() + Duration::s(60));
    EXPECT_LT(talk.hosts.now, Time::zero() + Duration::s(65));
    EXPECT_EQ(talk.hosts.hosts[0]->tcp_connections(), 0u);
  }
}

}  // namespace
}  // namespace understudy
