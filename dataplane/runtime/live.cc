#include "dataplane/runtime/live.h"

#include "dataplane/base/try.h"
#include "dataplane/port/capture.h"
#include "dataplane/port/dpdk_port.h"
#include "dataplane/port/staged_port.h"
#include "dataplane/runtime/clock.h"
#include "dataplane/runtime/eal.h"
#include "dataplane/runtime/lcore_thread.h"
#include "dataplane/runtime/stage_thread.h"
#include "dataplane/runtime/worker.h"

namespace understudy {
namespace {

class LiveImpl final : public Live {
 public:
  Result<void> init(const LiveOptions& options) {
    options_ = options;
    EalOptions eal;
    eal.verbose = options.verbose;
    for (const LivePort& port : options.ports) {
      eal.ports.push_back({port.name, port.device, port.cores});
    }
    eal_ = TRY(Eal::start(eal));
    for (const LivePort& port : options.ports) {
      auto opened = TRY(DpdkPort::open({port.name, port.device, port.transmit_time_stamps}));
      ports_.push_back(std::move(opened));
      staged_.emplace_back();
      if (port.cores == 1) continue;
      staged_.back() = TRY(StagedPort::open(*ports_.back(), port.cores, port.verify_icrc));
    }
    if (options.capture_path.empty()) return {};
    CaptureOptions capture;
    capture.path = options.capture_path;
    capture.application = "understudy run";
    capture.epoch = clock_.epoch();
    for (const LivePort& port : options.ports) capture.interfaces.push_back(port.name);
    capture_ = TRY(open_threaded_capture(capture));
    for (size_t i = 0; i < ports_.size(); ++i) {
      CaptureTap* tap = &capture_->tap(i);
      if (staged_[i]) tap = taps_.emplace_back(std::make_unique<SharedTap>(*tap)).get();
      ports_[i]->set_capture(tap);
    }
    return {};
  }

  ~LiveImpl() override {
    end_threads();
    worker_.reset();  // before the ports it uses
    staged_.clear();
    ports_.clear();  // before DPDK
  }

  Result<void> start(const std::vector<LiveShard>& shards) override {
    std::vector<Worker::Attachment> attachments;
    for (const LiveShard& shard : shards) {
      Worker::Attachment& made = attachments.emplace_back();
      made.shard = shard.shard;
      for (const size_t port : shard.ports) {
        made.ports.push_back(staged_[port] ? static_cast<Port*>(staged_[port].get())
                                           : ports_[port].get());
      }
    }
    WorkerConfig config;
    config.idle = options_.spin ? IdlePolicy::kSpin : IdlePolicy::kSleep;
    worker_ = std::make_unique<Worker>(clock_, config, attachments);
    auto started = worker_thread_.start(Eal::kWorkerLcore, [this] { worker_->run(); });
    if (!started) return started;
    return start_stages(config.idle);
  }

  Result<void> stop() override {
    end_threads();
    if (!capture_) return {};
    for (size_t i = 0; i < ports_.size(); ++i) {
      capture_->device_drops(i, ports_[i]->counters().rx_missed);
    }
    auto closed = capture_->close();
    capture_drops_ = capture_->drops();
    for (auto& port : ports_) port->set_capture(nullptr);
    capture_.reset();
    return closed;
  }

  Time now() const override { return clock_.now(); }
  int64_t started_seconds() const override { return clock_.epoch().seconds; }
  void note_change(const LinkChange& change) override {
    if (capture_) capture_->link_change(change);
  }

  WorkerStats loop() const override { return worker_ ? worker_->stats() : WorkerStats{}; }
  PortCounters device(size_t port) const override { return ports_[port]->counters(); }
  bool has_transmit_time_stamps(size_t port) const override {
    return ports_[port]->has_transmit_time_stamps();
  }
  bool uses_transmit_time_stamps(size_t port) const override {
    return ports_[port]->uses_transmit_time_stamps();
  }
  uint64_t capture_drops() const override { return capture_drops_; }

 private:
  Result<void> start_stages(IdlePolicy idle) {
    unsigned lcore = Eal::kWorkerLcore;
    for (const auto& port : staged_) {
      if (!port) continue;
      const auto begin = [&](std::vector<std::unique_ptr<StageThread>>& threads,
                             StageThread::Turn turn) {
        threads.push_back(std::make_unique<StageThread>(idle, std::move(turn)));
        return threads.back()->start(++lcore);
      };
      const auto receive = [this, &stage = port->receive_stage(), polled = clock_.now()]() mutable {
        const Time before = std::exchange(polled, clock_.now());
        if (!stage.receive()) return false;
        const Time at = clock_.now();
        stage.hand_on(at, at - before);
        return true;
      };
      TRY(begin(receivers_, receive));
      TransmitStage* const transmit = port->transmit_stage();
      if (transmit == nullptr) continue;
      const auto send = [this, transmit] {
        const bool some = transmit->take();
        transmit->send(clock_.now());
        return some;
      };
      TRY(begin(senders_, send));
    }
    return {};
  }
  /// In the order in which packets go through them, so that what is on its way still leaves.
  void end_threads() {
    for (const auto& thread : receivers_) thread->stop();
    if (worker_) worker_->request_stop();
    worker_thread_.wait();
    for (const auto& thread : senders_) thread->stop();
  }

  LiveOptions options_;
  Clock clock_;
  std::unique_ptr<Eal> eal_;
  std::vector<std::unique_ptr<DpdkPort>> ports_;
  std::vector<std::unique_ptr<StagedPort>> staged_;  ///< of those with several cores
  std::vector<std::unique_ptr<SharedTap>> taps_;     ///< of these
  std::unique_ptr<Capture> capture_;
  std::unique_ptr<Worker> worker_;
  LcoreThread worker_thread_;
  std::vector<std::unique_ptr<StageThread>> receivers_, senders_;
  uint64_t capture_drops_ = 0;
};

}  // namespace

std::string doubt_about(const LiveOptions& options) {
  unsigned threads = 1;
  for (const LivePort& port : options.ports) threads += port.cores - 1;
  const unsigned cpus = Eal::cpus();
  if (!options.spin || threads <= cpus) return "";
  return std::to_string(threads) + " threads poll without a pause, but this process may run on " +
         std::to_string(cpus) + " CPU" + (cpus == 1 ? "" : "s") +
         ": they wait for each other; fewer [[port]] cores or [fidelity] idle = \"sleep\" mend it";
}

std::string why_no_live() { return ""; }

Result<std::unique_ptr<Live>> Live::open(const LiveOptions& options) {
  auto live = std::make_unique<LiveImpl>();
  TRY(live->init(options));
  return live;
}

}  // namespace understudy
