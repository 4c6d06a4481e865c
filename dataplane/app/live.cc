#include "dataplane/app/live.h"

#include "dataplane/app/clock.h"
#include "dataplane/app/eal.h"
#include "dataplane/app/worker.h"
#include "dataplane/port/capture.h"
#include "dataplane/port/dpdk_port.h"

namespace understudy {
namespace {

class LiveImpl final : public Live {
 public:
  Result<void> init(const LiveOptions& options) {
    options_ = options;
    EalOptions eal;
    eal.verbose = options.verbose;
    for (const LivePort& port : options.ports) eal.ports.push_back({port.name, port.device});
    auto started = Eal::start(eal);
    if (!started) return fail(started.error().text);
    eal_ = std::move(*started);
    for (const LivePort& port : options.ports) {
      auto opened = DpdkPort::open({port.name, port.device, port.transmit_time_stamps});
      if (!opened) return fail(opened.error().text);
      ports_.push_back(std::move(*opened));
    }
    if (options.capture_path.empty()) return {};
    CaptureOptions capture;
    capture.path = options.capture_path;
    capture.application = "understudy run";
    capture.epoch = clock_.epoch();
    for (const LivePort& port : options.ports) capture.interfaces.push_back(port.name);
    auto file = open_threaded_capture(capture);
    if (!file) return fail(file.error().text);
    capture_ = std::move(*file);
    for (size_t i = 0; i < ports_.size(); ++i) ports_[i]->set_capture(&capture_->tap(i));
    return {};
  }

  ~LiveImpl() override {
    worker_.reset();  // before the ports it uses
    ports_.clear();   // before DPDK
  }

  Result<void> start(const std::vector<LiveShard>& shards) override {
    std::vector<Worker::Attachment> attachments;
    for (const LiveShard& shard : shards) {
      Worker::Attachment& made = attachments.emplace_back();
      made.shard = shard.shard;
      for (const size_t port : shard.ports) made.ports.push_back(ports_[port].get());
    }
    WorkerConfig config;
    config.idle = options_.spin ? IdlePolicy::kSpin : IdlePolicy::kSleep;
    worker_ = std::make_unique<Worker>(clock_, config, attachments);
    return worker_->start();
  }

  Result<void> stop() override {
    if (worker_) worker_->stop();
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
  uint64_t capture_drops() const override { return capture_drops_; }

 private:
  LiveOptions options_;
  Clock clock_;
  std::unique_ptr<Eal> eal_;
  std::vector<std::unique_ptr<DpdkPort>> ports_;
  std::unique_ptr<Capture> capture_;
  std::unique_ptr<Worker> worker_;
  uint64_t capture_drops_ = 0;
};

}  // namespace

Result<std::unique_ptr<Live>> Live::open(const LiveOptions& options) {
  auto live = std::make_unique<LiveImpl>();
  if (auto opened = live->init(options); !opened) return fail(opened.error().text);
  return live;
}

}  // namespace understudy
