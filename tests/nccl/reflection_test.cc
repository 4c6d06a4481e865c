// Small messages of emulated ranks are copies of what real ranks have sent.
#include "dataplane/nccl/reflection.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "dataplane/nccl/nccl_connection.h"
#include "tests/rigs/posting_host.h"

namespace understudy {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes written(const PayloadRef& payload, size_t size, size_t offset = 0) {
  Bytes out(size, 0xee);
  payload.advanced(offset).write(out);
  return out;
}

NcclSteps::Place place(CreditKind kind, uint64_t step) { return {kind, step, 0}; }

TEST(Reflection, OfSimpleIsTheSameBytes) {
  Reflection reflection;
  EXPECT_TRUE(reflection.empty());
  const auto at = place(CreditKind::kSimpleSlice, 6);
  EXPECT_EQ(written(reflection.payload(at), 3), (Bytes{0, 0, 0})) << "nothing is known yet";
  reflection.take(Bytes{1, 2, 3});
  reflection.take(Bytes{});
  EXPECT_EQ(written(reflection.payload(at), 3), (Bytes{1, 2, 3}));
  EXPECT_EQ(written(reflection.payload(at), 7), (Bytes{1, 2, 3, 1, 2, 3, 1})) << "several slices";
  EXPECT_EQ(written(reflection.payload(at), 3, 2), (Bytes{3, 1, 2}));
  reflection.take(Bytes(Reflection::kMost + 1, 9));
  EXPECT_EQ(written(reflection.payload(at), 3), (Bytes{1, 2, 3})) << "long ones are not kept";
}

TEST(Reflection, OfLlHasTheConnectionsOwnFlags) {
  Reflection reflection;
  //                    data        flag        data        flag
  reflection.take(Bytes{1, 2, 3, 4, 9, 9, 9, 9, 5, 6, 7, 8, 9, 9, 9, 9});
  const PayloadRef payload = reflection.payload(place(CreditKind::kLL, 0x01020303));
  EXPECT_EQ(written(payload, 16), (Bytes{1, 2, 3, 4, 4, 3, 2, 1, 5, 6, 7, 8, 4, 3, 2, 1}));
  EXPECT_EQ(written(payload, 4, 14), (Bytes{2, 1, 1, 2})) << "in any pieces";
}

TEST(Reflection, OfLl128HasTheConnectionsOwnFlags) {
  Reflection reflection;
  Bytes line(128);
  for (size_t i = 0; i < line.size(); ++i) line[i] = static_cast<uint8_t>(i);
  reflection.take(line);
  const Bytes out = written(reflection.payload(place(CreditKind::kLL128, 0x1233)), 256);
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t at = i % 128;
    const auto expected = at < 120 ? at : at == 120 ? 0x34 : at == 121 ? 0x12 : 0;
    ASSERT_EQ(out[i], expected) << i;
  }
}

TEST(Reflection, WhatIsUnderWayStaysAsItWas) {
  Reflection reflection;
  reflection.take(Bytes{1});
  const PayloadRef first = reflection.payload(place(CreditKind::kSimpleStep, 0));
  for (uint8_t i = 2; i < 10; ++i) {
    reflection.take(Bytes{i});
    reflection.take(Bytes{i});  // the same again takes no room
  }
  EXPECT_EQ(written(first, 1), Bytes{1});
  EXPECT_EQ(written(reflection.payload(place(CreditKind::kSimpleStep, 0)), 1), Bytes{9});
}

/// Takes note of what arrives, and gives it to a receiver.
struct Owner : QpOwner {
  void on_received(Time, Qp& qp, const Received& came) override {
    receiver.received(qp, came, [&](uint32_t bytes) { whole += bytes; });
  }
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}
  NcclReceiver receiver;
  uint32_t whole = 0;
};

TEST(Reflection, GoesFromOneConnectionToTheOther) {
  const CtsLayout layout;
  RegionTable regions(2);
  Region buffer;
  buffer.va = 0x900000;
  buffer.length = 0x8000;
  buffer.access = kAccessRemoteWrite;
  buffer.valid = true;
  ASSERT_TRUE(regions.add(0, buffer));
  RcCounters counters{};
  QpConfig config;
  config.mtu = 1024;
  config.access = kAccessRemoteWrite;
  Owner owner;
  Qp qp(config, regions, counters, owner);
  Bytes staging(layout.slots * layout.entry_bytes), fifo(layout.fifo_bytes());
  Reflection reflection;
  PostingHost host;
  owner.receiver.connect({.qps = {{&qp}},
                          .layout = layout,
                          .buffer_va = 0x900000,
                          .buffer_rkey = regions.rkey(0),
                          .slots = 8,
                          .slot_bytes = 0x1000,
                          .staging = staging.data(),
                          .reflection = &reflection});
  ASSERT_TRUE(owner.receiver.grant(Time(), host));
  const Bytes message = {7, 0, 0, 0, 0, 0, 0, 0};
  RoceView packet;
  packet.opcode = static_cast<uint8_t>(Opcode::kWriteOnlyImm);
  packet.va = 0x900000;
  packet.rkey = regions.rkey(0);
  packet.dma_length = packet.payload_bytes = 8;
  qp.on_packet(Time(), packet, message.data());
  EXPECT_EQ(owner.whole, 8u);
  EXPECT_FALSE(reflection.empty());

  NcclSender sender;
  sender.connect({.qps = {{&qp}},
                  .layout = layout,
                  .fifo = fifo.data(),
                  .collective = true,
                  .reflection = &reflection});
  CtsEntry{0x100000, 1 << 20, 0x55, 1, 0, 1}.encode(layout, fifo.data());
  ASSERT_TRUE(sender.send(Time(), host, 0, 8, {}, 1));
  EXPECT_EQ(written(host.posted.back().payload, 8), message);
  CtsEntry{0x180000, 1 << 20, 0x55, 1, 0, 2}.encode(layout, fifo.data() + layout.stride());
  ASSERT_TRUE(sender.send(Time(), host, 1, Reflection::kMost + 1, {}, 2));
  EXPECT_EQ(written(host.posted.back().payload, 8), Bytes(8)) << "zeros, as ever";
}

}  // namespace
}  // namespace understudy
