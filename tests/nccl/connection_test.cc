// NCCL's credits byte by byte, and the two sides of a connection against each other.
#include "dataplane/nccl/nccl_connection.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/rigs/posting_host.h"

namespace understudy {
namespace {

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
  EXPECT_EQ(back.rkey[0], 0xaabbccddu);
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
  NoOwner nobody;
  std::unique_ptr<Qp> qp;
  std::vector<uint8_t> fifo, staging;
  PostingHost host;
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
  host.room = 0;
  EXPECT_FALSE(receiver.grant(Time(), host));
  EXPECT_EQ(receiver.granted(), 0u);
  RoceView data;
  data.opcode = static_cast<uint8_t>(Opcode::kWriteOnlyImm);
  qp->on_packet(Time(), data, nullptr);
  OutPacket answer;
  ASSERT_TRUE(qp->responder().has_ack()) << "no receive may be left behind";
  qp->responder().pull_ack(answer);
  EXPECT_EQ(answer.fields.syndrome & kSyndromeKindMask, kSyndromeRnrNak);
  host.room = SIZE_MAX;
  EXPECT_TRUE(receiver.grant(Time(), host));
  EXPECT_EQ(receiver.granted(), 1u);
}

struct LayoutOf {
  uint32_t minor;
  CtsLayout layout;
  std::vector<uint8_t> entry;  ///< of kEntry, up to the padding
};
const CtsEntry kEntry{0x1122334455667788, 0x80000, 0xaabbccdd, 1, 5, 0x102};
const std::vector<LayoutOf>& layouts() {
  static const std::vector<uint8_t> head = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
  const auto with = [](std::initializer_list<std::vector<uint8_t>> parts) {
    std::vector<uint8_t> out = head;
    for (const auto& part : parts) out.insert(out.end(), part.begin(), part.end());
    return out;
  };
  const std::vector<uint8_t> size4 = {0, 0, 8, 0}, size8 = {0, 0, 8, 0, 0, 0, 0, 0};
  const std::vector<uint8_t> key = {0xdd, 0xcc, 0xbb, 0xaa}, one = {1, 0, 0, 0}, tag = {5, 0, 0, 0};
  const std::vector<uint8_t> index = {2, 1, 0, 0, 0, 0, 0, 0}, zero = {0, 0, 0, 0};
  static const std::vector<LayoutOf> all = {
      {18,
       {.slots = 64,
        .entry_bytes = 32,
        .size_bytes = 4,
        .rkey_at = 12,
        .requests_at = 16,
        .tag_at = 20,
        .index_at = 24,
        .sizes_stride = 0},
       with({size4, key, one, tag, index})},
      {19,
       {.entry_bytes = 32,
        .size_bytes = 4,
        .rkey_at = 12,
        .requests_at = 16,
        .tag_at = 20,
        .index_at = 24},
       with({size4, key, one, tag, index})},
      {20,
       {.size_bytes = 4, .rkey_at = 12, .requests_at = 20, .tag_at = 24, .index_at = 32},
       with({size4, key, zero, one, tag, zero, index})},
      {24, {}, with({size8, key, zero, zero, zero, one, tag, index})},
      {29,
       {.big_endian_immediate = true, .sizes_stride = 160, .immediate_of_first = true},
       with({size8, key, zero, zero, zero, one, tag, index})},
      {30,
       {.requests_at = 48,
        .tag_at = 52,
        .index_at = 56,
        .big_endian_immediate = true,
        .sizes_stride = 160,
        .immediate_of_first = true},
       with({size8, key, zero, zero, zero, zero, zero, zero, zero, one, tag, index})},
  };
  return all;
}

/// Both sides over several queue pairs, whose WRITEs are carried over by hand.
struct Spread {
  Spread(const CtsLayout& l, uint32_t count, bool split, bool several_receives = false)
      : layout(l), regions(2), fifo(l.fifo_bytes()), staging(size_t{l.slots} * l.entry_bytes) {
    NcclQps all{{}, split};
    for (uint32_t q = 0; q < count; ++q) {
      QpConfig config;
      config.node = 1;
      config.qpn = 100 + q;
      qps.push_back(std::make_unique<Qp>(config, regions, counters, nobody));
      all.all.push_back(qps.back().get());
    }
    sender.connect({.qps = all,
                    .layout = layout,
                    .fifo = fifo.data(),
                    .several_receives = several_receives,
                    .sizes_va = 0xa00000,
                    .sizes_rkey = 0x33});
    receiver.connect({.qps = all,
                      .layout = layout,
                      .fifo_va = 0x700000,
                      .fifo_rkey = 0x11,
                      .buffer_va = 0x900000,
                      .buffer_rkey = 0x22,
                      .slots = 8,
                      .slot_bytes = 0x4000,
                      .sender_rank = 3,
                      .staging = staging.data()});
  }
  void grant() {
    host.posted.clear();
    ASSERT_TRUE(receiver.grant(Time(), host));
    const WorkRequest& w = host.posted.back();
    ASSERT_EQ(host.posted.back().qp, qps[0].get()) << "credits take the device's first queue pair";
    ASSERT_LE(w.remote_va - 0x700000 + w.length, fifo.size());
    w.payload.write(std::span(fifo).subspan(w.remote_va - 0x700000, w.length));
  }
  /// What arrives of a WRITE on a queue pair.
  std::vector<uint32_t> arrive(uint32_t q, const WorkRequest& w) {
    std::vector<uint32_t> whole;
    Received r;
    r.is_write = true;
    r.has_imm = w.op == WorkOp::kWriteImm;
    r.imm = w.imm;
    r.length = w.length;
    receiver.received(*qps[q], r, [&](uint32_t bytes) { whole.push_back(bytes); });
    return whole;
  }

  const CtsLayout layout;
  RegionTable regions;
  RcCounters counters{};
  NoOwner nobody;
  std::vector<std::unique_ptr<Qp>> qps;
  std::vector<uint8_t> fifo, staging;
  PostingHost host;
  NcclSender sender;
  NcclReceiver receiver;
};

TEST(Layouts, EntriesStandAsEachReleaseWritesThem) {
  for (const LayoutOf& l : layouts()) {
    SCOPED_TRACE(l.minor);
    std::vector<uint8_t> bytes(l.layout.entry_bytes, 0xff);
    kEntry.encode(l.layout, bytes.data());
    std::vector<uint8_t> expected = l.entry;
    expected.resize(l.layout.entry_bytes);
    EXPECT_EQ(bytes, expected);
    const CtsEntry back = CtsEntry::decode(l.layout, bytes.data());
    EXPECT_EQ(back.address, kEntry.address);
    EXPECT_EQ(back.size, kEntry.size);
    EXPECT_TRUE(back.rkey == kEntry.rkey);
    EXPECT_EQ(back.requests, 1u);
    EXPECT_EQ(back.tag, 5u);
    EXPECT_EQ(back.index, 0x102u);
  }
}

TEST(Layouts, MessagesOverTheWrapOfTheFifo) {
  for (const LayoutOf& l : layouts()) {
    SCOPED_TRACE(l.minor);
    Spread s(l.layout, 1, false);
    for (uint64_t k = 0; k < 3u * l.layout.slots; ++k) {
      s.grant();
      const WorkRequest credit = s.host.posted.back();
      ASSERT_EQ(credit.length, l.minor < 20 ? 32u : 64u);
      ASSERT_EQ(credit.remote_va,
                0x700000 + k % (l.minor == 18 ? 64 : 256) * (l.minor < 20 ? 256 : 512));
      const auto size = static_cast<uint32_t>(k % 5 == 0 ? 0 : k * 37 % 0x4000);
      ASSERT_FALSE(s.sender.has_credit(k + 1));
      ASSERT_TRUE(s.sender.send(Time(), s.host, k, size, {}, k));
      const WorkRequest& data = s.host.posted.back();
      ASSERT_EQ(data.op, WorkOp::kWriteImm);
      ASSERT_EQ(data.length, size);
      ASSERT_EQ(data.imm, l.minor < 29 ? __builtin_bswap32(size) : size);
      ASSERT_EQ(s.arrive(0, data), std::vector<uint32_t>{size});
    }
  }
}

TEST(SeveralQueuePairs, AMessageIsSplitInWholeLines) {
  Spread s({}, 4, true);
  const auto lengths = [&](uint64_t k, uint32_t size) {
    s.grant();
    s.host.posted.clear();
    EXPECT_TRUE(s.sender.send(Time(), s.host, k, size, {}, 1000 + k));
    std::vector<uint32_t> out;
    uint64_t at = 0x900000 + k % 8 * 0x4000;
    for (size_t q = 0; q < s.host.posted.size(); ++q) {
      const WorkRequest& w = s.host.posted[q];
      EXPECT_EQ(s.host.posted[q].qp, s.qps[q].get());
      EXPECT_EQ(w.op, WorkOp::kWriteImm);
      EXPECT_EQ(w.imm, __builtin_bswap32(size)) << "the whole message's on each";
      if (w.length > 0) {
        EXPECT_EQ(w.remote_va, at);
      }
      EXPECT_EQ(w.payload.offset, w.remote_va - (0x900000 + k % 8 * 0x4000));
      at += w.length;
      out.push_back(w.length);
    }
    return out;
  };
  // As recorded from NCCL (docs/nccl 3.2).
  EXPECT_EQ(lengths(0, 9000), (std::vector<uint32_t>{2304, 2304, 2304, 2088}));
  const auto first = s.host.posted;
  EXPECT_EQ(lengths(1, 100), (std::vector<uint32_t>{100, 0, 0, 0}));
  const auto second = s.host.posted;
  // Parts arrive in any order of queue pairs; messages are whole in theirs.
  EXPECT_TRUE(s.arrive(3, first[3]).empty());
  EXPECT_TRUE(s.arrive(3, second[3]).empty());
  EXPECT_TRUE(s.arrive(1, first[1]).empty());
  EXPECT_TRUE(s.arrive(1, second[1]).empty());
  EXPECT_TRUE(s.arrive(0, first[0]).empty());
  EXPECT_TRUE(s.arrive(0, second[0]).empty());
  EXPECT_EQ(s.arrive(2, first[2]), std::vector<uint32_t>{9000});
  EXPECT_EQ(s.arrive(2, second[2]), std::vector<uint32_t>{100});
  // So do acknowledgements.
  std::vector<uint64_t> done;
  const auto acknowledge = [&](uint32_t q, const WorkRequest& w) {
    s.sender.acknowledged(*s.qps[q], w.id, [&](uint64_t id) { done.push_back(id); });
  };
  for (uint32_t q : {0u, 1u, 2u}) {
    acknowledge(q, first[q]);
    acknowledge(q, second[q]);
  }
  EXPECT_TRUE(done.empty());
  acknowledge(3, first[3]);
  EXPECT_EQ(done, std::vector<uint64_t>{1000});
  acknowledge(3, second[3]);
  EXPECT_EQ(done, (std::vector<uint64_t>{1000, 1001}));
}

TEST(SeveralQueuePairs, MessagesTakeTurns) {
  Spread s({}, 3, false);
  std::vector<WorkRequest> sent;
  for (uint64_t k = 0; k < 7; ++k) {
    s.grant();
    s.host.posted.clear();
    ASSERT_TRUE(s.sender.send(Time(), s.host, k, 100 + static_cast<uint32_t>(k), {}, k));
    ASSERT_EQ(s.host.posted.size(), 1u);
    EXPECT_EQ(s.host.posted[0].qp, s.qps[k % 3].get());
    sent.push_back(s.host.posted[0]);
  }
  EXPECT_TRUE(s.arrive(1, sent[1]).empty());
  EXPECT_TRUE(s.arrive(1, sent[4]).empty());
  EXPECT_EQ(s.arrive(0, sent[0]), (std::vector<uint32_t>{100, 101}));
  EXPECT_EQ(s.arrive(2, sent[2]), std::vector<uint32_t>{102});
  EXPECT_EQ(s.arrive(0, sent[3]), (std::vector<uint32_t>{103, 104}));
  std::vector<uint64_t> done;
  for (const uint64_t k : {1u, 4u, 0u, 2u, 3u}) {
    s.sender.acknowledged(*s.qps[k % 3], sent[k].id, [&](uint64_t id) { done.push_back(id); });
  }
  EXPECT_EQ(done, (std::vector<uint64_t>{0, 1, 2, 3, 4}));
}

TEST(SeveralQueuePairs, AFullSendQueueGoesOnWhereItStopped) {
  Spread s({}, 4, true);
  s.grant();
  s.host.posted.clear();
  s.host.room = 2;
  EXPECT_FALSE(s.sender.send(Time(), s.host, 0, 9000, {}, 5));
  EXPECT_EQ(s.host.posted.size(), 2u);
  s.host.room = 100;
  EXPECT_TRUE(s.sender.send(Time(), s.host, 0, 9000, {}, 5));
  ASSERT_EQ(s.host.posted.size(), 4u);
  EXPECT_EQ(s.host.posted[3].length, 2088u);
  EXPECT_EQ(s.host.posted[3].id, 5u);
}

/// Data first, then their immediate in an empty WRITE to nowhere (docs/nccl 3.2).
TEST(AdaptiveRouting, AMessageIsItsDataAndTheirImmediate) {
  for (const uint32_t count : {1u, 2u}) {
    Spread s({}, count, false);
    s.grant();
    s.grant();
    WorkRequest data, end;
    data.length = 9000;
    end.op = WorkOp::kWriteImm;
    end.imm = __builtin_bswap32(9000);
    EXPECT_TRUE(s.arrive(0, data).empty());
    EXPECT_EQ(s.arrive(0, end), std::vector<uint32_t>{9000});
    end.length = 100;
    EXPECT_EQ(s.arrive(count - 1, end), std::vector<uint32_t>{100});
  }
}

/// One credit of three receives (docs/nccl 3.5).
TEST(SeveralReceives, AreAnsweredByOneImmediate) {
  for (const LayoutOf& l : layouts()) {
    SCOPED_TRACE(l.minor);
    Spread s(l.layout, 1, false, true);
    for (uint64_t k = 0; k < 2; ++k) {
      uint8_t* slot = s.fifo.data() + k * l.layout.stride();
      const uint64_t sizes[3] = {64, 0, 5000};
      for (uint32_t i = 0; i < 3; ++i) {
        EXPECT_FALSE(s.sender.has_credit(k)) << "an entry is missing";
        CtsEntry{0x900000 + i * 0x10000, sizes[i], 0x22 + i, 3, i, k + 1}.encode(
            l.layout, slot + i * l.layout.entry_bytes);
      }
      ASSERT_TRUE(s.sender.has_credit(k));
      s.host.posted.clear();
      ASSERT_TRUE(s.sender.send(Time(), s.host, k, 100, {}, 7 + k));
      ASSERT_EQ(s.host.posted.size(), 4u);
      const uint32_t lengths[3] = {64, 0, 100};
      for (uint32_t i = 0; i < 3; ++i) {
        const WorkRequest& w = s.host.posted[i];
        EXPECT_EQ(w.op, WorkOp::kWrite);
        EXPECT_EQ(w.remote_va, 0x900000u + i * 0x10000);
        EXPECT_EQ(w.rkey, 0x22 + i);
        EXPECT_EQ(w.length, lengths[i]);
        EXPECT_FALSE(NcclSender::is_message(w.id));
      }
      const WorkRequest& last = s.host.posted[3];
      EXPECT_EQ(last.op, WorkOp::kWriteImm);
      EXPECT_EQ(last.id, 7 + k);
      if (l.minor == 18) {
        EXPECT_EQ(last.length, 0u);
        EXPECT_EQ(last.imm, __builtin_bswap32(5)) << "a mask of those that are not empty";
      } else {
        EXPECT_EQ(last.remote_va, 0xa00000 + k * (l.minor < 29 ? 32 : 160));
        EXPECT_EQ(last.rkey, 0x33u);
        EXPECT_EQ(last.length, 12u);
        EXPECT_EQ(last.imm, l.minor < 29 ? 0u : 64u);
        uint32_t told[3];
        last.payload.write({reinterpret_cast<uint8_t*>(told), sizeof told});
        EXPECT_EQ(std::memcmp(told, lengths, sizeof told), 0);
      }
      std::vector<uint64_t> done;
      for (const WorkRequest& w : s.host.posted) {
        s.sender.acknowledged(*s.qps[0], w.id, [&](uint64_t id) { done.push_back(id); });
      }
      EXPECT_EQ(done, std::vector<uint64_t>{7 + k});
    }
  }
}

}  // namespace
}  // namespace understudy
