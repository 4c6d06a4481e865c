// Many connections, one after the other and at once: none fails, numbers come back, and memory
// stays what it was.
#include <gtest/gtest.h>

#include "ctrl/shards/shard_control.h"
#include "dataplane/node/services.h"
#include "tests/engine/rig.h"
#include "tests/rigs/live_bytes.h"

namespace understudy {
namespace {

constexpr uint32_t kOpenedAndClosed = 100'000;
constexpr uint32_t kAtOnce = 64 << 10;
constexpr uint32_t kSendQueue = 4;

/// Opens connections to memory of node 1, writes to each, and closes the oldest.
class Visitors {
 public:
  Visitors() : rig_(config()), control_(rig_.shard) { rig_.sink.keep = false; }

  void visit(uint32_t connections) {
    for (uint32_t i = 0; i < connections; ++i) {
      open();
      while (open_.size() > 5) close();
    }
    while (!open_.empty()) close();
  }
  uint64_t answers() const { return rig_.rc(RcEvent::kAckSent); }
  uint64_t drops() const {
    uint64_t n = 0;
    for (const uint64_t d : rig_.shard.counters().drops) n += d;
    return n;
  }

 private:
  struct Visitor {
    Qpn qpn;
    ExposedRegion region;
  };

  static ShardConfig config() {
    ShardConfig c = rig_config(Rate::bits_per_second(100'000'000'000), Duration::us(1));
    c.queue_pairs = 256;
    c.regions = 256;
    return c;
  }

  void settle() {
    rig_.advance(Duration::us(10));
    control_.poll();
  }

  void open() {
    const RegionKind kind = opened_ % 2 == 0 ? RegionKind::kBacked : RegionKind::kDiscard;
    const auto region = control_.add_region(1, 4096, kAccessRemoteWrite, kind);
    ASSERT_TRUE(region);
    QpConfig c = rig_.qp_config(0);
    c.qpn = control_.take_qpn();
    ASSERT_NE(c.qpn, 0u) << opened_;
    c.rq_psn = Psn(opened_++);
    c.send_queue = kSendQueue;
    control_.add_qp(c, target_, true);
    settle();
    RoceFields f;
    f.opcode = Opcode::kWriteOnly;
    f.dest_qpn = c.qpn;
    f.psn = c.rq_psn;
    f.va = region->va;
    f.rkey = region->rkey;
    f.dma_length = 64;
    f.ack_request = true;
    RoceAddressing a = c.addressing;
    std::swap(a.src, a.dst);
    rig_.receive(roce_frame(a, f, std::vector<uint8_t>(64)));
    settle();
    open_.push_back({c.qpn, *region});
  }

  void close() {
    control_.remove_qp(open_.front().qpn);
    control_.remove_region(open_.front().region.index);
    open_.pop_front();
    settle();
  }

  Rig rig_;
  ShardControl control_;
  MemoryTarget target_;
  std::deque<Visitor> open_;
  uint32_t opened_ = 0;
};

TEST(Endurance, ConnectionsOpenedAndClosed) {
  Visitors visitors;
  visitors.visit(1000);  // the tables have come round
  const long long before = live_bytes;
  visitors.visit(kOpenedAndClosed);
  EXPECT_LT(std::abs(live_bytes - before), 4096);
  EXPECT_EQ(visitors.answers(), kOpenedAndClosed + 1000u);
  EXPECT_EQ(visitors.drops(), 0u);
}

TEST(Endurance, QueuePairsAtOnce) {
  const long long before = live_bytes;
  ShardConfig config = rig_config(Rate::bits_per_second(400'000'000'000), Duration::us(1));
  config.queue_pairs = kAtOnce;
  config.packets = 2048;
  ShardConfig far = rig_config(Rate(), Duration(), 2, 1);
  far.queue_pairs = kAtOnce;
  far.packets = 2048;
  RigPair pair(config, far);
  const Rkey rkey = pair.real.add_region(0, 4096);
  for (uint32_t slot = 0; slot < kAtOnce; ++slot) {
    QpConfig near = pair.emulated.qp_config(slot), peer = pair.real.qp_config(slot, 0, 1);
    near.send_queue = peer.send_queue = kSendQueue;
    near.max_dest_rd_atomic = peer.max_dest_rd_atomic = 4;
    pair.emulated.add_qp(near);
    pair.real.add_qp(peer);
  }
  const long long each = (live_bytes - before) / (2 * kAtOnce);
  EXPECT_LT(each, 6000) << "bytes a queue pair";
  WorkRequest r;
  r.length = 64;
  r.rkey = rkey;
  for (auto& qp : pair.emulated.qps) {
    ASSERT_TRUE(pair.emulated.shard.post(pair.emulated.now, *qp, r));
  }
  for (int ms = 1; ms <= 20; ++ms) {
    pair.run(Time::zero() + Duration::ms(ms));
    pair.to_real.clear();
    pair.to_emulated.clear();
  }
  EXPECT_EQ(pair.emulated.endpoint.completed.size(), kAtOnce);
  EXPECT_EQ(pair.real.endpoint.received.size(), kAtOnce);
  EXPECT_EQ(pair.emulated.endpoint.failures, 0u);
  EXPECT_EQ(pair.emulated.rc(RcEvent::kRetransmit), 0u);
}

}  // namespace
}  // namespace understudy
