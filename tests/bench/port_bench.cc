// The path with the port around it: what the emulator's own port costs a frame in and out, and a
// stream of WRITEs from the port to the port. As testpmd's macswap forwarding, beside which
// tools/experiments/bench shows it, over a DPDK port that has always frames to give and takes all (net_null),
// in buffers that have just been used.
//
// Arguments: bytes of payload; the frames are hot. The time is that of one frame.
#include <cstring>

#include "dataplane/port/dpdk_port.h"
#include "dataplane/runtime/eal.h"
#include "tests/bench/responders.h"

namespace understudy {
namespace {

static_assert(kBurst == kRxBurst);
constexpr uint32_t kHeaders = 14 + 20 + 8 + 12 + 16 + 4;  // of a WRITE ONLY, with its ICRC

/// A port of its own for each benchmark; DPDK's environment is the process's.
std::unique_ptr<DpdkPort> open_port(uint32_t frame_bytes) {
  const std::string device = "net_null0,size=" + std::to_string(frame_bytes);
  static const auto eal = Eal::start({.ports = {{"bench", device}}});
  if (!eal) give_up(eal.error().text);
  auto port = DpdkPort::open({.name = "bench", .device = device});
  if (!port) give_up(port.error().text);
  return std::move(*port);
}

constexpr auto kNothing = [] { return 0; };

void stage_rx(benchmark::State& state) {
  const auto port = open_port(static_cast<uint32_t>(state.range(0)) + kHeaders);
  while (state.KeepRunningBatch(kBurst)) {
    state.SetIterationTime(undisturbed_seconds(
        kNothing, [&](int) { must(port->rx().size() == kBurst, "a full burst"); }));
  }
}

void stage_tx(benchmark::State& state) {
  const uint32_t bytes = static_cast<uint32_t>(state.range(0)) + kHeaders;
  const auto port = open_port(bytes);
  uint64_t sent = 0;
  while (state.KeepRunningBatch(kBurst)) {
    state.SetIterationTime(undisturbed_seconds(kNothing, [&](int) {
      for (size_t i = 0; i < kBurst; ++i) {
        must(port->tx().reserve(bytes) != nullptr, "room for a frame");
        port->tx().commit(bytes, Time::zero());
      }
      port->flush(Time::zero());
      sent += kBurst;
    }));
  }
  must_equal("frames taken", port->counters().tx_frames, sent);
}

/// What comes in is a peer's WRITEs: put into the port's buffers outside the time, for net_null
/// fills none.
class PortResponder {
 public:
  explicit PortResponder(const RespondersSetup& setup)
      : setup_(setup), nodes_(setup), port_(open_port(setup.feed.payload + kHeaders)) {}

  double burst_seconds() {
    const double in = undisturbed_seconds(kNothing, [&](int) { frames_ = port_->rx(); });
    must(frames_.size() == kBurst, "a full burst");
    return in +
           undisturbed_seconds([&] { return fill(); }, [&](const auto& filled) { handle(filled); });
  }
  /// Everything was executed, once, and acknowledged as asked for.
  void check() {
    BenchShard& rig = nodes_.rig();
    for (int i = 0; i < 100; ++i) {
      rig.now += Duration::us(1);
      handle({});
    }
    must_equal("RoCE packets received", rig.shard.counters().rx_roce, filled_);
    must_equal("dropped", rig.drops(), 0);
    must_equal("duplicates", rig.rc(RcEvent::kDuplicateRequest), 0);
    must_equal("NAKs", rig.rc(RcEvent::kNakSent), 0);
    const FeedShape& f = setup_.feed;
    must_equal("ACKs", rig.rc(RcEvent::kAckSent), filled_ / f.message_packets / f.ack_every);
    must_equal("frames sent", port_->counters().tx_frames, rig.rc(RcEvent::kAckSent));
  }
  double acks() const {
    return static_cast<double>(port_->counters().tx_frames) / static_cast<double>(filled_);
  }

 private:
  std::span<const std::span<const uint8_t>> fill() {
    const size_t at = filled_ % nodes_.feed().frames();
    nodes_.feed().number(at, kBurst);
    const auto burst = nodes_.feed().burst(at);
    for (size_t i = 0; i < kBurst; ++i) {
      auto* const to = const_cast<uint8_t*>(frames_[i].data());
      std::memcpy(to, burst[i].data(), burst[i].size());
      filled_frames_[i] = {to, burst[i].size()};
    }
    filled_ += kBurst;
    return filled_frames_;
  }
  [[gnu::noinline]] void handle(std::span<const std::span<const uint8_t>> frames) {
    BenchShard& rig = nodes_.rig();
    rig.now += bench_line().time_for(kBurst * (setup_.feed.payload + 120));
    if (!frames.empty()) rig.shard.rx({rig.now, Duration(), frames});
    rig.shard.poll(rig.now, port_->tx());
    port_->flush(rig.now);
  }

  RespondersSetup setup_;
  Responders nodes_;
  std::unique_ptr<DpdkPort> port_;
  std::span<const std::span<const uint8_t>> frames_;  ///< the port's
  std::array<std::span<const uint8_t>, kBurst> filled_frames_;
  uint64_t filled_ = 0;
};

/// Of 64 bytes a WRITE each, of more a WRITE of 16; one ACK for 16 packets.
void port_responder(benchmark::State& state) {
  RespondersSetup setup;
  setup.feed.payload = static_cast<uint32_t>(state.range(0));
  setup.feed.message_packets = setup.feed.payload > 64 ? 16 : 1;
  setup.feed.ack_every = setup.feed.payload > 64 ? 1 : 16;
  PortResponder nodes(setup);
  while (state.KeepRunningBatch(kBurst)) state.SetIterationTime(nodes.burst_seconds());
  nodes.check();
  state.counters["acks"] = nodes.acks();
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"bytes", "cold"})->ArgsProduct({{64, 256, 1024, 4096}, {0}})->UseManualTime();
}
BENCHMARK(stage_rx)->Apply(sizes);
BENCHMARK(stage_tx)->Apply(sizes);
BENCHMARK(port_responder)->Apply(sizes);

}  // namespace
}  // namespace understudy

BENCHMARK_MAIN();
