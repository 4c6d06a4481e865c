#include "ctrl/session/live_run.h"

#include <algorithm>
#include <csignal>
#include <memory>

#include "ctrl/build/rail.h"
#include "ctrl/hostns/host_namespace.h"
#include "ctrl/peers/socket_adapter.h"
#include "ctrl/report/collect.h"
#include "ctrl/session/commands_text.h"
#include "ctrl/session/control_socket.h"
#include "ctrl/session/deadlock.h"
#include "ctrl/session/emulated_side.h"
#include "ctrl/session/host_bridge.h"
#include "ctrl/session/real_time_budget.h"
#include "ctrl/session/start_report.h"
#include "ctrl/session/switched_run.h"
#include "dataplane/app/live.h"

namespace understudy {
namespace {

constexpr int kPollMs = 1;
/// Between turns while messages wait for their operation to become known.
constexpr long kNapNs = 50'000;
constexpr Duration kStatusEvery = Duration::s(2);
constexpr Duration kSearchEvery = Duration::s(1);
/// A live command takes effect so much later: the packet loop has it by then, though this thread
/// may have to wait for a processor.
constexpr Duration kCommandLead = Duration::ms(10);
/// Most that is waited for those whose connections are closed at the end.
constexpr Duration kHangUp = Duration::ms(200);

/// Everything of one run, built in the order of its members.
class LiveRun {
 public:
  LiveRun(const Config& config, const LiveRunOptions& options)
      : config_(config), options_(options), report_(start_report(config, false)) {}

  Result<void> open();
  Result<void> run();
  RunReport finish();

 private:
  Result<void> open_host();
  Result<void> open_listeners();
  void schedule(const EventConfig& event);
  std::string command(const std::string& text);
  bool signalled() const { return options_.signal != nullptr && *options_.signal != 0; }
  bool over() const;
  void look_for_deadlock();
  /// One turn of control's loop, which waits for sockets as long as kPollMs, or a short while.
  void turn();
  void hang_up();
  void say(const std::string& line) const {
    if (options_.progress) options_.progress(line);
  }

  const Config& config_;
  const LiveRunOptions& options_;
  RunReport report_;
  std::unique_ptr<HostNamespace> host_;
  std::unique_ptr<SwitchedRun> switched_;  ///< null: no switches
  std::optional<DeadlockSearch> search_;   ///< where there are some
  Time next_search_;
  bool deadlocked_ = false;
  std::vector<PortList> shard_ports_;
  std::vector<std::unique_ptr<Shard>> shards_;  ///< of these
  std::vector<std::unique_ptr<ShardControl>> controls_;
  std::unique_ptr<Live> live_;
  std::unique_ptr<HostBridge> bridge_;
  std::unique_ptr<EmulatedSide> side_;
  std::optional<SocketAdapter> sockets_;
  std::unique_ptr<ControlSocket> control_socket_;
  std::vector<EventConfig> changes_;  ///< link changes that the capture has yet to be told of
};

Result<void> LiveRun::open_host() {
  if (config_.jobs.empty() && config_.services.empty() && config_.clients.empty()) return {};
  auto host = HostNamespace::create(emulated_addresses(config_));
  if (!host) return fail(host.error().text);
  host_ = std::move(*host);
  return {};
}

Result<void> LiveRun::open() {
  if (is_switched(config_)) {
    auto made = SwitchedRun::create(config_);
    if (!made) return fail(made.error().text);
    switched_ = std::move(*made);
  }
  if (const std::string why = why_not_carried(config_); !why.empty()) return fail(why);
  auto setups = JobRunner::plan(config_, switched_.get(), false);
  if (!setups) return fail(setups.error().text);
  if (switched_ != nullptr && switched_->rates() == nullptr) {
    auto fits = fits_real_time(config_, switched_->topology().graph, switched_->flows(),
                               switched_->inner_loads());
    if (!fits) return fits;
  }
  if (auto host = open_host(); !host) return host;
  LiveOptions live;
  live.capture_path = options_.capture_path;
  live.spin = config_.fidelity.idle == IdleMode::kSpin;
  live.verbose = options_.verbose;
  for (const PortConfig& port : config_.ports) {
    live.ports.push_back({config_.nodes[port.node].name, port.device, port.transmit_time_stamps,
                          port.cores, config_.fidelity.verify_icrc == IcrcVerify::kFull});
  }
  auto opened = Live::open(live);
  if (!opened) return fail(opened.error().text);
  if (const std::string doubt = doubt_about(live); !doubt.empty()) say(doubt);
  live_ = std::move(*opened);
  std::vector<Shard*> shards;
  std::vector<LiveShard> started;
  EmulatedSide::Shards all;
  all.ports = shard_ports_ = live_shards(config_);
  for (const PortList& ports : shard_ports_) {
    ShardConfig shard = emulator_shard(config_, ports, kHostNamespaceMac);
    if (switched_ != nullptr) switched_->enter(shard);
    shards_.push_back(std::make_unique<Shard>(shard));
    controls_.push_back(std::make_unique<ShardControl>(*shards_.back()));
    shards.push_back(shards_.back().get());
    started.push_back({shards.back(), ports});
    all.controls.push_back(controls_.back().get());
  }
  if (switched_ != nullptr) all.topology = &switched_->topology();
  auto side = EmulatedSide::create(
      config_, std::move(all), std::move(*setups), report_, [this] { return live_->now(); },
      [this](const std::string& line) { say(line); });
  if (!side) return fail(side.error().text);
  side_ = std::move(*side);
  if (options_.timeline) side_->jobs().record();
  if (host_) {
    bridge_ = std::make_unique<HostBridge>(*host_, shards);
    if (auto listening = open_listeners(); !listening) return listening;
  }
  if (!options_.control_path.empty()) {
    auto control = ControlSocket::open(options_.control_path);
    if (!control) return fail(control.error().text);
    control_socket_ = std::move(*control);
  }
  if (switched_ != nullptr) search_.emplace(*shards_[0]->network());
  for (const EventConfig& event : config_.events) schedule(event);
  for (const EventConfig& event : options_.commands) schedule(event);
  return live_->start(started);
}

Result<void> LiveRun::open_listeners() {
  SocketAdapter::Callbacks callbacks{side_->callbacks(), {}};
  callbacks.now = [this] { return live_->now(); };
  callbacks.listen = [this](const IpAddress& any, uint16_t port) {
    return host_->listen_any(any, port);
  };
  callbacks.listen_at = [this](const IpAddress& address, uint16_t port) {
    return host_->listen_tcp(address, port);
  };
  callbacks.connect = [this](const IpAddress& from, const IpAddress& to, uint16_t port) {
    return host_->connect_tcp(from, to, port);
  };
  auto adapter = SocketAdapter::create(callbacks);
  if (!adapter) return fail(adapter.error().text);
  sockets_.emplace(std::move(*adapter));
  return side_->open(*sockets_);
}

void LiveRun::schedule(const EventConfig& event) {
  for (auto& control : controls_) {
    control->set_link(event.node, event.rate, event.latency, event.at);
  }
  changes_.push_back(event);
  report_.commands.push_back({event.at, command_text(config_, event)});
}

std::string LiveRun::command(const std::string& text) {
  if (text == "status") return side_->status();
  auto event = parse_command(config_, text);
  if (!event) return event.error().text;
  event->at = std::max(event->at, live_->now() + kCommandLead);
  schedule(*event);
  return "ok: at " + std::to_string(event->at.ps()) + " ps: " + command_text(config_, *event);
}

bool LiveRun::over() const {
  if (options_.duration && live_->now() - Time::zero() >= *options_.duration) return true;
  return side_->work_done() || deadlocked_;
}

/// Nobody sees it end by itself: retries may go on for ever, and real nodes wait.
void LiveRun::look_for_deadlock() {
  if (!search_ || live_->now() < next_search_) return;
  next_search_ = Time::never();
  controls_[0]->find_deadlock(*search_, [this] {
    next_search_ = live_->now() + kSearchEvery;
    deadlocked_ = !search_->cycle().empty();
    if (deadlocked_) say(deadlock_text(switched_->topology().graph, search_->cycle()));
  });
}

Result<void> LiveRun::run() {
  say("ready");
  Time status = live_->now() + kStatusEvery;
  std::optional<Time> last;  // once over: when to leave
  while (!signalled() && (!last || live_->now() < *last)) {
    turn();
    if (control_socket_) {
      control_socket_->poll([this](const std::string& text) { return command(text); });
    }
    for (size_t i = 0; i < changes_.size();) {
      if (changes_[i].at > live_->now()) {
        ++i;
        continue;
      }
      live_->note_change({changes_[i].at, changes_[i].node, changes_[i].rate, changes_[i].latency});
      changes_.erase(changes_.begin() + static_cast<ptrdiff_t>(i));
    }
    if (side_->jobs().jobs() > 0 && live_->now() >= status) {
      say(side_->jobs().status());
      status = status + kStatusEvery;
    }
    if (!last) look_for_deadlock();
    if (!last && over()) last = live_->now() + options_.linger;
  }
  hang_up();
  return {};
}

void LiveRun::turn() {
  const bool soon = side_->find_out();
  if (sockets_) sockets_->poll(soon ? 0 : kPollMs);
  if (!sockets_ || soon) {
    timespec nap{0, soon ? kNapNs : kPollMs * 1'000'000};
    nanosleep(&nap, nullptr);
  }
  if (bridge_) bridge_->poll();
  side_->turn();
}

/// Tells the other sides of connections by RDMA-CM that these are over, while the port still works.
void LiveRun::hang_up() {
  const Time until = live_->now() + kHangUp;
  side_->hang_up();
  while (live_->now() < until && !side_->quiet()) turn();
}

RunReport LiveRun::finish() {
  auto stopped = live_->stop();
  report_.duration = live_->now() - Time::zero();
  report_.started = live_->started_seconds();
  if (signalled() && !side_->work_done())
    report_.ended_by = *options_.signal == SIGINT ? "SIGINT" : "SIGTERM";
  if (deadlocked_ && !report_.ended_by) report_.ended_by = "deadlock";
  side_->finish(options_.timeline);
  for (size_t i = 0; i < config_.ports.size(); ++i) {
    const size_t own = shard_of(shard_ports_, i);
    const PortList& together = shard_ports_[own];
    const Shard& shard = *shards_[own];
    const auto number = static_cast<uint32_t>(std::ranges::find(together, i) - together.begin());
    ShardSnapshot snapshot;
    shard.fit(snapshot);
    shard.snapshot(snapshot, live_->now(), number);
    report_.ports.push_back(port_report(config_.nodes[config_.ports[i].node].name, config_.ports[i],
                                        config_, shard.node_table(), snapshot, live_->device(i)));
    if (number == 0) {
      report_.ports.back().cm = side_->cm_counters(own);
    } else {
      leave_out_shared(report_.ports.back());
    }
    if (switched_ != nullptr) {
      report_.traffic = switched_->report(snapshot, live_->now());
      const auto cycle = search_->find(*shard.network());
      report_.traffic->deadlock = link_names(switched_->topology().graph, cycle);
    }
    report_.ports.back().pacing =
        PacingReport{config_.fidelity.idle == IdleMode::kSleep, live_->has_transmit_time_stamps(i),
                     live_->uses_transmit_time_stamps(i), config_.ports[i].cores};
  }
  report_.loop = loop_report(live_->loop());
  if (!options_.capture_path.empty()) report_.capture_drops = live_->capture_drops();
  judge(report_);
  if (!stopped) {
    report_.verdict.faithful = false;
    report_.verdict.reasons.push_back(stopped.error().text);
  }
  return std::move(report_);
}

}  // namespace

tl::expected<RunReport, RunError> run_live(const Config& config, const LiveRunOptions& options) {
  if (config.ports.empty()) {
    return tl::unexpected<RunError>({config.path + ": run needs at least one [[port]]", true});
  }
  LiveRun run(config, options);
  if (auto opened = run.open(); !opened) {
    return tl::unexpected<RunError>({opened.error().text, true});
  }
  if (auto done = run.run(); !done) return tl::unexpected<RunError>({done.error().text, false});
  return run.finish();
}

}  // namespace understudy
