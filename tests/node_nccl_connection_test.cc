// NCCL's credits byte by byte, and the two sides of a connection against each other.
#include "dataplane/node/nccl_connection.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace understudy {
namespace {

class FakeHost : public EndpointHost {
 public:
  bool post(Time, Qp&, const WorkRequest& request) override {
    if (full) return false;
    posted.push_back(request);
    return true;
  }
  void wake_at(Time, Endpoint&, uint64_t) override {}
  Duration arrival_uncertainty() const override { return Duration(); }
  void tell(Time, const Qp&, NoticeKind, std::span<const uint8_t>) override {}
  bool full = false;
  std::vector<WorkRequest> posted;
};

class Nobody : public QpOwner {
  void on_received(Time, Qp&, const Received&) override {}
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}
};

const CtsLayout kLayout;
const uint32_t kCtsSlots = kLayout.slots;
const uint32_t kCtsSlotStride = kLayout.stride();
constexpr uint32_t kCtsEntryBytes = 64;

TEST(CtsEntry, StandsOnTheWireAsNcclWritesIt) {
  uint8_t bytes[kCtsEntryBytes];
  std::memset(bytes, 0xff, sizeof bytes);
  CtsEntry{0x1122334455667788, 0x80000, 0xaabbccdd, 1, 5, 0x102}.encode(kLayout, bytes);
  const uint8_t expected[kCtsEntryBytes] = {
      0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,  // address
      0x00, 0x00, 0x08, 0x00, 0,    0,    0,    0,     // size
      0xdd, 0xcc, 0xbb, 0xaa, 0,    0,    0,    0,     // rkeys of up to four devices
      0,    0,    0,    0,    0,    0,    0,    0,     //
      1,    0,    0,    0,    5,    0,    0,    0,     // requests, tag
      0x02, 0x01, 0,    0,    0,    0,    0,    0};    // index
  EXPECT_EQ(std::memcmp(bytes, expected, sizeof bytes), 0);
  const CtsEntry back = CtsEntry::decode(kLayout, bytes);
  EXPECT_EQ(back.address, 0x1122334455667788u);
  EXPECT_EQ(back.size, 0x80000u);
  EXPECT_EQ(back.rkey, 0xaabbccddu);
  EXPECT_EQ(back.index, 0x102u);
}

class Connection : public testing::Test {
 protected:
  Connection()
      : regions(2), fifo(kLayout.fifo_bytes()), staging(kLayout.slots * kLayout.entry_bytes) {
    config.node = 1;
    qp = std::make_unique<Qp>(config, regions, counters, nobody);
    sender.connect({.qps = {{qp.get()}}, .fifo = fifo.data()});
    NcclReceiver::Setup r;
    r.qps = {{qp.get()}};
    r.fifo_va = 0x700000;
    r.fifo_rkey = 0x11;
    r.buffer_va = 0x900000;
    r.buffer_rkey = 0x22;
    r.slots = 8;
    r.slot_bytes = 0x1000;
    r.sender_rank = 3;
    r.staging = staging.data();
    receiver.connect(r);
  }
  /// Carries the newest credit over, as its WRITE would.
  void deliver_credit() {
    const WorkRequest& w = host.posted.back();
    ASSERT_LE(w.remote_va - 0x700000 + w.length, fifo.size());
    std::memcpy(fifo.data() + (w.remote_va - 0x700000), w.payload.bytes + w.payload.offset,
                w.length);
  }
  RegionTable regions;
  RcCounters counters{};
  QpConfig config;
  Nobody nobody;
  std::unique_ptr<Qp> qp;
  std::vector<uint8_t> fifo, staging;
  FakeHost host;
  NcclSender sender;
  NcclReceiver receiver;
};

TEST_F(Connection, NothingIsSentWithoutACredit) {
  EXPECT_FALSE(sender.has_credit(0));
  EXPECT_FALSE(sender.send(Time(), host, 0, 64, {}, 1));
  EXPECT_FALSE(NcclSender().has_credit(0)) << "not connected";
}

TEST_F(Connection, EveryCreditIsUsedOnceOverTheFifosWrap) {
  for (uint64_t k = 0; k < 3 * kCtsSlots; ++k) {
    ASSERT_TRUE(receiver.grant(Time(), host));
    const WorkRequest credit = host.posted.back();
    EXPECT_EQ(credit.op, WorkOp::kWrite);
    EXPECT_EQ(credit.length, kCtsEntryBytes);
    EXPECT_EQ(credit.rkey, 0x11u);
    EXPECT_EQ(credit.remote_va, 0x700000 + (k % kCtsSlots) * kCtsSlotStride);
    EXPECT_FALSE(sender.has_credit(k));
    deliver_credit();
    ASSERT_TRUE(sender.has_credit(k));
    EXPECT_FALSE(sender.has_credit(k + 1));
    const auto size = static_cast<uint32_t>(1 + k % 0x1000);
    ASSERT_TRUE(sender.send(Time(), host, k, size, {}, 100 + k));
    const WorkRequest& data = host.posted.back();
    EXPECT_EQ(data.op, WorkOp::kWriteImm);
    EXPECT_EQ(data.remote_va, 0x900000 + (k % 8) * 0x1000);
    EXPECT_EQ(data.rkey, 0x22u);
    EXPECT_EQ(data.length, size);
    EXPECT_EQ(data.imm, __builtin_bswap32(size)) << "host order of a little-endian sender";
    EXPECT_EQ(data.id, 100 + k);
  }
  EXPECT_EQ(receiver.granted(), 3u * kCtsSlots);
}

TEST_F(Connection, ACreditThatIsTooSmall) {
  ASSERT_TRUE(receiver.grant(Time(), host));
  deliver_credit();
  EXPECT_FALSE(sender.send(Time(), host, 0, 0x1001, {}, 1));
  EXPECT_TRUE(sender.send(Time(), host, 0, 0x1000, {}, 1));
}

TEST_F(Connection, AFullSendQueueGrantsNothing) {
  host.full = true;
  EXPECT_FALSE(receiver.grant(Time(), host));
  EXPECT_EQ(receiver.granted(), 0u);
  RoceView data;
  data.opcode = static_cast<uint8_t>(Opcode::kWriteOnlyImm);
  qp->on_packet(Time(), data, nullptr);
  OutPacket answer;
  ASSERT_TRUE(qp->responder().has_ack()) << "no receive may be left behind";
  qp->responder().pull_ack(answer);
  EXPECT_EQ(answer.fields.syndrome & kSyndromeKindMask, kSyndromeRnrNak);
  host.full = false;
  EXPECT_TRUE(receiver.grant(Time(), host));
  EXPECT_EQ(receiver.granted(), 1u);
}

}  // namespace
}  // namespace understudy
