// Connections between NICs of which NCCL took several for one device: as many or unlike numbers at
// either end (docs/nccl 2.4, 3.1, 3.2).
#include <gtest/gtest.h>

#include <cstring>
#include <tuple>
#include <vector>

#include "ctrl/peers/nccl/transport/net_ib_layout.h"
#include "dataplane/nccl/nccl_connection.h"
#include "tests/rigs/posting_host.h"

namespace understudy {
namespace {

constexpr uint64_t kFifo = 0x700000, kBuffer = 0x900000, kSizes = 0xa00000;
constexpr uint32_t kSlotBytes = 0x10000;

DeviceRkeys keys_of(Rkey first, uint32_t devices) {
  DeviceRkeys keys;
  for (uint32_t d = 0; d < devices; ++d) keys[d] = first + d;
  return keys;
}

/// A sender with `from` devices and a receiver with `to`.
struct Merged {
  Merged(uint32_t minor, uint32_t from, uint32_t to, uint32_t each = 1, bool split = false)
      : layout(net_ib_layout({minor}).cts),
        sender_devices(from),
        receiver_devices(to),
        regions(2),
        fifo(layout.fifo_bytes()),
        staging(size_t{layout.slots} * layout.entry_bytes) {
    NcclQps ours{{}, split, std::max(from, to)}, theirs = ours;
    for (uint32_t q = 0; q < each * std::max(from, to); ++q) {
      QpConfig config;
      config.node = 1;
      config.qpn = 100 + q;
      qps.push_back(std::make_unique<Qp>(config, regions, counters, nobody));
      ours.all.push_back(qps.back().get());
      ours.far_device.push_back(static_cast<uint8_t>(q % to));
      theirs.far_device.push_back(static_cast<uint8_t>(q % from));
    }
    theirs.all = ours.all;
    sender.connect({.qps = ours,
                    .layout = layout,
                    .fifo = fifo.data(),
                    .several_receives = true,
                    .sizes_va = kSizes,
                    .sizes_rkey = keys_of(0x30, to)});
    receiver.connect({.qps = theirs,
                      .layout = layout,
                      .fifo_va = kFifo,
                      .fifo_rkey = keys_of(0x10, from),
                      .devices = to,
                      .buffer_va = kBuffer,
                      .buffer_rkey = 0x22,
                      .slots = 8,
                      .slot_bytes = kSlotBytes,
                      .staging = staging.data()});
  }
  uint32_t number(const Qp* qp) const {
    uint32_t q = 0;
    while (qps[q].get() != qp) ++q;
    return q;
  }
  /// Credit `k`, judged and carried over.
  void grant(uint64_t k) {
    host.posted.clear();
    ASSERT_TRUE(receiver.grant(Time(), host));
    const PostingHost::Posted& write = host.posted.back();
    const uint32_t q = number(write.qp);
    EXPECT_EQ(q, k % receiver_devices) << "the first queue pair of the receiver's devices in turn";
    EXPECT_EQ(write.rkey, 0x10 + q % sender_devices) << "of the sender's device at its other end";
    const CtsEntry entry = CtsEntry::decode(layout, write.payload.bytes);
    EXPECT_TRUE(entry.rkey == DeviceRkeys(0x22, receiver_devices));
    // As a real receiver has them: one for each device.
    CtsEntry{entry.address, entry.size, keys_of(0x22, receiver_devices), 1, 0, k + 1}.encode(
        layout, fifo.data() + (write.remote_va - kFifo));
  }
  /// Sends message `k`, and says over which queue pairs.
  std::vector<uint32_t> send(uint64_t k, uint32_t size) {
    host.posted.clear();
    EXPECT_TRUE(sender.send(Time(), host, k, size, {}, k));
    std::vector<uint32_t> over;
    for (const auto& write : host.posted) {
      over.push_back(number(write.qp));
      EXPECT_EQ(write.rkey, 0x22 + over.back() % receiver_devices);
      EXPECT_EQ(write.op, WorkOp::kWriteImm);
      EXPECT_EQ(write.imm, layout.immediate(size)) << "the whole message's";
    }
    return over;
  }
  std::vector<uint32_t> arrive(const PostingHost::Posted& write) {
    std::vector<uint32_t> whole;
    Received r;
    r.is_write = r.has_imm = true;
    r.length = write.length;
    receiver.received(*write.qp, r, [&](uint32_t bytes) { whole.push_back(bytes); });
    return whole;
  }

  const CtsLayout layout;
  const uint32_t sender_devices, receiver_devices;
  RegionTable regions;
  RcCounters counters{};
  NoOwner nobody;
  std::vector<std::unique_ptr<Qp>> qps;
  std::vector<uint8_t> fifo, staging;
  PostingHost host;
  NcclSender sender;
  NcclReceiver receiver;
};

/// Sizes as NCCL was seen to cut them (docs/nccl 3.2): 9000 bytes over two devices.
TEST(MergedDevices, AMessageGoesOverADeviceEach) {
  Merged m(28, 2, 2);
  m.grant(0);
  EXPECT_EQ(m.send(0, 9000), (std::vector<uint32_t>{0, 1}));
  const auto first = m.host.posted;
  EXPECT_EQ(first[0].length, 4608u);
  EXPECT_EQ(first[1].length, 4392u);
  EXPECT_EQ(first[0].remote_va, kBuffer);
  EXPECT_EQ(first[1].remote_va, kBuffer + 4608);
  m.grant(1);
  EXPECT_EQ(m.send(1, 100), (std::vector<uint32_t>{0, 1}));
  const auto second = m.host.posted;
  EXPECT_EQ(second[1].length, 0u) << "nothing is left for it, its immediate goes all the same";
  EXPECT_TRUE(m.arrive(first[1]).empty());
  EXPECT_TRUE(m.arrive(second[1]).empty());
  EXPECT_EQ(m.arrive(first[0]), std::vector<uint32_t>{9000});
  EXPECT_EQ(m.arrive(second[0]), std::vector<uint32_t>{100});
  std::vector<uint64_t> done;
  for (const auto* w : {&first[0], &second[0], &first[1], &second[1]}) {
    m.sender.acknowledged(*w->qp, w->id, [&](uint64_t id) { done.push_back(id); });
    EXPECT_TRUE(w != &second[0] || done.empty());
  }
  EXPECT_EQ(done, (std::vector<uint64_t>{0, 1}));
}

/// Where a device has several queue pairs, messages take turns: behind all of the message before;
/// in 2.29 one further than that (net_ib/common.h, ncclIbCommBaseGetQpForRequest).
TEST(MergedDevices, QueuePairsTakeTurns) {
  using Turns = std::vector<std::vector<uint32_t>>;
  const auto turns = [](uint32_t minor, bool split) {
    Merged m(minor, 2, 2, 2, split);
    Turns all;
    for (uint64_t k = 0; k < 4; ++k) {
      m.grant(k);
      all.push_back(m.send(k, 1000));
    }
    return all;
  };
  EXPECT_EQ(turns(28, false), (Turns{{0, 1}, {2, 3}, {0, 1}, {2, 3}}));
  EXPECT_EQ(turns(29, false), (Turns{{0, 1}, {1, 2}, {2, 3}, {3, 0}}));
  EXPECT_EQ(turns(30, false), (Turns{{0, 1}, {2, 3}, {0, 1}, {2, 3}}));
  EXPECT_EQ(turns(28, true)[1], (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(turns(29, true)[1], (std::vector<uint32_t>{1, 2, 3, 0}));
}

/// Every release that merges, all numbers of devices at either end, one and two queue pairs each.
TEST(MergedDevices, MessagesOverTheFifosWrap) {
  for (const uint32_t minor : {20u, 24u, 28u, 29u, 30u}) {
    const uint32_t most = net_ib_layout({minor}).most_devices;
    for (const auto& [from, to] :
         {std::pair{2u, 2u}, {2u, 1u}, {1u, 2u}, {4u, 4u}, {4u, 2u}, {3u, 4u}}) {
      if (std::max(from, to) > most) continue;
      for (const auto& [each, split] : {std::pair{1u, false}, {2u, false}, {2u, true}}) {
        SCOPED_TRACE(testing::Message() << "2." << minor << ", " << from << " to " << to << ", "
                                        << each << (split ? " split" : ""));
        Merged m(minor, from, to, each, split);
        for (uint64_t k = 0; k < m.layout.slots + 10u; ++k) {
          m.grant(k);
          const auto size = static_cast<uint32_t>(k % 7 == 0 ? 0 : k * 977 % kSlotBytes);
          const size_t parts = (split ? each : 1) * std::max(from, to);
          ASSERT_EQ(m.send(k, size).size(), parts);
          const auto posted = m.host.posted;
          uint64_t at = kBuffer + k % 8 * kSlotBytes, sum = 0;
          for (const auto& write : posted) {
            ASSERT_TRUE(write.length == 0 || write.remote_va == at + sum);
            sum += write.length;
          }
          ASSERT_EQ(sum, size);
          for (size_t i = posted.size(); i-- > 1;) ASSERT_TRUE(m.arrive(posted[i]).empty());
          ASSERT_EQ(m.arrive(posted[0]), std::vector<uint32_t>{size});
          std::vector<uint64_t> done;
          for (const auto& write : posted) {
            m.sender.acknowledged(*write.qp, write.id, [&](uint64_t id) { done.push_back(id); });
          }
          ASSERT_EQ(done, std::vector<uint64_t>{k});
        }
      }
    }
  }
}

/// Several receives in one credit go over all devices, and so do their sizes, on each queue pair
/// all of them (docs/nccl 3.5).
TEST(MergedDevices, SeveralReceivesAndTheirSizes) {
  Merged m(28, 2, 2);
  const uint64_t sizes[2] = {9000, 100};
  for (uint32_t i = 0; i < 2; ++i) {
    CtsEntry{kBuffer + i * 0x10000, sizes[i], keys_of(0x22 + 0x100 * i, 2), 2, i, 1}.encode(
        m.layout, m.fifo.data() + i * m.layout.entry_bytes);
  }
  ASSERT_TRUE(m.sender.send(Time(), m.host, 0, 9000, {}, 7));
  ASSERT_EQ(m.host.posted.size(), 6u);
  const uint32_t lengths[6] = {4608, 100, 8, 4392, 0, 8};
  const Rkey keys[6] = {0x22, 0x122, 0x30, 0x23, 0x123, 0x31};
  for (size_t i = 0; i < 6; ++i) {
    const PostingHost::Posted& write = m.host.posted[i];
    EXPECT_EQ(m.number(write.qp), i / 3);
    EXPECT_EQ(write.op, i % 3 == 2 ? WorkOp::kWriteImm : WorkOp::kWrite);
    EXPECT_EQ(write.length, lengths[i]);
    EXPECT_EQ(write.rkey, keys[i]);
  }
  EXPECT_EQ(m.host.posted[2].remote_va, kSizes);
}

}  // namespace
}  // namespace understudy
