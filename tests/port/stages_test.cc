// A port over several cores: what goes in by the last stage comes out of the first, over a ring
// that loops back. Stages in turn on the test's own thread, and by a thread each.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "dataplane/port/capture.h"
#include "dataplane/port/staged_port.h"
#include "dataplane/wire/head_template.h"
#include "dataplane/wire/icrc.h"
#include "tests/port/eal.h"
#include "tests/wire/frames.h"

namespace understudy {
namespace {

const auto* const eal = ::testing::AddGlobalTestEnvironment(new EalEnvironment(4));

using Bytes = std::vector<uint8_t>;

Time at(int64_t us) { return Time::zero() + Duration::us(us); }

RoceAddressing way() {
  RoceAddressing a;
  a.src_mac = MacAddress{{2, 0, 0, 0, 0, 1}};
  a.dst_mac = MacAddress{{2, 0, 0, 0, 0, 2}};
  a.src = *IpAddress::parse("10.0.0.1");
  a.dst = *IpAddress::parse("10.0.0.2");
  return a;
}

RoceFields write_only(uint32_t number) {
  RoceFields f;
  f.opcode = Opcode::kWriteOnly;
  f.dest_qpn = 0x11;
  f.psn = Psn(number);
  return f;
}

Bytes payload_of(uint32_t number, size_t bytes) {
  Bytes payload(bytes);
  for (size_t i = 0; i < bytes; ++i) payload[i] = static_cast<uint8_t>(number + i * 3);
  return payload;
}

Bytes write_frame(uint32_t number) {
  return roce_frame(way(), write_only(number), payload_of(number, number % 4097));
}

/// One that comes out, with what had been read of it.
struct Came {
  Time at;
  Duration uncertainty;
  Bytes bytes;
  ReadFrame read;
};

class Stages : public testing::Test {
 protected:
  void open(unsigned cores, bool verify = true) {
    port_.reset();
    device_.reset();
    auto device = DpdkPort::open({"gpu", "net_ring0"});
    ASSERT_TRUE(device) << device.error().text;
    device_ = std::move(*device);
    auto staged = StagedPort::open(*device_, cores, verify);
    ASSERT_TRUE(staged) << staged.error().text;
    port_ = std::move(*staged);
  }
  bool commit(const Bytes& frame, Time scheduled = Time::zero()) {
    uint8_t* out = port_->tx().reserve(static_cast<uint32_t>(frame.size()));
    if (out == nullptr) return false;
    std::copy(frame.begin(), frame.end(), out);
    port_->tx().commit(static_cast<uint32_t>(frame.size()), scheduled);
    return true;
  }
  void send_all(Time now = Time::zero()) {
    port_->flush(now);
    if (TransmitStage* stage = port_->transmit_stage()) {
      for (bool more = true; more; stage->send(now)) more = stage->take();
    }
  }
  /// What the packet thread finds.
  void take(std::vector<Came>& all) {
    RxBurst burst;
    while (port_->source()->next(burst)) {
      EXPECT_LE(burst.frames.size(), kRxBurst);
      ASSERT_EQ(burst.frames.size(), burst.read.size());
      for (size_t i = 0; i < burst.frames.size(); ++i) {
        const auto f = burst.frames[i];
        all.push_back({burst.at, burst.uncertainty, {f.begin(), f.end()}, *burst.read[i]});
        all.back().read.view.frame = {};  // it does not outlive its buffer
      }
    }
  }
  std::vector<Came> receive_all(Time now = Time::zero(), Duration uncertainty = {}) {
    std::vector<Came> all;
    while (port_->receive_stage().receive()) {
      port_->receive_stage().hand_on(now, uncertainty);
      take(all);
    }
    return all;
  }

  std::unique_ptr<DpdkPort> device_;
  std::unique_ptr<StagedPort> port_;
};

TEST_F(Stages, FramesComeReadVerifiedAndWithTheirTime) {
  for (const unsigned cores : {2u, 3u}) {
    open(cores);
    Bytes damaged = write_frame(900);
    damaged[200] ^= 4;
    Bytes arp(42);
    arp[12] = 8, arp[13] = 6;
    for (const Bytes& frame : {write_frame(1), damaged, arp}) {
      ASSERT_TRUE(commit(frame));
    }
    send_all();
    const auto came = receive_all(at(7), Duration::us(2));
    ASSERT_EQ(came.size(), 3U);
    for (const Came& c : came) {
      EXPECT_EQ(c.at, at(7));
      EXPECT_EQ(c.uncertainty, Duration::us(2));
    }
    EXPECT_EQ(came[0].bytes, write_frame(1));
    EXPECT_EQ(came[0].read.kind, FrameKind::kRoce);
    EXPECT_EQ(came[0].read.roce.psn, Psn(1));
    EXPECT_EQ(came[0].read.icrc, IcrcState::kGood);
    EXPECT_EQ(came[1].read.kind, FrameKind::kRoce);
    EXPECT_EQ(came[1].read.icrc, IcrcState::kBad);
    EXPECT_NE(came[2].read.kind, FrameKind::kRoce);
    EXPECT_EQ(came[2].read.icrc, IcrcState::kUnknown);
    EXPECT_EQ(port_->counters().rx_frames, 3U);
    EXPECT_EQ(port_->counters().tx_frames, 3U);
  }
}

TEST_F(Stages, IcrcsAreLeftToTheShardWhereItVerifiesSamplesOnly) {
  open(2, false);
  ASSERT_TRUE(commit(write_frame(5)));
  send_all();
  const auto came = receive_all();
  ASSERT_EQ(came.size(), 1U);
  EXPECT_EQ(came[0].read.icrc, IcrcState::kUnknown);
  EXPECT_EQ(came[0].read.roce.psn, Psn(5));
}

TEST_F(Stages, TheLastStageFinishesPayloads) {
  open(3);
  for (const uint32_t bytes : {1u, 3u, 64u, 1023u, 4096u}) {
    const Bytes payload = payload_of(bytes, bytes);
    HeadTemplate head;
    head.set(way(), write_only(bytes), bytes);
    const uint32_t whole = roce_frame_bytes(way(), Opcode::kWriteOnly, bytes);
    uint8_t* out = port_->tx().reserve(whole);
    ASSERT_NE(out, nullptr);
    uint32_t crc;
    uint8_t* const to = head.begin(out, write_only(bytes), crc);
    std::copy(payload.begin(), payload.end(), to);
    ASSERT_TRUE(port_->tx().finishes(to, bytes, crc));
    port_->tx().commit(whole, Time::zero());
    ASSERT_TRUE(commit(write_frame(bytes))) << "a finished one behind it stays as it is";
    send_all();
    const auto came = receive_all();
    ASSERT_EQ(came.size(), 2U);
    EXPECT_EQ(came[0].bytes, roce_frame(way(), write_only(bytes), payload));
    EXPECT_EQ(came[1].bytes, write_frame(bytes));
  }
}

TEST_F(Stages, ZerosStayInBuffersThatChangeHands) {
  open(3);
  std::mt19937_64 random(1);
  for (uint32_t i = 0; i < 3000; ++i) {
    const auto zeros = static_cast<uint32_t>(256 + random() % 3840);
    const auto head = static_cast<uint32_t>(58 + random() % 30);
    const bool plain = random() % 3 == 0;
    uint8_t* out =
        plain ? port_->tx().reserve(head + zeros + 4) : port_->tx().reserve_zeros(head, zeros, 4);
    ASSERT_NE(out, nullptr);
    std::fill(out, out + head, uint8_t{0xee});
    if (plain) std::fill(out + head, out + head + zeros, uint8_t{0x77});
    std::fill(out + head + zeros, out + head + zeros + 4, uint8_t{0xee});
    port_->tx().commit(head + zeros + 4, Time::zero());
    send_all();
    const auto came = receive_all();
    ASSERT_EQ(came.size(), 1U);
    const uint8_t expected = plain ? 0x77 : 0;
    const auto& bytes = came[0].bytes;
    ASSERT_TRUE(std::all_of(bytes.begin() + head, bytes.begin() + head + zeros,
                            [=](uint8_t b) { return b == expected; }));
    ASSERT_EQ(bytes[head - 1], 0xee);
    ASSERT_EQ(bytes[head + zeros], 0xee);
  }
}

TEST_F(Stages, WhatTheDeviceOrTheShardCannotTakeWaitsInOrder) {
  open(3);
  uint32_t sent = 0;
  const auto send_more = [&] {
    while (commit(write_frame(sent))) ++sent;
    send_all();
  };
  for (int i = 0; i < 20; ++i) send_more();
  EXPECT_GE(sent, 1024U);  // the device's ring, and the stage's own
  EXPECT_LT(sent, 2000U);
  EXPECT_FALSE(commit(write_frame(sent)));
  // Nobody takes what the first stage has read: it stops, and the rest stays in the device.
  while (port_->receive_stage().receive()) port_->receive_stage().hand_on(at(1), {});
  const uint64_t received = port_->counters().rx_frames;
  EXPECT_LT(received, 300U);
  std::vector<Came> came;
  take(came);
  EXPECT_EQ(came.size(), received);
  for (int i = 0; i < 10; ++i) {
    send_all();
    for (Came& c : receive_all()) came.push_back(std::move(c));
  }
  ASSERT_EQ(came.size(), sent);
  for (uint32_t i = 0; i < sent; ++i) ASSERT_EQ(came[i].bytes, write_frame(i)) << i;
  EXPECT_EQ(port_->counters().tx_frames, sent);
  EXPECT_EQ(port_->counters().tx_refused, 0U);
}

class CountTap final : public CaptureTap {
 public:
  void frame(CaptureDirection direction, Time, Time, std::span<const uint8_t> bytes) override {
    (direction == CaptureDirection::kIn ? in : out) += bytes.size();
  }
  uint64_t in = 0, out = 0;
};

TEST_F(Stages, AThreadEach) {
  constexpr uint32_t kFrames = 5'000;
  open(3);
  CountTap tap;
  SharedTap shared(tap);
  device_->set_capture(&shared);
  std::atomic<bool> ended = false;
  // Both threads are at one ring, and at one pool of buffers. The thread sanitizer does not know
  // how DPDK keeps them apart.
  std::mutex device;
  std::thread receiver([&] {
    ReceiveStage& stage = port_->receive_stage();
    for (int64_t turn = 0; !ended; ++turn) {
      const auto received = [&] {
        const std::lock_guard lock(device);
        return stage.receive();
      };
      if (received()) {
        stage.hand_on(at(turn), {});
      } else {
        std::this_thread::yield();
      }
    }
  });
  std::thread sender([&] {
    while (!ended) {
      const auto sends = [&] {
        const std::lock_guard lock(device);
        const bool some = port_->transmit_stage()->take();
        port_->transmit_stage()->send(Time::zero());
        return some;
      };
      if (!sends()) std::this_thread::yield();
    }
  });
  uint32_t sent = 0, came = 0;
  Time last;
  uint64_t wrong = 0, bytes = 0;
  RxBurst burst;
  while (came < kFrames && wrong == 0) {
    while (sent < kFrames && commit(write_frame(sent))) ++sent;
    port_->flush(Time::zero());
    if (!port_->source()->next(burst)) {
      std::this_thread::yield();
      continue;
    }
    wrong += burst.at < last ? 1 : 0;
    last = burst.at;
    for (size_t i = 0; i < burst.frames.size(); ++i) {
      wrong += std::ranges::equal(burst.frames[i], write_frame(came++)) ? 0 : 1;
      wrong += burst.read[i]->icrc == IcrcState::kGood ? 0 : 1;
      bytes += burst.frames[i].size();
    }
  }
  ended = true;
  receiver.join();
  sender.join();
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(came, kFrames);
  EXPECT_EQ(tap.in, bytes);
  EXPECT_EQ(tap.out, bytes);
  EXPECT_EQ(port_->counters().rx_missed, 0U);
}

}  // namespace
}  // namespace understudy
