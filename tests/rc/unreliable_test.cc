// Unreliable connections: a message comes whole or not at all, and nobody answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "dataplane/rc/qp.h"
#include "dataplane/wire/parse.h"
#include "tests/rc/model.h"
#include "tests/wire/frames.h"

namespace understudy {
namespace {

constexpr uint64_t kVa = 0x7f0000000000;
constexpr uint32_t kMtu = 256, kMost = 2000, kMessages = 300, kRegion = 1;

struct Link {
  uint32_t lost = 0, repeated = 0, swapped = 0;  ///< in thousandths of all packets
};

class Sink final : public ReceiveSink {
 public:
  bool take() override {
    if (receives == 0) return false;
    --receives;
    return true;
  }
  std::optional<NakCode> place(uint32_t offset, std::span<const uint8_t> bytes) override {
    std::copy(bytes.begin(), bytes.end(), got.begin() + offset);
    return std::nullopt;
  }
  uint64_t receives = 1'000'000;
  std::vector<uint8_t> got = std::vector<uint8_t>(kMost);
};

/// One sender and one receiver of messages that their immediates number.
class Pair : public QpOwner {
 public:
  Pair(uint64_t seed, Link link) : random_(seed), link_(link) {
    QpConfig c;
    c.node = 1;
    c.mtu = kMtu;
    c.unreliable = true;
    c.sq_psn = c.rq_psn = Psn(Psn::kMask - 40);
    c.send_queue = 4;
    c.addressing = sample_addressing(false);
    regions_.add(kRegion, {c.node, kVa, kMost, kAccessRemoteAny, memory_.data(), true});
    from_ = std::make_unique<Qp>(c, regions_, counters_, *this);
    to_ = std::make_unique<Qp>(c, regions_, counters_, *this);
    to_->responder().set_receive_sink(&sink);
  }

  void run() {
    uint64_t posted = 0;
    while (posted < kMessages || from_->can_send(now_, TrafficKind::kAny)) {
      now_ += Duration::us(1);
      while (posted < kMessages && post(posted)) ++posted;
      send();
      if (from_->deadline() <= now_) from_->on_timer(now_);
      EXPECT_FALSE(to_->can_send(now_, TrafficKind::kAny));
      EXPECT_TRUE(to_->deadline().is_never());
    }
    if (held_) deliver(*held_);
    now_ += Duration::us(1);
    if (from_->deadline() <= now_) from_->on_timer(now_);
  }

  void on_received(Time, Qp& qp, const Received& m) override {
    EXPECT_EQ(&qp, to_.get());
    ASSERT_TRUE(m.has_imm);
    ASSERT_EQ(m.length, length_of(m.imm));
    std::vector<uint8_t> should(m.length);
    payload_.fill(m.imm, 0, should);
    const std::vector<uint8_t>& there = m.is_write ? memory_ : sink.got;
    EXPECT_TRUE(std::equal(should.begin(), should.end(), there.begin())) << "message " << m.imm;
    received.push_back(m.imm);
  }
  void on_completed(Time, Qp& qp, uint64_t id, WorkStatus status) override {
    EXPECT_EQ(&qp, from_.get());
    EXPECT_EQ(id, completed++);
    EXPECT_EQ(status, WorkStatus::kSuccess);
  }
  uint64_t counted(RcEvent event) const { return counters_[static_cast<size_t>(event)]; }

  Sink sink;
  std::vector<uint32_t> received;
  uint64_t completed = 0;
  std::vector<bool> whole = std::vector<bool>(kMessages, true);  ///< no packet of it was lost
  std::vector<std::string> opcodes;

 private:
  static uint32_t length_of(uint64_t i) { return static_cast<uint32_t>(i * 37 % kMost); }

  bool post(uint64_t i) {
    WorkRequest r;
    r.op = i % 3 == 0 ? WorkOp::kWriteImm : WorkOp::kSendImm;
    r.id = i;
    r.imm = static_cast<uint32_t>(i);
    r.length = length_of(i);
    r.payload.source = &payload_;
    r.payload.cookie = i;
    r.remote_va = kVa;
    r.rkey = regions_.rkey(kRegion);
    return from_->post(r);
  }

  bool chance(uint32_t permille) { return random_() % 1000 < permille; }

  void send() {
    OutPacket out;
    bool departs;
    uint64_t id = 0;
    const uint64_t message = sending_;
    if (!from_->pull(now_, TrafficKind::kAny, out, departs, id)) return;
    if (departs) ++sending_;
    EXPECT_FALSE(out.fields.ack_request);
    opcodes.emplace_back(opcode_info(out.fields.opcode).name);
    std::vector<uint8_t> payload(out.payload_bytes);
    out.payload.write(payload);
    auto frame = roce_frame(from_->config().addressing, out.fields, payload);
    if (chance(link_.lost)) {
      whole[message] = false;
      return;
    }
    if (chance(link_.repeated)) deliver(frame);
    if (!held_ && chance(link_.swapped)) {
      held_ = std::move(frame);
      return;
    }
    deliver(frame);
    if (held_) deliver(*std::exchange(held_, std::nullopt));
  }

  void deliver(const std::vector<uint8_t>& frame) {
    const Parsed parsed(frame);
    to_->on_packet(now_, parsed.roce, parsed.bytes.data() + parsed.roce.payload);
  }

  std::mt19937_64 random_;
  const Link link_;
  ModelPayload payload_;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kMost);
  RegionTable regions_{4};
  RcCounters counters_{};
  std::unique_ptr<Qp> from_, to_;
  std::optional<std::vector<uint8_t>> held_;
  uint64_t sending_ = 0;
  Time now_;
};

std::vector<uint32_t> all_whole(const Pair& pair) {
  std::vector<uint32_t> all;
  for (uint32_t i = 0; i < kMessages; ++i) {
    if (pair.whole[i]) all.push_back(i);
  }
  return all;
}

TEST(Unreliable, AllComesWhereNothingIsLost) {
  Pair pair(1, {});
  pair.run();
  EXPECT_EQ(pair.received, all_whole(pair));
  EXPECT_EQ(pair.completed, kMessages);
  EXPECT_EQ(pair.counted(RcEvent::kMessageDropped), 0u);
  for (const std::string& opcode : pair.opcodes) EXPECT_EQ(opcode.substr(0, 3), "UC_");
}

TEST(Unreliable, OfWhatIsLostNothingComesAndTheRestDoes) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Pair pair(seed, {.lost = 30});
    pair.run();
    EXPECT_EQ(pair.received, all_whole(pair)) << "seed " << seed;
    EXPECT_EQ(pair.completed, kMessages);
    EXPECT_LT(pair.received.size(), kMessages);
  }
}

TEST(Unreliable, WhatTheNetworkRepeatsAndSwapsHarmsNoContents) {
  size_t received = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Pair pair(seed, {.lost = 10, .repeated = 10, .swapped = 10});
    pair.run();
    received += pair.received.size();
    EXPECT_EQ(pair.completed, kMessages);
  }
  EXPECT_GT(received, 50 * kMessages / 2);
}

TEST(Unreliable, ReceivesOfDroppedMessagesAreTheNextOnes) {
  Pair pair(3, {.lost = 50});
  pair.run();
  uint64_t taken = 0;
  for (const uint32_t i : pair.received) taken += i % 3 == 0 ? 0 : 1;
  uint64_t writes = pair.received.size() - taken;
  const uint64_t used = 1'000'000 - pair.sink.receives;
  EXPECT_GE(used, taken + writes);
  EXPECT_LE(used, taken + writes + 1);  // one may be held for the next message
}

TEST(Unreliable, WithoutAReceiveAMessageIsDropped) {
  Pair pair(1, {});
  pair.sink.receives = 5;
  pair.run();
  EXPECT_EQ(pair.received.size(), 5u);
  EXPECT_EQ(pair.completed, kMessages);
  EXPECT_EQ(pair.counted(RcEvent::kRnrSent), 0u);
}

struct Silent final : QpOwner {
  void on_received(Time, Qp&, const Received&) override { ++messages; }
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}
  int messages = 0;
};

TEST(Unreliable, ServicesDoNotMix) {
  for (const bool unreliable : {false, true}) {
    RegionTable regions(2);
    RcCounters counters{};
    Silent owner;
    QpConfig c;
    c.unreliable = unreliable;
    Qp qp(c, regions, counters, owner);
    qp.responder().set_endless_receives();
    RoceView view;
    view.psn = c.rq_psn;
    view.opcode = static_cast<uint8_t>(Opcode::kSendOnly) + (unreliable ? 0 : kUnreliable);
    qp.on_packet(Time::zero(), view, nullptr);
    view.opcode = static_cast<uint8_t>(Opcode::kAcknowledge);
    if (unreliable) qp.on_packet(Time::zero(), view, nullptr);
    EXPECT_EQ(owner.messages, 0);
    EXPECT_EQ(counters[static_cast<size_t>(RcEvent::kWrongService)], unreliable ? 2u : 1u);
    view.opcode = static_cast<uint8_t>(Opcode::kSendOnly) + (unreliable ? kUnreliable : 0);
    qp.on_packet(Time::zero(), view, nullptr);
    EXPECT_EQ(owner.messages, 1);
  }
}

TEST(Unreliable, TakesNoReadsAtomicsOrInvalidations) {
  RegionTable regions(2);
  RcCounters counters{};
  Silent owner;
  QpConfig c;
  c.unreliable = true;
  Qp qp(c, regions, counters, owner);
  for (const WorkOp op :
       {WorkOp::kRead, WorkOp::kCompareSwap, WorkOp::kFetchAdd, WorkOp::kSendInvalidate}) {
    WorkRequest r;
    r.op = op;
    r.length = 8;
    EXPECT_FALSE(qp.post(r));
  }
}

}  // namespace
}  // namespace understudy
