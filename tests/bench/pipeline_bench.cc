// One port over several cores: `meson test --benchmark -v pipeline_bench`. A peer's WRITEs of 16
// packets (of 64 bytes, each a packet) come out of a DPDK port that has always frames to give
// (net_null), are received, parsed and verified, executed and acknowledged, and the ACKs sent.
//
// `stages`: the stages in turn on one core, a burst each. The time is that of a frame in the
// slowest of them, which many cores would wait for; `receive`, `engine` and `send` are theirs (ns a
// frame), 0 where the stage is part of the engine's. What cores cost one another is not in them.
// `threads`: a thread each on a core each, by the wall, over 65,536 frames; with as many cores only
// as the machine has. Making the frames what they have to be is in the time of `threads`, in the
// stage that receives, and not in that of `stages`.
#include <pthread.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "dataplane/port/staged_port.h"
#include "dataplane/runtime/eal.h"
#include "tests/bench/responders.h"

namespace understudy {
namespace {

static_assert(kBurst == kRxBurst);
constexpr size_t kFrames = 1 << 16;
constexpr uint32_t kHeaders = 14 + 20 + 8 + 12 + 16 + 4;  // of a WRITE ONLY, with its ICRC

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Writes a peer's frames over what net_null gives. Their payload, but for the bytes next to
/// headers and ICRC, is the same in all, and stays in the device's buffers.
class Filler final : public CaptureTap {
 public:
  explicit Filler(uint32_t payload) : bytes_(payload + kHeaders), tail_at_(bytes_ - kTail) {}

  void keep(std::span<const std::span<const uint8_t>> frames) {
    for (const auto frame : frames) {
      Kept& kept = kept_.emplace_back();
      std::memcpy(kept.head.data(), frame.data(), kHead);
      std::memcpy(kept.tail.data(), frame.data() + tail_at_, kTail);
    }
  }
  void begin_again() { filled_ = 0; }
  size_t filled() const { return filled_; }
  /// Taken by this since it was asked last.
  double seconds() { return std::exchange(seconds_, 0); }

  void frame(CaptureDirection direction, Time, Time, std::span<const uint8_t> frame) override {
    if (direction == CaptureDirection::kIn) write(const_cast<uint8_t*>(frame.data()), filled_++);
  }
  void write(uint8_t* to, size_t number) {
    if (number % kBurst == 0) began_ = seconds_now();
    if (to[tail_at_ - 1] != kFeedFill || to[kHead] != kFeedFill) {
      std::memset(to, kFeedFill, bytes_);
    }
    const Kept& kept = kept_[number];
    std::memcpy(to, kept.head.data(), kHead);
    std::memcpy(to + tail_at_, kept.tail.data(), kTail);
    if (number % kBurst == kBurst - 1) seconds_ += seconds_now() - began_;
  }

 private:
  static constexpr size_t kHead = 70, kTail = 20;
  struct Kept {
    std::array<uint8_t, kHead> head;
    std::array<uint8_t, kTail> tail;
  };
  size_t bytes_, tail_at_;
  std::vector<Kept> kept_;
  size_t filled_ = 0;
  double began_ = 0, seconds_ = 0;
};

/// Seconds in each stage.
struct Took {
  double receive = 0, engine = 0, send = 0;
};

class Pipeline {
 public:
  Pipeline(uint32_t payload, unsigned cores) : nodes_(setup(payload)), filler_(payload) {
    const std::string device = "net_null0,size=" + std::to_string(payload + kHeaders);
    static const auto eal = Eal::start({.ports = {{"bench", device, 3}}});
    if (!eal) give_up(eal.error().text);
    auto port = DpdkPort::open({.name = "bench", .device = device});
    if (!port) give_up(port.error().text);
    device_ = std::move(*port);
    if (cores == 1) return;
    auto staged = StagedPort::open(*device_, cores, true);
    if (!staged) give_up(staged.error().text);
    staged_ = std::move(*staged);
    device_->set_capture(&filler_);
  }

  /// The next frames of the peer, those of one pass.
  void number() {
    Feed& feed = nodes_.feed();
    std::vector<std::span<const uint8_t>> views;
    filler_ = Filler(nodes_setup_.feed.payload);
    for (size_t i = 0; i < kFrames; i += kBurst) {
      feed.number(0, kBurst);
      filler_.keep(feed.burst(0));
    }
    passes_ += 1;
  }
  bool is_received() const { return filler_.filled() == kFrames; }

  // Each one's turn; false if there was nothing to do.
  bool receive() {
    ReceiveStage& stage = staged_->receive_stage();
    if (is_received() || !stage.receive()) return false;
    received_at_ += burst_time();
    stage.hand_on(received_at_, Duration());
    return true;
  }
  bool engine() {
    BenchShard& rig = nodes_.rig();
    if (staged_ == nullptr) {
      if (is_received()) return false;
      const auto frames = device_->rx();
      for (const auto frame : frames) {
        filler_.frame(CaptureDirection::kIn, Time(), Time(), frame);
      }
      rig.now += burst_time();
      return handle(*device_, {rig.now, Duration(), frames});
    }
    RxBurst burst;
    if (!staged_->source()->next(burst)) return false;
    rig.now = std::max(rig.now, burst.at);
    return handle(*staged_, burst);
  }
  bool send() {
    TransmitStage* const stage = staged_ == nullptr ? nullptr : staged_->transmit_stage();
    if (stage == nullptr) return false;
    const bool some = stage->take();
    stage->send(nodes_.rig().now);
    return some;
  }
  /// In the pass.
  uint64_t handled() const { return handled_; }
  void begin_pass() {
    handled_ = 0;
    received_at_ = nodes_.rig().now;
  }

  /// One burst through all stages, after one another.
  Took turn() {
    Took took;
    const double begin = seconds_now();
    if (staged_ != nullptr) must(receive(), "a burst");
    const double received = seconds_now();
    must(engine(), "a burst for the engine");
    while (staged_ != nullptr && engine()) {
    }
    const double handled = seconds_now();
    send();
    took.send = seconds_now() - handled;
    const double filling = filler_.seconds();
    took.receive = received - begin - (staged_ != nullptr ? filling : 0);
    took.engine = handled - received - (staged_ == nullptr ? filling : 0);
    return took;
  }

  /// Everything was executed, once, and acknowledged as asked for.
  void check() {
    BenchShard& rig = nodes_.rig();
    for (int i = 0; i < 100; ++i) {
      rig.now += Duration::us(1);
      rig.shard.poll(rig.now, tx());
      flush();
      while (send()) {
      }
    }
    const uint64_t frames = passes_ * kFrames;
    must_equal("RoCE packets received", rig.shard.counters().rx_roce, frames);
    must_equal("dropped", rig.drops(), 0);
    must_equal("duplicates", rig.rc(RcEvent::kDuplicateRequest), 0);
    must_equal("NAKs", rig.rc(RcEvent::kNakSent), 0);
    const FeedShape& f = nodes_setup_.feed;
    must_equal("ACKs", rig.rc(RcEvent::kAckSent), frames / f.message_packets);
    must_equal("frames sent", device_->counters().tx_frames, rig.rc(RcEvent::kAckSent));
  }

 private:
  static RespondersSetup setup(uint32_t payload) {
    RespondersSetup s;
    s.feed.payload = payload;
    s.feed.message_packets = payload > 64 ? 16 : 1;
    return s;
  }
  Duration burst_time() const {
    return bench_line().time_for(kBurst * (nodes_setup_.feed.payload + 120));
  }
  TxSink& tx() { return staged_ == nullptr ? device_->tx() : staged_->tx(); }
  void flush() {
    Port* const port = staged_ == nullptr ? static_cast<Port*>(device_.get()) : staged_.get();
    port->flush(nodes_.rig().now);
  }
  bool handle(Port& port, const RxBurst& burst) {
    BenchShard& rig = nodes_.rig();
    rig.shard.rx(burst);
    rig.shard.poll(rig.now, port.tx());
    port.flush(rig.now);
    handled_ += burst.frames.size();
    return true;
  }

  Responders nodes_;
  const RespondersSetup& nodes_setup_ = nodes_.setup();
  Filler filler_;
  std::unique_ptr<DpdkPort> device_;
  std::unique_ptr<StagedPort> staged_;
  Time received_at_;
  uint64_t passes_ = 0, handled_ = 0;
};

void stages(benchmark::State& state) {
  const auto cores = static_cast<unsigned>(state.range(1));
  Pipeline pipeline(static_cast<uint32_t>(state.range(0)), cores);
  Took all;
  uint64_t frames = 0;
  for (auto _ : state) {
    pipeline.number();
    pipeline.begin_pass();
    Took pass;
    uint64_t counted = 0;
    while (pipeline.handled() < kFrames) {
      Took one;
      // A burst during which others had the core is not counted.
      if (undisturbed([&] { one = pipeline.turn(); })) {
        pass.receive += one.receive;
        pass.engine += one.engine;
        pass.send += one.send;
        counted += kBurst;
      }
    }
    const auto ns = [&](double seconds) { return seconds / static_cast<double>(counted); };
    state.SetIterationTime(std::max({ns(pass.receive), ns(pass.engine), ns(pass.send)}));
    all.receive += pass.receive;
    all.engine += pass.engine;
    all.send += pass.send;
    frames += counted;
  }
  pipeline.check();
  const auto ns = [&](double seconds) { return seconds / static_cast<double>(frames) * 1e9; };
  state.counters["receive"] = ns(all.receive);
  state.counters["engine"] = ns(all.engine);
  state.counters["send"] = ns(all.send);
}

void stay_on(size_t core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  must(pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0, "a core for each thread");
}

void threads(benchmark::State& state) {
  const auto cores = static_cast<unsigned>(state.range(1));
  if (std::thread::hardware_concurrency() < cores) {
    return state.SkipWithError("the machine has fewer cores");
  }
  Pipeline pipeline(static_cast<uint32_t>(state.range(0)), cores);
  for (auto _ : state) {
    pipeline.number();
    pipeline.begin_pass();
    std::atomic<bool> go = false, ended = false;
    std::vector<std::thread> others;
    const auto beside = [&](size_t core, auto turn) {
      others.emplace_back([&, core, turn] {
        stay_on(core);
        while (!go) {
        }
        while (!ended.load(std::memory_order_relaxed)) turn();
      });
    };
    if (cores > 1) beside(1, [&] { pipeline.receive(); });
    if (cores > 2) beside(2, [&] { pipeline.send(); });
    stay_on(0);
    go = true;
    const double begin = seconds_now();
    while (pipeline.handled() < kFrames) pipeline.engine();
    const double took = seconds_now() - begin;
    ended = true;
    for (std::thread& thread : others) thread.join();
    state.SetIterationTime(took / kFrames);
  }
  pipeline.check();
}

constexpr int64_t kPasses = 5;

BENCHMARK(stages)
    ->ArgNames({"bytes", "cores"})
    ->ArgsProduct({{64, 1024, 4096}, {1, 2, 3}})
    ->UseManualTime()
    ->Iterations(kPasses);
BENCHMARK(threads)
    ->ArgNames({"bytes", "cores"})
    ->ArgsProduct({{64, 1024, 4096}, {1, 2}})
    ->UseManualTime()
    ->Iterations(kPasses);

}  // namespace
}  // namespace understudy

BENCHMARK_MAIN();
