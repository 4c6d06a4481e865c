// A guest as a participant of the virtual-time loop, played by a script.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <utility>

#include "dataplane/virtual_time/guest_node.h"
#include "dataplane/virtual_time/virtual_link.h"
#include "tests/virtual_time/guest_script.h"

namespace understudy {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr int64_t kPsPerNs = 1000;
Time at_ns(int64_t ns) { return Time::from_ps(ns * kPsPerNs); }

/// The rest of the world at the other end of the cable.
class Wire final : public Participant {
 public:
  explicit Wire(VirtualPort& port) : port_(port) {}
  void send(Time at, Bytes frame) { due_.push_back({at, std::move(frame)}); }

  const std::string& name() const override { return name_; }
  Time next_event() const override {
    return std::min(port_.next_arrival(), due_.empty() ? Time::never() : due_.front().first);
  }
  void advance_to(Time t) override {
    while (port_.next_arrival() <= t) {
      const Time at = port_.next_arrival();
      for (const auto frame : port_.rx()) came.push_back({at, {frame.begin(), frame.end()}});
    }
    while (!due_.empty() && due_.front().first <= t) {
      const Bytes& frame = due_.front().second;
      const auto bytes = static_cast<uint32_t>(frame.size());
      std::copy(frame.begin(), frame.end(), port_.tx().reserve(bytes));
      port_.tx().commit(bytes, t);
      port_.flush(t);
      due_.erase(due_.begin());
    }
  }
  std::vector<std::pair<Time, Bytes>> came;

 private:
  const std::string name_ = "wire";
  VirtualPort& port_;
  std::vector<std::pair<Time, Bytes>> due_;
};

class Guest : public testing::Test {
 protected:
  Guest() : folder(testing::TempDir() + "/guest" + std::to_string(getpid())) {
    std::filesystem::create_directory(folder);
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    process = UniqueFd(ends[0]);
    alive = UniqueFd(ends[1]);
    loop.add(wire);
  }
  ~Guest() override {
    node.reset();  // a script that still waits for it ends
    running.reset();
    std::filesystem::remove_all(folder);
  }
  /// Boots the script's guest.
  Result<void> boot(std::function<void(GuestScript&)> script, const GuestLimits& limits = {}) {
    auto made = GuestNode::create(
        "guest", folder, {{MacAddress{}, Rate::bits_per_second(100'000'000'000), &link.b()}}, loop,
        limits);
    if (!made) return fail(made.error().text);
    node = std::move(*made);
    loop.add(*node);
    running = std::make_unique<RunningGuest>(folder, std::move(script));
    return node->boot(process.get());
  }
  /// Runs to the end; what failed.
  std::string run(Time limit = Time::never()) {
    EXPECT_TRUE(loop.run(limit));
    return node->failure();
  }

  /// The script, which waits for this, ends.
  void let_go(std::promise<void>& awaited) {
    awaited.set_value();
    running.reset();
  }

  const std::string folder;
  UniqueFd process, alive;
  VirtualLink link{"wire", "guest", 9000};
  VirtualLoop loop;
  Wire wire{link.a()};
  std::unique_ptr<RunningGuest> running;
  std::unique_ptr<GuestNode> node;
};

/// 1000 bytes and 24 of Ethernet take 81.92 ns at 100 Gbit/s.
TEST_F(Guest, FramesStartWhenTheWireIsFreeAndComeBackAtTheirEnd) {
  uint64_t free_before = 0, free_after = 0;
  std::vector<uint64_t> interrupts;
  std::vector<GuestRing::Used> first, second;
  ASSERT_TRUE(boot([&](GuestScript& guest) {
    guest.boot(1000);
    free_before = guest.free();
    guest.offer(0, Bytes(1000, 1));
    guest.offer(1, Bytes(1000, 2));
    guest.kick(GuestScript::kTransmit);
    free_after = guest.free();
    guest.wait();
    first = guest.transmit().take_used();
    guest.wait();
    second = guest.transmit().take_used();
    interrupts = guest.interrupts(GuestScript::kTransmit);
  }));
  EXPECT_EQ(node->next_event(), at_ns(1000));
  EXPECT_EQ(run(), "");
  EXPECT_TRUE(node->over());
  running.reset();
  ASSERT_EQ(wire.came.size(), 2u);
  EXPECT_EQ(wire.came[0], (std::pair{at_ns(1000), Bytes(1000, 1)}));
  EXPECT_EQ(wire.came[1], (std::pair{Time::from_ps(1'081'920), Bytes(1000, 2)}));
  EXPECT_GT(free_before, 1'000'000'000u) << "nothing else was to happen";
  EXPECT_EQ(free_after, 1000u) << "before the kick is answered: the first frame starts at once";
  EXPECT_EQ(interrupts, (std::vector<uint64_t>{1082, 1164})) << "its clock has whole nanoseconds";
  EXPECT_EQ(first, (std::vector<GuestRing::Used>{{0, 0}}));
  EXPECT_EQ(second, (std::vector<GuestRing::Used>{{1, 0}}));
  EXPECT_EQ(node->counters().tx_frames, 2u);
  EXPECT_EQ(node->counters().interrupts, 2u);
  EXPECT_EQ(node->counters().runs, 3u);
}

TEST_F(Guest, AFrameStartsAtTheTimeOfItsKick) {
  ASSERT_TRUE(boot([&](GuestScript& guest) {
    guest.boot(1000);
    guest.update(1500);
    guest.offer(0, Bytes(60, 1));
    guest.kick(GuestScript::kTransmit);
    EXPECT_EQ(guest.free(), 1500u);
    guest.sleep_until(9000);
    EXPECT_EQ(guest.now(), 1507u) << "60 bytes and 24 of Ethernet: 6.72 ns";
  }));
  EXPECT_EQ(run(), "");
  ASSERT_EQ(wire.came.size(), 1u);
  EXPECT_EQ(wire.came[0].first, at_ns(1500));
}

TEST_F(Guest, IsFreeUntilTheOthersDoSomething) {
  wire.send(at_ns(7300), Bytes(60));
  uint64_t free = 0;
  ASSERT_TRUE(boot([&](GuestScript& guest) {
    guest.boot(1000);
    free = guest.free();
    guest.update(7300);
  }));
  EXPECT_EQ(run(), "");
  running.reset();
  EXPECT_EQ(free, 7300u);
}

TEST_F(Guest, GetsFramesWhenTheyCome) {
  wire.send(at_ns(5000), Bytes(100, 5));
  wire.send(at_ns(5000), Bytes(64, 6));
  wire.send(at_ns(6000), Bytes(60, 7));
  std::vector<uint64_t> interrupts;
  std::vector<Bytes> frames;
  ASSERT_TRUE(boot([&](GuestScript& guest) {
    for (uint16_t i = 0; i < 4; ++i) guest.make_room(i);
    guest.boot(100);
    while (frames.size() < 3) {
      guest.wait();
      for (const auto& used : guest.receive().take_used()) frames.push_back(guest.received(used));
    }
    interrupts = guest.interrupts(GuestScript::kReceive);
  }));
  EXPECT_EQ(run(), "");
  running.reset();
  EXPECT_EQ(frames, (std::vector<Bytes>{Bytes(100, 5), Bytes(64, 6), Bytes(60, 7)}));
  EXPECT_EQ(interrupts, (std::vector<uint64_t>{5000, 6000}));
  EXPECT_EQ(node->counters().rx_frames, 3u);
  EXPECT_EQ(node->counters().no_room, 0u);
}

TEST_F(Guest, FramesWaitForBuffers) {
  for (int i = 0; i < 3; ++i) wire.send(at_ns(5000), Bytes(60, static_cast<uint8_t>(i)));
  std::vector<std::pair<uint64_t, size_t>> took;
  ASSERT_TRUE(boot([&](GuestScript& guest) {
    guest.make_room(0);
    guest.boot(100);
    const auto take = [&] { took.push_back({guest.now(), guest.receive().take_used().size()}); };
    guest.wait();
    take();
    guest.sleep_until(8000);
    take();
    guest.make_room(1);
    guest.make_room(2);
    guest.kick(GuestScript::kReceive);
    guest.wait();
    take();
  }));
  EXPECT_EQ(run(), "");
  running.reset();
  EXPECT_EQ(took, (std::vector<std::pair<uint64_t, size_t>>{{5000, 1}, {8000, 0}, {8000, 2}}));
}

// It gets them as soon as it has made room, at whatever time that is by its clock, which only it
// knows as long as it is free.
TEST_F(Guest, IsNotFreeWhileFramesWaitForBuffers) {
  uint64_t free = 0;
  std::vector<uint64_t> interrupts;
  wire.send(at_ns(1500), Bytes(100, 1));
  ASSERT_TRUE(boot([&](GuestScript& guest) {
    guest.boot(2000);
    free = guest.free();
    guest.make_room(0);
    guest.kick(GuestScript::kReceive);
    guest.wait();
    interrupts = guest.interrupts(GuestScript::kReceive);
  }));
  EXPECT_EQ(run(), "");
  running.reset();
  EXPECT_LE(free, 2000u);
  EXPECT_EQ(interrupts, (std::vector<uint64_t>{2000}));
}

TEST_F(Guest, FramesAreLostWhereTooManyWait) {
  for (int i = 0; i < 1030; ++i) wire.send(at_ns(5000), Bytes(60));
  ASSERT_TRUE(boot([&](GuestScript& guest) {
    guest.boot(100);
    guest.sleep_until(6000);
  }));
  EXPECT_EQ(run(), "");
  EXPECT_EQ(node->counters().no_room, 6u);
  EXPECT_EQ(node->counters().rx_frames, 0u);
}

TEST_F(Guest, NoInterruptsWhereItWantsNone) {
  wire.send(at_ns(5000), Bytes(60));
  ASSERT_TRUE(boot([&](GuestScript& guest) {
    guest.make_room(0);
    guest.receive().no_interrupts(true);
    guest.boot(100);
    EXPECT_EQ(guest.sleep_until(9000), 9000u);
    EXPECT_EQ(guest.receive().take_used().size(), 1u);
  }));
  EXPECT_EQ(run(), "");
  EXPECT_EQ(node->counters().interrupts, 0u);
  EXPECT_EQ(node->counters().rx_frames, 1u);
}

TEST_F(Guest, BrokenBuffersAreCounted) {
  ASSERT_TRUE(boot([&](GuestScript& guest) {
    guest.boot(100);
    guest.transmit().describe(0, 1, 100);
    guest.transmit().offer(0);
    guest.kick(GuestScript::kTransmit);
  }));
  EXPECT_EQ(run(), "");
  EXPECT_EQ(node->counters().broken, 1u);
  EXPECT_EQ(node->counters().tx_frames, 0u);
}

/// A program's last words are not lost because its kernel ended at once.
TEST_F(Guest, WhatItHasSentArrivesThoughItEnds) {
  ASSERT_TRUE(boot([&](GuestScript& guest) {
    guest.boot(1000);
    guest.offer(0, Bytes(1000, 1));
    guest.offer(1, Bytes(1000, 2));
    guest.kick(GuestScript::kTransmit);
  }));
  EXPECT_EQ(run(), "");
  EXPECT_TRUE(node->over());
  ASSERT_EQ(wire.came.size(), 2u);
  EXPECT_EQ(wire.came[1], (std::pair{Time::from_ps(1'081'920), Bytes(1000, 2)}));
}

TEST_F(Guest, FramesForOneThatHasEndedAreNobodys) {
  wire.send(at_ns(5000), Bytes(60));
  ASSERT_TRUE(boot([&](GuestScript& guest) { guest.boot(100); }));
  EXPECT_EQ(run(), "");
  EXPECT_TRUE(node->over());
  EXPECT_EQ(loop.now(), at_ns(5000));
}

TEST_F(Guest, ItsNetworkDeviceMayGoBeforeIt) {
  ASSERT_TRUE(boot([&](GuestScript& guest) {
    guest.boot(1000);
    guest.offer(0, Bytes(1000, 1));
    guest.kick(GuestScript::kTransmit);
    guest.hang_up_nic();
    guest.sleep_until(5000);
  }));
  EXPECT_EQ(run(), "");
  EXPECT_EQ(wire.came.size(), 1u);
}

TEST_F(Guest, OneThatComputesForEverIsGivenUp) {
  std::promise<void> given_up;
  ASSERT_TRUE(boot(
      [&](GuestScript& guest) {
        guest.boot(1000);
        given_up.get_future().wait();
      },
      {.patience_ms = 100}));
  EXPECT_EQ(run(),
            "has computed for 100 ms of the host's time without a word, in which no virtual time "
            "passes: a program in it polls, or hangs");
  EXPECT_TRUE(node->over());
  let_go(given_up);
}

TEST_F(Guest, OneThatNeverBootsIsGivenUp) {
  std::promise<void> given_up;
  const auto booted =
      boot([&](GuestScript&) { given_up.get_future().wait(); }, {.patience_ms = 100});
  let_go(given_up);
  ASSERT_FALSE(booted);
  EXPECT_NE(booted.error().text.find("has computed for 100 ms"), std::string::npos);
}

TEST_F(Guest, NoneIsWaitedForOnceARunIsStopped) {
  std::atomic<int> stop{0};
  std::promise<void> stopped;
  ASSERT_TRUE(boot(
      [&](GuestScript& guest) {
        guest.boot(1000);
        stop = 2;
        stopped.get_future().wait();
      },
      {.patience_ms = 60'000, .stop = &stop}));
  EXPECT_EQ(run(), "was stopped");
  let_go(stopped);
}

TEST_F(Guest, OneWhoseProcessEndsIsOver) {
  std::promise<void> ended;
  ASSERT_TRUE(boot([&](GuestScript& guest) {
    guest.boot(1000);
    alive = UniqueFd();
    ended.get_future().wait();
  }));
  EXPECT_EQ(run(), "its process has ended by itself");
  let_go(ended);
}

TEST_F(Guest, OneThatEndsAsItBoots) {
  const auto booted = boot([](GuestScript&) {});
  ASSERT_FALSE(booted);
  EXPECT_EQ(booted.error().text, "its kernel ended before it began");
}

TEST_F(Guest, OneThatDiesOfAnInterrupt) {
  wire.send(at_ns(5000), Bytes(60));
  ASSERT_TRUE(boot([&](GuestScript& guest) {
    guest.make_room(0);
    guest.boot(100);
    guest.die_at_an_interrupt();
    guest.wait();
  }));
  EXPECT_EQ(run(), "its kernel ended in the middle of an interrupt");
}

TEST_F(Guest, OneThatIsAlwaysDue) {
  ASSERT_TRUE(boot([&](GuestScript& guest) {
    guest.boot(1000);
    for (;;) guest.sleep_until(1000);
  }));
  EXPECT_EQ(run(), "wants to run at 1000 ns again and again");
}

}  // namespace
}  // namespace understudy
