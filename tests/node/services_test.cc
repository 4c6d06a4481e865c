// The endpoints that ordinary clients meet, over a queue pair without a fabric.
#include "dataplane/node/services.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/wire/frames.h"

namespace understudy {
namespace {

constexpr uint64_t kVa = 0x10000;

class FakeHost : public EndpointHost {
 public:
  bool post(Time, Qp& qp, const WorkRequest& request) override {
    posted.push_back(request);
    return qp.post(request);
  }
  void wake_at(Time, Endpoint&, uint64_t) override { FAIL() << "services need no time"; }
  Duration arrival_uncertainty() const override { return Duration(); }
  void tell(Time, const Qp&, NoticeKind, std::span<const uint8_t>) override {}
  std::vector<WorkRequest> posted;
};

class Services : public testing::Test {
 protected:
  Services() : memory(4096), regions(4) {
    config.node = 1;
    regions.add(1, {1, kVa, memory.size(), kAccessRemoteWrite, memory.data(), true});
  }
  Qp& connect(Endpoint& endpoint) {
    endpoint.attach(host);
    qp = std::make_unique<Qp>(config, regions, counters, endpoint);
    qp->responder().set_endless_receives();
    return *qp;
  }
  void receive(Opcode opcode, std::span<const uint8_t> payload, uint64_t va = kVa, uint32_t imm = 0,
               uint32_t region = 1) {
    RoceView v;
    v.opcode = static_cast<uint8_t>(opcode);
    v.psn = psn;
    psn = psn.next();
    v.payload_bytes = v.dma_length = static_cast<uint32_t>(payload.size());
    v.pad = static_cast<uint8_t>((4 - payload.size() % 4) % 4);
    v.va = va;
    v.rkey = regions.rkey(region);
    v.imm = imm;
    qp->on_packet(Time(), v, payload.data());
  }
  std::vector<uint8_t> sent() {
    OutPacket out;
    bool departs;
    uint64_t id;
    while (qp->can_send(Time(), TrafficKind::kAny)) {
      qp->pull(Time(), TrafficKind::kAny, out, departs, id);
    }
    std::vector<uint8_t> bytes(out.payload_bytes);
    out.payload.write(bytes);
    return bytes;
  }

  std::vector<uint8_t> memory;
  RegionTable regions;
  RcCounters counters{};
  QpConfig config;
  FakeHost host;
  std::unique_ptr<Qp> qp;
  Psn psn;
};

TEST_F(Services, SendEchoGivesBackTheBytes) {
  SendEcho echo(memory);
  connect(echo).responder().set_receive_buffer(memory);
  const std::vector<uint8_t> ping = {1, 2, 3, 4, 5};
  receive(Opcode::kSendOnly, ping);
  ASSERT_EQ(host.posted.size(), 1u);
  EXPECT_EQ(host.posted[0].op, WorkOp::kSend);
  EXPECT_EQ(sent(), ping);
  receive(Opcode::kSendOnlyImm, ping, 0, 77);
  ASSERT_EQ(host.posted.size(), 2u);
  EXPECT_EQ(host.posted[1].op, WorkOp::kSendImm);
  EXPECT_EQ(host.posted[1].imm, 77u);
}

TEST_F(Services, SendEchoStaysInItsOwnMemory) {
  SendEcho echo(std::span<const uint8_t>(memory).first(4));
  connect(echo);  // no receive buffer: SENDs of any length are taken
  receive(Opcode::kSendOnly, std::vector<uint8_t>{1, 2, 3, 4, 5});
  EXPECT_TRUE(host.posted.empty());
}

TEST_F(Services, WriteEchoWritesFirstThenAnswers) {
  WriteEcho echo({memory.data(), kVa, memory.size()});
  Qp& q = connect(echo);
  echo.set_qp(q);
  receive(Opcode::kWriteOnly, std::vector<uint8_t>{7, 7, 8});
  EXPECT_TRUE(host.posted.empty()) << "an answer to a client that has not said where to";
  const RemoteBuffer start{0x900000, 0x42, 3};
  echo.on_wake(Time(), reinterpret_cast<uint64_t>(&start));
  ASSERT_EQ(host.posted.size(), 1u);
  EXPECT_EQ(host.posted[0].op, WorkOp::kWrite);
  EXPECT_EQ(host.posted[0].remote_va, 0x900000u);
  EXPECT_EQ(host.posted[0].rkey, 0x42u);
  EXPECT_EQ(sent(), (std::vector<uint8_t>{1, 1, 1}));
  receive(Opcode::kWriteOnly, std::vector<uint8_t>{7, 7, 8});
  ASSERT_EQ(host.posted.size(), 2u);
  EXPECT_EQ(sent(), (std::vector<uint8_t>{7, 7, 9}));
  receive(Opcode::kWriteOnly, {});
  EXPECT_EQ(host.posted.size(), 2u);
}

TEST_F(Services, WriteEchoStaysInItsOwnMemory) {
  // The node has another region, before and after which nothing of the echo's lies.
  std::vector<uint8_t> other(4096);
  for (uint64_t va : {uint64_t{0}, kVa + 4096, kVa + 4000, kVa - 10}) {
    regions.add(2, {1, va, other.size(), kAccessRemoteWrite, other.data(), true});
    WriteEcho echo({memory.data(), kVa, memory.size()});
    psn = Psn();
    echo.set_qp(connect(echo));
    const RemoteBuffer start{0x900000, 0x42, 3};
    echo.on_wake(Time(), reinterpret_cast<uint64_t>(&start));
    host.posted.clear();
    receive(Opcode::kWriteOnly, std::vector<uint8_t>(200, 7), va, 0, 2);
    EXPECT_TRUE(host.posted.empty()) << va;
  }
}

TEST_F(Services, MemoryTargetOnlyTakes) {
  MemoryTarget target;
  connect(target);
  receive(Opcode::kWriteOnly, std::vector<uint8_t>{9, 8, 7, 6}, kVa + 8);
  EXPECT_EQ(memory[8], 9);
  EXPECT_EQ(memory[11], 6);
  EXPECT_TRUE(host.posted.empty());
}

}  // namespace
}  // namespace understudy
