// What a packet costs the engine beside what no emulator can do without: `meson test --benchmark -v
// path_bench`. A stream of WRITEs comes in, is parsed, verified, taken through the links, executed
// and acknowledged. The floor, over the same buffers, in the same run: the MAC addresses swapped
// and the bytes' CRC taken.
//
// Arguments: bytes of payload, and whether the frames are hot (they fit the second-level cache) or
// cold (at least 65,536 of them, beyond the last level). The time is that of a frame, 32 a burst,
// without their making.
#include <benchmark/benchmark.h>
#include <isa-l/crc.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "dataplane/wire/icrc.h"
#include "tests/bench/feed.h"
#include "tests/engine_rig.h"

namespace understudy {
namespace {

constexpr uint32_t kMessagePackets = 16;  ///< of more than kSmall bytes
constexpr uint32_t kSmall = 64;
constexpr uint64_t kRegionBytes = uint64_t{1} << 32;
constexpr auto kLine = [] { return Rate::bits_per_second(400'000'000'000); };

/// An emulated node with one queue pair, and the frames for it.
class Responding {
 public:
  Responding(uint32_t payload, bool cold) : rig_(config()), payload_(payload) {
    const Rkey rkey = rig_.add_region(1, kRegionBytes);
    QpConfig q = rig_.qp_config(0);
    q.mtu = payload > kSmall ? payload : 1024;
    qp_ = std::make_unique<Qp>(q, rig_.shard.regions(), rig_.shard.rc_counters(), endpoint_);
    Command add;
    add.kind = CommandKind::kAddQp;
    add.qp = qp_.get();
    add.endpoint = &endpoint_;
    add.needs_payload = false;  // as for memory that stands for none
    if (rig_.command(add) != ReplyStatus::kDone) std::abort();
    RoceAddressing way = q.addressing;
    std::swap(way.src, way.dst);
    std::swap(way.src_mac, way.dst_mac);
    FeedShape shape;
    shape.payload = payload;
    shape.message_packets = payload > kSmall ? kMessagePackets : 1;
    shape.frames = feed_frames(payload, cold);
    feed_ = std::make_unique<Feed>(std::vector<FeedTarget>{{way, q.qpn, rkey}}, shape);
  }

  static ShardConfig config() {
    ShardConfig c = rig_config(kLine(), Duration::us(1));
    c.wires.front().physical = kLine();  // as fast as what it stands for: the wire is the link
    c.packets = 8192;                    // more than are on their way
    return c;
  }

  Feed& feed() { return *feed_; }
  /// The burst is handled, and what it leads to, up to the time when its last frame is executed.
  void handle(std::span<const std::span<const uint8_t>> frames) {
    rig_.now += kLine().time_for(kBurst * (payload_ + 120));
    rig_.shard.rx({rig_.now, Duration(), frames});
    rig_.shard.poll(rig_.now, sink_);
  }
  /// Everything was executed, nothing dropped, nothing twice.
  void check(uint64_t packets) {
    for (int i = 0; i < 10; ++i) {
      rig_.now += Duration::us(1);
      rig_.shard.poll(rig_.now, sink_);
    }
    const ShardCounters& c = rig_.shard.counters();
    uint64_t drops = 0;
    for (const uint64_t d : c.drops) drops += d;
    const uint32_t per_message = payload_ > kSmall ? kMessagePackets : 1;
    if (drops != 0 || c.rx_roce != packets || rig_.rc(RcEvent::kDuplicateRequest) != 0 ||
        endpoint_.messages != packets / per_message) {
      std::fprintf(stderr, "path_bench: %lu packets, %lu received, %lu dropped, %lu messages\n",
                   packets, c.rx_roce, drops, endpoint_.messages);
      std::abort();
    }
  }
  uint64_t acks() const { return sink_.sent; }

 private:
  struct Counting final : Endpoint {
    void on_received(Time, Qp&, const Received&) override { ++messages; }
    void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}
    uint64_t messages = 0;
  };

  Rig rig_;
  RingSink sink_;
  Counting endpoint_;
  std::unique_ptr<Qp> qp_;
  uint32_t payload_;
  std::unique_ptr<Feed> feed_;
};

template <typename Work>
uint64_t run(benchmark::State& state, Feed& feed, Work work) {
  return run_feed(state, feed, state.range(1) != 0, work);
}

void responder(benchmark::State& state) {
  Responding node(static_cast<uint32_t>(state.range(0)), state.range(1) != 0);
  const uint64_t packets =
      run(state, node.feed(), [&](const auto& frames) { node.handle(frames); });
  node.check(packets);
  state.counters["acks"] =
      benchmark::Counter(static_cast<double>(node.acks()) / static_cast<double>(packets));
}

void swap_macs(uint8_t* frame) {
  std::array<uint8_t, 12> macs;
  std::memcpy(macs.data(), frame + 6, 6);
  std::memcpy(macs.data() + 6, frame, 6);
  std::memcpy(frame, macs.data(), 12);
}

void floor_macswap(benchmark::State& state) {
  Responding node(static_cast<uint32_t>(state.range(0)), state.range(1) != 0);
  run(state, node.feed(), [](const auto& frames) {
    for (const auto frame : frames) swap_macs(const_cast<uint8_t*>(frame.data()));
  });
}

void floor_macswap_crc(benchmark::State& state) {
  Responding node(static_cast<uint32_t>(state.range(0)), state.range(1) != 0);
  run(state, node.feed(), [](const auto& frames) {
    for (const auto frame : frames) {
      swap_macs(const_cast<uint8_t*>(frame.data()));
      benchmark::DoNotOptimize(
          crc32_gzip_refl(0, const_cast<uint8_t*>(frame.data()) + 14, frame.size() - 18));
    }
  });
}

void stage_parse(benchmark::State& state) {
  Responding node(static_cast<uint32_t>(state.range(0)), state.range(1) != 0);
  run(state, node.feed(), [](const auto& frames) {
    for (const auto frame : frames) {
      FrameView view;
      RoceView roce;
      benchmark::DoNotOptimize(parse_frame(frame, view, roce));
      benchmark::DoNotOptimize(roce);
    }
  });
}

void stage_parse_icrc(benchmark::State& state) {
  Responding node(static_cast<uint32_t>(state.range(0)), state.range(1) != 0);
  run(state, node.feed(), [](const auto& frames) {
    for (const auto frame : frames) {
      FrameView view;
      RoceView roce;
      parse_frame(frame, view, roce);
      benchmark::DoNotOptimize(icrc_ok(view, roce));
    }
  });
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"bytes", "cold"})->ArgsProduct({{64, 256, 1024, 4096}, {0, 1}})->UseManualTime();
}
BENCHMARK(floor_macswap)->Apply(sizes);
BENCHMARK(floor_macswap_crc)->Apply(sizes);
BENCHMARK(stage_parse)->Apply(sizes);
BENCHMARK(stage_parse_icrc)->Apply(sizes);
BENCHMARK(responder)->Apply(sizes);

}  // namespace
}  // namespace understudy

BENCHMARK_MAIN();
