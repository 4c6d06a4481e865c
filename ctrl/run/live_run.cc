#include "ctrl/run/live_run.h"

#include <algorithm>
#include <csignal>
#include <memory>

#include "ctrl/compile/events.h"
#include "ctrl/host_namespace/host_namespace.h"
#include "ctrl/network/deadlock.h"
#include "ctrl/network/link_changes.h"
#include "ctrl/peers/socket_adapter.h"
#include "ctrl/report/drills/judge_drills.h"
#include "ctrl/run/commands_text.h"
#include "ctrl/run/control_socket.h"
#include "ctrl/run/emulated_side.h"
#include "ctrl/run/emulator.h"
#include "ctrl/run/held_drills.h"
#include "ctrl/run/host_bridge.h"
#include "ctrl/run/interface_watch.h"
#include "ctrl/run/run_sampler.h"
#include "ctrl/run/start_report.h"
#include "ctrl/shards/collect.h"
#include "dataplane/base/privileges.h"
#include "dataplane/base/try.h"
#include "dataplane/runtime/live.h"

namespace understudy {
namespace {

constexpr int kPollMs = 1;
/// Between turns while messages wait for their operation to become known.
constexpr long kNapNs = 50'000;
constexpr Duration kStatusEvery = Duration::s(2);
constexpr Duration kSearchEvery = Duration::s(1);
constexpr Duration kInterfacesEvery = Duration::ms(200);
/// Looks at flows that have given up, before these end the run.
constexpr unsigned kLooksHeldUp = 3;
/// A live command takes effect so much later: the packet loop has it by then, though this thread
/// may have to wait for a processor.
constexpr Duration kCommandLead = Duration::ms(10);
/// Most that is waited for those whose connections are closed at the end.
constexpr Duration kHangUp = Duration::ms(200);

/// Everything of one run, built in the order of its members.
class LiveRun {
 public:
  LiveRun(const Scenario& scenario, const LiveRunOptions& options)
      : scenario_(scenario),
        config_(scenario.config),
        options_(options),
        report_(start_report(config_, false)),
        drills_(scenario, report_) {}

  Result<void> open();
  Result<void> run();
  Result<RunReport> finish();

 private:
  Result<void> open_host();
  Result<void> open_devices();
  Result<void> open_listeners();
  void schedule(const EventConfig& event);
  std::string command(const std::string& text);
  bool signalled() const { return options_.signal != nullptr && *options_.signal != 0; }
  bool over() const;
  void look_for_deadlock();
  void look_at_flows();
  void look_at_interfaces();
  /// One turn of control's loop, which waits for sockets as long as kPollMs, or a short while.
  void turn();
  void hang_up();
  void say(const std::string& line) const {
    if (options_.progress) options_.progress(line);
  }

  const Scenario& scenario_;
  const Config& config_;
  const LiveRunOptions& options_;
  RunReport report_;
  HeldDrills drills_;
  std::unique_ptr<HostNamespace> host_;
  std::unique_ptr<Emulator> emulator_;
  Time next_search_;
  bool deadlocked_ = false;
  Time next_look_;
  FlowsLook flows_;
  unsigned held_up_ = 0;  ///< looks that have found a flow that has given up
  std::optional<InterfaceWatch> interfaces_;
  Time next_interfaces_;
  std::string gone_;  ///< which network interface is
  std::unique_ptr<Live> live_;
  std::unique_ptr<HostBridge> bridge_;
  std::unique_ptr<EmulatedSide> side_;
  std::optional<SocketAdapter> sockets_;
  std::unique_ptr<ControlSocket> control_socket_;
  std::unique_ptr<RunSampler> sampler_;
  std::vector<LinkChange> changes_;  ///< that the capture has yet to be told of
};

Result<void> LiveRun::open_host() {
  if (config_.jobs.empty() && config_.services.empty() && config_.clients.empty()) return {};
  auto host = HostNamespace::create(emulated_addresses(config_));
  if (!host) return fail(host.error().text);
  host_ = std::move(*host);
  return {};
}

Result<void> LiveRun::open() {
  auto emulator = Emulator::create(scenario_);
  if (!emulator) return tl::unexpected(emulator.error());
  emulator_ = std::move(*emulator);
  if (auto host = open_host(); !host) return host;
  if (auto opened = open_devices(); !opened) return opened;
  auto side = EmulatedSide::create(
      config_, *emulator_, report_, [this] { return live_->now(); },
      [this](const std::string& line) { say(line); });
  if (!side) return tl::unexpected(side.error());
  side_ = std::move(*side);
  if (options_.timeline) side_->jobs().record();
  std::vector<Shard*> shards;
  std::vector<LiveShard> started;
  for (size_t i = 0; i < emulator_->sides().size(); ++i) {
    shards.push_back(&emulator_->sides()[i]->shard);
    started.push_back({shards.back(), scenario_.shards[i].ports});
  }
  if (host_) {
    bridge_ = std::make_unique<HostBridge>(*host_, shards);
    if (auto listening = open_listeners(); !listening) return listening;
  }
  if (!options_.control_path.empty()) {
    auto control = ControlSocket::open(options_.control_path);
    if (!control) return tl::unexpected(control.error());
    control_socket_ = std::move(*control);
  }
  const auto pairs = [this] { return side_->jobs().controlled(); };
  sampler_ = TRY(RunSampler::create(options_.series, *emulator_, pairs));
  for (const EventConfig& event : scenario_.changes) schedule(event);
  if (control_socket_ == nullptr && !drills_.any()) emulator_->expect_no_more();
  // Reports may go into folders of others. All else that asks for more is open, and all threads are
  // there, but for such as inherit from this one; it may take a moment, before time begins.
  if (const std::string why = keep_capabilities(kOverrideFileModes); !why.empty()) say(why);
  return live_->start(started);
}

Result<void> LiveRun::open_devices() {
  LiveOptions live;
  live.capture_path = options_.capture_path;
  live.spin = config_.fidelity.idle == IdleMode::kSpin;
  live.verbose = options_.verbose;
  for (const PortConfig& port : config_.ports) {
    live.ports.push_back({config_.nodes[port.node].name, port.device, port.transmit_time_stamps,
                          port.cores, config_.fidelity.verify_icrc == IcrcVerify::kFull});
  }
  auto opened = Live::open(live);
  if (!opened) return tl::unexpected(opened.error());
  interfaces_.emplace(config_);
  if (const std::string doubt = doubt_about(live); !doubt.empty()) say(doubt);
  live_ = std::move(*opened);
  return {};
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
  emulator_->change(event, report_);
  for (const LinkChange& note : capture_notes(event)) changes_.push_back(note);
}

std::string LiveRun::command(const std::string& text) {
  if (text == "status") return side_->status();
  auto event = parse_command(config_, text);
  if (!event) return event.error().text;
  if (std::string why = why_not(scenario_, *event); !why.empty()) return why;
  event->at = std::max(event->at, live_->now() + kCommandLead);
  schedule(*event);
  return "ok: at " + std::to_string(event->at.ps()) + " ps: " + command_text(config_, *event);
}

bool LiveRun::over() const {
  if (options_.duration && live_->now() - Time::zero() >= *options_.duration) return true;
  return side_->work_done() || deadlocked_ || held_up_ >= kLooksHeldUp || !gone_.empty();
}

/// Nothing comes or goes there any more, and its socket never sees another interface of that name.
void LiveRun::look_at_interfaces() {
  if (!gone_.empty() || live_->now() < next_interfaces_) return;
  next_interfaces_ = live_->now() + kInterfacesEvery;
  gone_ = interfaces_->gone();
  if (gone_.empty()) return;
  say(gone_);
  if (!side_->work_done()) report_.broken_off = BreakReport{live_->now(), gone_};
}

/// Nobody sees it end by itself: retries may go on for ever, and real nodes wait.
void LiveRun::look_for_deadlock() {
  DeadlockSearch* search = emulator_->search();
  if (search == nullptr || live_->now() < next_search_) return;
  next_search_ = Time::never();
  emulator_->sides().front()->control.find_deadlock(*search, [this, search] {
    next_search_ = live_->now() + kSearchEvery;
    deadlocked_ = !search->cycle().empty();
    const Graph& graph = emulator_->network()->topology().graph;
    if (deadlocked_) say(deadlock_text(graph, search->cycle()));
  });
}

/// The same of flows that have given up. Queue pairs of their job may do so too, a little later: a
/// job that has failed is reported.
void LiveRun::look_at_flows() {
  const SharedNetwork* network = emulator_->network();
  if (network == nullptr || network->packets() == nullptr || live_->now() < next_look_) return;
  next_look_ = Time::never();
  emulator_->sides().front()->control.look_at_flows(flows_, [this] {
    next_look_ = live_->now() + kSearchEvery;
    if (emulator_->is_held_up(flows_)) ++held_up_;
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
    drills_.look(side_->jobs(), live_->now(), kCommandLead,
                 [this](const EventConfig& event) { schedule(event); });
    for (size_t i = 0; i < changes_.size();) {
      if (changes_[i].at > live_->now()) {
        ++i;
        continue;
      }
      live_->note_change(changes_[i]);
      changes_.erase(changes_.begin() + static_cast<ptrdiff_t>(i));
    }
    if (!side_->jobs().empty() && live_->now() >= status) {
      say(side_->jobs().status());
      status = status + kStatusEvery;
    }
    if (!last) look_for_deadlock();
    if (!last) look_at_flows();
    look_at_interfaces();
    if (!last && over()) last = live_->now() + (gone_.empty() ? options_.linger : Duration());
  }
  hang_up();
  return {};
}

void LiveRun::turn() {
  const bool soon = side_->find_out();
  if (sockets_) sockets_->poll(soon ? 0 : kPollMs);
  if (!sockets_ || soon) {
    timespec nap{0, soon ? kNapNs : long{kPollMs} * 1'000'000};
    nanosleep(&nap, nullptr);
  }
  if (bridge_) bridge_->poll();
  side_->turn();
  if (sampler_ != nullptr) sampler_->turn(live_->now());
}

/// Tells the other sides of connections by RDMA-CM that these are over, while the port still works.
void LiveRun::hang_up() {
  const Time until = live_->now() + kHangUp;
  side_->hang_up();
  while (live_->now() < until && !side_->quiet()) turn();
}

Result<RunReport> LiveRun::finish() {
  auto stopped = live_->stop();
  report_.duration = live_->now() - Time::zero();
  report_.started = live_->started_seconds();
  if (signalled() && !side_->work_done())
    report_.ended_by = *options_.signal == SIGINT ? "SIGINT" : "SIGTERM";
  if (deadlocked_ && !report_.ended_by) report_.ended_by = "deadlock";
  side_->finish(options_.timeline);
  emulator_->report(report_, live_->now(), [this](size_t port) { return live_->device(port); });
  side_->report_cm();
  for (size_t i = 0; i < config_.ports.size(); ++i) {
    report_.ports[i].pacing =
        PacingReport{config_.fidelity.idle == IdleMode::kSleep, live_->has_transmit_time_stamps(i),
                     live_->uses_transmit_time_stamps(i), config_.ports[i].cores};
  }
  if (held_up_ >= kLooksHeldUp && !side_->work_done()) {
    const std::string why = emulator_->stuck_text(live_->now());
    if (config_.drills.empty()) return fail(why);
    report_.broken_off = BreakReport{live_->now(), why};
  }
  if (DeadlockSearch* search = emulator_->search()) {
    const auto cycle = search->find(*emulator_->queues());
    report_.traffic->deadlock = link_names(emulator_->network()->topology().graph, cycle);
  }
  report_.loop = loop_report(live_->loop());
  if (!options_.capture_path.empty()) report_.capture_drops = live_->capture_drops();
  if (sampler_ != nullptr) {
    auto done = sampler_->finish(config_.path, live_->now());
    if (!done) return tl::unexpected(done.error());
  }
  judge_drills(report_);
  judge(report_);
  if (!stopped) {
    report_.verdict.faithful = false;
    report_.verdict.reasons.push_back(stopped.error().text);
  }
  return std::move(report_);
}

}  // namespace

tl::expected<RunReport, RunError> run_live(const Scenario& scenario,
                                           const LiveRunOptions& options) {
  LiveRun run(scenario, options);
  if (auto opened = run.open(); !opened) {
    return tl::unexpected<RunError>({opened.error().text, true});
  }
  if (auto done = run.run(); !done) return tl::unexpected<RunError>({done.error().text, false});
  auto report = run.finish();
  if (!report) return tl::unexpected<RunError>({report.error().text, false});
  return std::move(*report);
}

}  // namespace understudy
