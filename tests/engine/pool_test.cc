// A shard's memory is what it was built with: nothing is allocated on the packet path, an empty
// pool or a busy device lose no message, and the same input gives the same bytes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <utility>

#include "dataplane/wire/pfc.h"
#include "tests/engine/rig.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ALLOCATOR_IS_TAKEN  // the sanitizer's own cannot be replaced
#endif
#endif

namespace {
bool counting = false;
size_t allocations = 0;
}  // namespace

#ifndef ALLOCATOR_IS_TAKEN
// Not inlined: the compiler would take malloc and delete, or new and free, for a mismatch.
[[gnu::noinline]] void* operator new(size_t bytes) {
  allocations += counting ? 1 : 0;
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t alignment) {
  allocations += counting ? 1 : 0;
  void* p = nullptr;
  if (posix_memalign(&p, static_cast<size_t>(alignment), bytes) != 0) throw std::bad_alloc();
  return p;
}
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
#endif

namespace understudy {
namespace {

constexpr Time kZero = Time::zero();
const Rate kFast = Rate::bits_per_second(10'000'000'000);

WorkRequest write_of(uint32_t length, Rkey rkey, uint64_t id) {
  WorkRequest r;
  r.id = id;
  r.length = length;
  r.rkey = rkey;
  return r;
}

/// Four connections with traffic both ways, over shards with `packets` packets.
struct Load {
  explicit Load(uint32_t packets) : pair(config(packets, 0), config(packets, 1)) {
    rkey_real = pair.real.add_region(0, 1 << 30);
    rkey_emulated = pair.emulated.add_region(1, 1 << 30);
    for (uint32_t slot = 0; slot < 4; ++slot) {
      QpConfig a = pair.emulated.qp_config(slot), b = pair.real.qp_config(slot, 0, 1);
      a.timeout = b.timeout = 10;
      a.retry_count = b.retry_count = 10;  // the smallest pool loses nearly everything
      pair.emulated.add_qp(a);
      pair.real.add_qp(b);
    }
  }
  static ShardConfig config(uint32_t packets, NodeId real) {
    ShardConfig c = rig_config(kFast, Duration::us(5), 2, real);
    c.packets = packets;
    return c;
  }
  void post(uint64_t id) {
    for (uint32_t slot = 0; slot < 4; ++slot) {
      WorkRequest r = write_of(20'000, rkey_real, id);
      r.op = static_cast<WorkOp>(id % 5);
      ASSERT_TRUE(pair.emulated.shard.post(pair.emulated.now, *pair.emulated.qps[slot], r));
      r = write_of(20'000, rkey_emulated, id);
      r.op = static_cast<WorkOp>((id + slot) % 5);
      ASSERT_TRUE(pair.real.shard.post(pair.real.now, *pair.real.qps[slot], r));
    }
  }
  RigPair pair;
  Rkey rkey_real = 0, rkey_emulated = 0;
};

TEST(Pool, AnEmptyPoolDelaysButLosesNoMessage) {
  for (uint32_t packets : {16u, 32u, 64u}) {
    Load load(packets);
    for (uint64_t id = 0; id < 20; ++id) load.post(id);
    load.pair.run(kZero + Duration::s(20));
    EXPECT_EQ(load.pair.real.endpoint.completed.size(), 80u) << packets;
    EXPECT_EQ(load.pair.emulated.endpoint.completed.size(), 80u) << packets;
    EXPECT_EQ(load.pair.real.endpoint.failures + load.pair.emulated.endpoint.failures, 0u)
        << packets;
  }
}

TEST(Pool, TwoSendersTakeTurnsInASmallPool) {
  // More to send than fits: both go on as packets come free, nobody waits for a timer.
  ShardConfig config = rig_config(kFast, Duration::us(50), 3);
  config.packets = 4;
  Rig rig(config);
  for (NodeId node : {1u, 2u}) {
    Qp& qp = rig.add_qp(rig.qp_config(node, node));
    WorkRequest r = write_of(100'000, 0x100, node);
    ASSERT_TRUE(rig.shard.post(rig.now, qp, r));
  }
  rig.advance(Duration::ms(50));
  EXPECT_EQ(rig.endpoint.transmitted.size(), 2u);
  EXPECT_EQ(rig.sink.sent.size(), 2u * 98);
}

TEST(Pool, ABusyDeviceDelaysOnly) {
  Load load(256);
  load.pair.emulated.sink.room = 0;
  load.post(0);
  load.pair.emulated.poll(kZero + Duration::us(100));
  EXPECT_GT(load.pair.emulated.shard.counters().tx_busy, 0u);
  load.pair.emulated.sink.room = SIZE_MAX;
  load.pair.run(kZero + Duration::ms(100));
  EXPECT_EQ(load.pair.real.endpoint.completed.size(), 4u);
  EXPECT_EQ(load.pair.emulated.endpoint.completed.size(), 4u);
  EXPECT_GE(load.pair.emulated.shard.counters().lateness.max(), Duration::us(1));
}

TEST(Pool, LatenessIsWhatTheLoopAdds) {
  Rig rig(rig_config(kFast, Duration::us(5)));
  Qp& qp = rig.add_qp(rig.qp_config(0));
  ASSERT_TRUE(rig.shard.post(rig.now, qp, write_of(64, 0x100, 1)));
  const Time due = kZero + Duration::us(10) + kFast.time_for(64 + 98);
  rig.poll(due - Duration::ps(1));
  EXPECT_TRUE(rig.sink.sent.empty());
  rig.poll(due + Duration::ns(700));
  ASSERT_EQ(rig.sink.sent.size(), 1u);
  EXPECT_EQ(rig.sink.sent[0].scheduled, due);
  EXPECT_EQ(rig.shard.counters().lateness.max(), Duration::ns(700));
}

TEST(Pool, TheSameInputGivesTheSameBytes) {
  std::vector<SentFrame> first[2];
  for (int run = 0; run < 2; ++run) {
    Load load(64);
    for (uint64_t id = 0; id < 10; ++id) load.post(id);
    load.pair.run(kZero + Duration::s(1));
    auto& kept = first[run];
    kept = load.pair.to_real;
    kept.insert(kept.end(), load.pair.to_emulated.begin(), load.pair.to_emulated.end());
  }
  ASSERT_EQ(first[0].size(), first[1].size());
  ASSERT_GT(first[0].size(), 500u);
  for (size_t i = 0; i < first[0].size(); ++i) {
    ASSERT_EQ(first[0][i].bytes, first[1][i].bytes) << i;
    ASSERT_EQ(first[0][i].scheduled, first[1][i].scheduled) << i;
  }
}

/// Both nodes behind leaves of their own, with `spines` ways between them.
std::shared_ptr<SwitchedNetwork> leaf_spine(unsigned spines) {
  auto network = std::make_shared<SwitchedNetwork>();
  Graph& g = network->graph;
  const auto add = [&](VertexKind kind, uint8_t tier) {
    return g.add_vertex({kind, "v" + std::to_string(g.vertices().size()), 0, 0, tier});
  };
  std::vector<VertexId> leaves;
  for (int i = 0; i < 2; ++i) {
    const VertexId nic = add(VertexKind::kNic, 0);
    leaves.push_back(add(VertexKind::kSwitch, 1));
    network->nics.push_back(nic);
    network->cables.push_back({g.connect(nic, leaves.back(), kFast, Duration::us(1))});
  }
  for (unsigned i = 0; i < spines; ++i) {
    const VertexId spine = add(VertexKind::kSwitch, 2);
    for (const VertexId leaf : leaves) g.connect(leaf, spine, kFast, Duration::us(1));
  }
  network->settings.classes.resize(1);
  return network;
}

void nothing_is_allocated(const ShardConfig& config) {
  Rig rig(config);
  std::vector<uint8_t> memory(1 << 16);
  const Rkey rkey = rig.add_region(1, memory.size(), memory.data());
  Qp& qp = rig.add_qp(rig.qp_config(0));
  RoceAddressing from = qp.config().addressing;
  std::swap(from.src, from.dst);
  std::vector<std::vector<uint8_t>> frames;
  RoceFields f;
  f.dest_qpn = qp.config().qpn;
  f.rkey = rkey;
  f.ack_request = true;
  for (uint32_t i = 0; i < 2000; ++i) {
    from.udp_src =
        static_cast<uint16_t>(0xc000 + i);  // another way each time, if there are several
    f.psn = Psn(i);
    f.opcode = i % 4 == 0   ? Opcode::kReadRequest
               : i % 4 == 1 ? Opcode::kWriteOnly
               : i % 4 == 2 ? Opcode::kSendOnly
                            : Opcode::kWriteOnlyImm;
    f.dma_length = 512;
    frames.push_back(roce_frame(from, f, std::vector<uint8_t>(i % 4 == 0 ? 0 : 512)));
  }
  std::vector<uint8_t> pause(kPfcFrameBytes);
  write_pfc({{}, 0xff, {9, 9, 9, 9, 9, 9, 9, 9}}, pause.data());
  rig.endpoint.received.reserve(4000);
  rig.endpoint.completed.reserve(4000);
  rig.endpoint.transmitted.reserve(4000);
  rig.endpoint.woken.reserve(4000);
  rig.sink.keep = false;
  rig.sink.reserve(2000);
  counting = true;
  for (uint32_t i = 0; i < frames.size(); ++i) {
    rig.receive(frames[i]);
    if (i % 8 == 0) rig.receive(pause);
    if (i % 16 == 0) {
      WorkRequest r = write_of(3000, rkey, i);
      ASSERT_TRUE(rig.shard.post(rig.now, qp, r));
      rig.shard.wake_at(rig.now + Duration::us(3), rig.endpoint, i);
    }
    Command c;
    c.kind = CommandKind::kSetLink;
    c.node = 1;
    c.change.latency = Duration::us(5);
    c.effective = rig.now + Duration::us(2);
    counting = false;  // what control says may have to be given room, by control
    rig.shard.commands().push(c);
    counting = true;
    rig.advance(Duration::us(1));
    Reply reply;
    while (rig.shard.replies().pop(reply)) {
    }
  }
  counting = false;
  EXPECT_EQ(std::exchange(allocations, 0), 0u);
  EXPECT_GT(rig.sink.unkept, 2000u);
}

TEST(Pool, NothingIsAllocatedOnThePacketPath) {
#ifdef ALLOCATOR_IS_TAKEN
  GTEST_SKIP() << "allocations cannot be counted under the thread sanitizer";
#endif
  nothing_is_allocated(rig_config(kFast, Duration::us(5)));
  ShardConfig config = rig_config(kFast, Duration::us(5));
  config.network = leaf_spine(40);
  nothing_is_allocated(config);
  // Pauses of both sides, all the time.
  auto lossless = std::make_shared<SwitchedNetwork>(*leaf_spine(40));
  ClassSettings& all = lossless->settings.classes[0];
  all.pfc = PfcSettings{};
  all.pfc->xoff = all.pfc->xon = 1;
  all.pfc->headroom = 1 << 20;
  config.network = lossless;
  config.wires[0].pfc = {true, kFast};
  nothing_is_allocated(config);
}

}  // namespace
}  // namespace understudy
