// ucmatose's server: so many messages out, so many back, done.
#include "dataplane/node/send_burst.h"

#include <gtest/gtest.h>

#include "tests/engine/rig.h"

namespace understudy {
namespace {

TEST(SendBurst, IsDoneWhenAllAreAcknowledgedAndAsManyCameBack) {
  Rig rig(rig_config(Rate(), Duration::us(1)));
  SendBurst burst(3, 100);
  const QpConfig config = rig.qp_config(0);
  Qp qp(config, rig.shard.regions(), rig.shard.rc_counters(), burst);
  qp.responder().set_endless_receives();
  burst.set_qp(qp);
  Command c;
  c.kind = CommandKind::kAddQp;
  c.qp = &qp;
  c.endpoint = &burst;
  ASSERT_EQ(rig.command(c), ReplyStatus::kDone);
  rig.advance(Duration::us(10));
  EXPECT_TRUE(rig.sink.sent.empty());  // it waits for its start
  c = Command();
  c.kind = CommandKind::kWakeEndpoint;
  c.endpoint = &burst;
  ASSERT_EQ(rig.command(c), ReplyStatus::kDone);
  rig.advance(Duration::us(10));
  ASSERT_EQ(rig.sink.sent.size(), 3u);
  for (const SentFrame& frame : rig.sink.sent) {
    const Parsed p(frame.bytes);
    EXPECT_EQ(p.roce.opcode, static_cast<uint8_t>(Opcode::kSendOnly));
    EXPECT_EQ(p.roce.payload_bytes, 100u);
  }
  RoceAddressing back = config.addressing;
  std::swap(back.src, back.dst);
  std::swap(back.src_mac, back.dst_mac);
  RoceFields fields;
  fields.dest_qpn = config.qpn;
  fields.opcode = Opcode::kSendOnly;
  const auto done = [&] {
    bool seen = false;
    while (rig.shard.notices().take([&](const Notice& n, std::span<const uint8_t>) {
      EXPECT_EQ(n.kind, NoticeKind::kDone);
      EXPECT_EQ(n.qpn, config.qpn);
      seen = true;
    })) {
    }
    return seen;
  };
  for (uint32_t i = 0; i < 3; ++i) {
    fields.psn = Psn(i);
    rig.receive(roce_frame(back, fields, std::vector<uint8_t>(100)));
    rig.advance(Duration::us(10));
  }
  EXPECT_FALSE(done());  // ours are not acknowledged yet
  fields.opcode = Opcode::kAcknowledge;
  fields.psn = Psn(2);
  fields.syndrome = kNoCredits;
  fields.msn = 3;
  rig.receive(roce_frame(back, fields));
  rig.advance(Duration::us(10));
  EXPECT_TRUE(done());
}

}  // namespace
}  // namespace understudy
