#include "ctrl/session/live_run.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <memory>
#include <set>

#include "ctrl/build/rail.h"
#include "ctrl/hostns/host_namespace.h"
#include "ctrl/peers/ring_messages.h"
#include "ctrl/peers/service_peer.h"
#include "ctrl/peers/socket_adapter.h"
#include "ctrl/report/collect.h"
#include "ctrl/session/active_clients.h"
#include "ctrl/session/client_log.h"
#include "ctrl/session/cm_control.h"
#include "ctrl/session/commands_text.h"
#include "ctrl/session/control_socket.h"
#include "ctrl/session/deadlock.h"
#include "ctrl/session/endpoints.h"
#include "ctrl/session/host_bridge.h"
#include "ctrl/session/job_runner.h"
#include "ctrl/session/nccl_jobs.h"
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
/// Most that is waited for those whose connections are closed at the end.
constexpr Duration kHangUp = Duration::ms(200);

/// Everything of one run, built in the order of its members.
class LiveRun {
 public:
  LiveRun(const Config& config, const LiveRunOptions& options)
      : config_(config),
        options_(options),
        report_(start_report(config, false)),
        client_log_([this](const std::string& line) { say(line); }) {}

  Result<void> open();
  Result<void> run();
  RunReport finish();

 private:
  Result<void> open_host();
  Result<void> open_listeners();
  Result<void> open_feeds();
  std::string status() const;
  void open_cm();
  void probe(const IpAddress& local, const IpAddress& remote, std::function<void()> answered);
  Result<void> listen(NodeId node, unsigned nic, uint16_t port, SocketAdapter::PeerFactory factory);
  void on_endpoint(NodeId node, ConnectionId id, const EndpointRequest& request);
  void on_ended(const EndedConnection& ended);
  /// What answers there, as the configuration names it.
  std::string_view kind_at(NodeId node, uint16_t port) const;
  void schedule(const EventConfig& event);
  std::string command(const std::string& text);
  /// All that the configuration has to be done is done; false for runs that only serve.
  bool work_done() const {
    if (jobs_->jobs() == 0 && !dialling_) return false;
    return jobs_->finished() && (!dialling_ || dialling_->finished());
  }
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
  ClientLog client_log_;
  std::unique_ptr<HostNamespace> host_;
  std::unique_ptr<SwitchedRun> switched_;  ///< null: no switches
  std::optional<DeadlockSearch> search_;   ///< where there are some
  Time next_search_;
  bool deadlocked_ = false;
  std::vector<PortList> shard_ports_;
  std::vector<std::unique_ptr<Shard>> shards_;  ///< of these
  std::vector<std::unique_ptr<ShardControl>> controls_;
  std::vector<size_t> shard_of_;  ///< by port
  std::unique_ptr<Live> live_;
  std::unique_ptr<HostBridge> bridge_;
  std::unique_ptr<JobRunner> jobs_;
  std::unique_ptr<ServiceEndpoints> endpoints_;
  std::vector<std::unique_ptr<CmControl>> cms_;  ///< of each shard, on its first port
  std::optional<SocketAdapter> sockets_;
  std::optional<NcclJobs> nccl_;
  std::unique_ptr<ActiveClients> dialling_;
  std::unique_ptr<ControlSocket> control_socket_;
  std::vector<EventConfig> changes_;  ///< link changes that the capture has yet to be told of
  std::map<ConnectionId, ServiceReport> clients_;
};

Result<void> LiveRun::open_host() {
  if (config_.jobs.empty() && config_.services.empty() && config_.clients.empty()) return {};
  HostNamespaceSpec spec;
  for (const PrefixConfig& prefix : config_.prefixes) {
    if (prefix.v4) spec.emulated.push_back(*prefix.v4);
    if (prefix.v6) spec.emulated.push_back(*prefix.v6);
  }
  for (const PortConfig& port : config_.ports) {
    const NicConfig& nic = config_.nodes[port.node].nics[port.nic];
    if (nic.v4) spec.real.push_back(*nic.v4);
    if (nic.v6) spec.real.push_back(*nic.v6);
  }
  auto host = HostNamespace::create(spec);
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
  auto setups = JobRunner::plan(config_, switched_.get());
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
    live.ports.push_back({config_.nodes[port.node].name, port.device, port.transmit_time_stamps});
  }
  auto opened = Live::open(live);
  if (!opened) return fail(opened.error().text);
  live_ = std::move(*opened);
  std::vector<Shard*> shards;
  std::vector<LiveShard> started;
  std::vector<ShardControl*> controls(config_.ports.size());  // by port
  shard_ports_ = live_shards(config_);
  shard_of_.resize(config_.ports.size());
  for (const PortList& ports : shard_ports_) {
    ShardConfig shard = emulator_shard(config_, ports, kHostNamespaceMac);
    if (switched_ != nullptr) switched_->enter(shard);
    shards_.push_back(std::make_unique<Shard>(shard));
    controls_.push_back(std::make_unique<ShardControl>(*shards_.back()));
    shards.push_back(shards_.back().get());
    started.push_back({shards.back(), ports});
    for (const size_t port : ports) {
      controls[port] = controls_.back().get();
      shard_of_[port] = shards_.size() - 1;
    }
  }
  const Topology* topology = switched_ == nullptr ? nullptr : &switched_->topology();
  auto jobs = JobRunner::create(config_, controls, std::move(*setups));
  if (!jobs) return fail(jobs.error().text);
  jobs_ = std::move(*jobs);
  if (options_.timeline) jobs_->record();
  endpoints_ = std::make_unique<ServiceEndpoints>(config_, controls, topology);
  open_cm();
  if (host_) {
    bridge_ = std::make_unique<HostBridge>(*host_, shards);
    if (auto listening = open_listeners(); !listening) return listening;
    if (!config_.clients.empty()) {
      std::vector<CmControl*> cms;
      for (const size_t shard : shard_of_) cms.push_back(cms_[shard].get());
      dialling_ =
          std::make_unique<ActiveClients>(config_, *host_, *sockets_, *endpoints_, std::move(cms));
    }
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

Result<void> LiveRun::listen(NodeId node, unsigned nic, uint16_t port,
                             SocketAdapter::PeerFactory factory) {
  const NicConfig& n = config_.nodes[node].nics[nic];
  for (const auto& address : {n.v4, n.v6}) {
    if (!address) continue;
    auto fd = host_->listen_tcp(*address, port);
    if (!fd) return fail(fd.error().text);
    if (auto added = sockets_->add_listener(*fd, node, factory); !added) return added;
  }
  return {};
}

Result<void> LiveRun::open_listeners() {
  SocketAdapter::Callbacks callbacks;
  callbacks.now = [this] { return live_->now(); };
  callbacks.endpoint = [this](NodeId node, ConnectionId id, const EndpointRequest& request) {
    on_endpoint(node, id, request);
  };
  callbacks.start = [this](const EndpointStart& start) { endpoints_->start(start); };
  callbacks.ended = [this](const EndedConnection& ended) { on_ended(ended); };
  callbacks.listen = [this](const IpAddress& any, uint16_t port) {
    return host_->listen_any(any, port);
  };
  callbacks.connect = [this](const IpAddress& from, const IpAddress& to, uint16_t port) {
    return host_->connect_tcp(from, to, port);
  };
  auto adapter = SocketAdapter::create(callbacks);
  if (!adapter) return fail(adapter.error().text);
  sockets_.emplace(std::move(*adapter));

  std::set<unsigned> rails;
  for (const PortConfig& port : config_.ports) rails.insert(port.nic);
  for (const ServiceConfig& service : config_.services) {
    if (only_by_cm(service.kind)) continue;
    for (const unsigned nic : rails) {
      if (nic >= config_.nodes[service.node].nics.size()) continue;
      auto done = listen(service.node, nic, service.port, [this, &service, nic] {
        return std::make_unique<ServicePeer>(service_of(config_, service, nic));
      });
      if (!done) return done;
    }
  }
  for (const NodeConfig& node : config_.nodes) {
    if (node.real) continue;
    const auto offers = jobs_->offers(node.index);
    std::set<unsigned> nics;
    for (const RingOffer& offer : offers) nics.insert(config_.jobs[offer.job].nic);
    for (const unsigned nic : nics) {
      const IpAddress local = roce_address(node.nics[nic]);
      auto done = listen(node.index, nic, kRingOobPort, [this, offers, local] {
        return std::make_unique<RingPeer>(local, offers, *jobs_);
      });
      if (!done) return done;
    }
  }
  if (auto fed = open_feeds(); !fed) return fed;
  nccl_.emplace(
      config_, *jobs_, *sockets_, [this](const std::string& line) { say(line); },
      [this](const IpAddress& local, const IpAddress& remote, std::function<void()> answered) {
        probe(local, remote, std::move(answered));
      });
  return nccl_->open();
}

Result<void> LiveRun::open_feeds() {
  for (const JobRunner::FeedPort& feed : jobs_->feeds()) {
    auto done = listen(feed.node, feed.nic, feed.port,
                       [this, job = feed.job] { return jobs_->feed_peer(job); });
    if (!done) return done;
    say("job \"" + config_.jobs[feed.job].name + "\": its feed is listened to on " +
        roce_address(config_.nodes[feed.node].nics[feed.nic]).text() + ":" +
        std::to_string(feed.port));
  }
  return {};
}

void LiveRun::open_cm() {
  CmControl::Callbacks callbacks;
  callbacks.ended = [this](const ServiceReport& client) { client_log_.ended(report_, client); };
  callbacks.say = [this](const std::string& line) { client_log_.line(line); };
  for (size_t i = 0; i < controls_.size(); ++i) {
    const size_t port = shard_ports_[i].front();
    callbacks.caller_ended = [this, port](const CmControl::EndedCaller& caller) {
      if (const auto text = dialling_->on_ended(port, caller); !text.empty()) say(text);
    };
    cms_.push_back(
        std::make_unique<CmControl>(config_, port, *controls_[i], *endpoints_, callbacks));
    cms_.back()->listen();
  }
}

/// Of the port behind which `remote` is.
void LiveRun::probe(const IpAddress& local, const IpAddress& remote,
                    std::function<void()> answered) {
  for (size_t i = 0; i < config_.ports.size(); ++i) {
    const PortConfig& port = config_.ports[i];
    if (roce_address(config_.nodes[port.node].nics[port.nic]) != remote) continue;
    return cms_[shard_of_[i]]->probe(local, remote, std::move(answered));
  }
}

void LiveRun::on_endpoint(NodeId node, ConnectionId id, const EndpointRequest& request) {
  auto ready = request.behaviour == Behaviour::kNccl   ? nccl_->endpoint(id, request)
               : request.behaviour == Behaviour::kRing ? jobs_->connect(request)
                                                       : endpoints_->create(node, id, request);
  if (request.service_port != 0) {
    ServiceReport& client = clients_[id];
    client.node = config_.nodes[node].name;
    client.client = request.remote.text();
    client.port = request.service_port;
    client.kind = request.service_kind;
    client.from = live_->now();
  }
  if (ready) {
    sockets_->endpoint_ready(id, *ready);
  } else {
    sockets_->endpoint_refused(id, ready.error().text);
  }
}

std::string_view LiveRun::kind_at(NodeId node, uint16_t port) const {
  for (const ServiceConfig& service : config_.services) {
    if (service.node == node && service.port == port) return service_kind_name(service.kind);
  }
  return "ring";  // the only one that is not configured
}

void LiveRun::on_ended(const EndedConnection& ended) {
  if (nccl_->on_ended(ended)) return;
  if (ended.dialled) {
    if (const auto text = dialling_->on_ended(live_->now(), ended); !text.empty()) say(text);
    return;
  }
  if (!ended.failure.empty()) client_log_.line(ended.failure);
  const auto it = clients_.find(ended.id);
  if (it == clients_.end() && ended.failure.empty()) return;
  ServiceReport client;
  if (it != clients_.end()) {
    client = it->second;
    clients_.erase(it);
  } else {
    client.node = config_.nodes[ended.node].name;
    client.client = ended.client.text();
    client.port = ended.port;
    client.kind = kind_at(ended.node, ended.port);
    client.from = live_->now();
  }
  client.to = live_->now();
  client.error = ended.failure;
  client_log_.ended(report_, client);
  if (!ended.keep_endpoints) endpoints_->remove(ended.id);
}

void LiveRun::schedule(const EventConfig& event) {
  for (auto& control : controls_) {
    control->set_link(event.node, event.rate, event.latency, event.at);
  }
  changes_.push_back(event);
  report_.commands.push_back({event.at, command_text(config_, event)});
}

std::string LiveRun::status() const {
  std::string text = jobs_->status();
  if (nccl_) {
    for (const std::string& line : nccl_->status()) text += (text.empty() ? "" : "\n") + line;
  }
  return text.empty() ? "no jobs" : text;
}

std::string LiveRun::command(const std::string& text) {
  if (text == "status") return status();
  auto event = parse_command(config_, text);
  if (!event) return event.error().text;
  event->at = std::max(event->at, live_->now());
  schedule(*event);
  return "ok: at " + std::to_string(event->at.ps()) + " ps: " + command_text(config_, *event);
}

bool LiveRun::over() const {
  if (options_.duration && live_->now() - Time::zero() >= *options_.duration) return true;
  return work_done() || deadlocked_;
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
    if (jobs_->jobs() > 0 && live_->now() >= status) {
      say(jobs_->status());
      status = status + kStatusEvery;
    }
    if (!last) look_for_deadlock();
    if (!last && over()) last = live_->now() + options_.linger;
  }
  hang_up();
  return {};
}

void LiveRun::turn() {
  const bool soon = jobs_->find_out();
  if (sockets_) sockets_->poll(soon ? 0 : kPollMs);
  if (!sockets_ || soon) {
    timespec nap{0, soon ? kNapNs : kPollMs * 1'000'000};
    nanosleep(&nap, nullptr);
  }
  if (bridge_) bridge_->poll();
  if (dialling_) dialling_->poll(live_->now());
  if (nccl_) nccl_->poll(live_->now());
  for (auto& cm : cms_) cm->poll(live_->now());
  for (const std::string& line : jobs_->poll(live_->now())) say(line);
  for (auto& control : controls_) control->poll();
  client_log_.poll(live_->now());
}

/// Tells the other sides of connections by RDMA-CM that these are over, while the port still works.
void LiveRun::hang_up() {
  const Time until = live_->now() + kHangUp;
  for (auto& cm : cms_) cm->hang_up(live_->now());
  const auto quiet = [](const auto& cm) { return cm->quiet(); };
  while (live_->now() < until && !std::all_of(cms_.begin(), cms_.end(), quiet)) turn();
}

RunReport LiveRun::finish() {
  auto stopped = live_->stop();
  report_.duration = live_->now() - Time::zero();
  report_.started = live_->started_seconds();
  if (signalled() && !work_done())
    report_.ended_by = *options_.signal == SIGINT ? "SIGINT" : "SIGTERM";
  if (deadlocked_ && !report_.ended_by) report_.ended_by = "deadlock";
  for (auto& [id, client] : clients_) {
    client.to = live_->now();
    client_log_.ended(report_, client);
  }
  if (dialling_) report_.clients = dialling_->reports();
  for (auto& cm : cms_) cm->finish(live_->now());
  client_log_.finish();
  for (size_t j = 0; j < jobs_->jobs(); ++j) report_.jobs.push_back(jobs_->report(j));
  if (options_.timeline) jobs_->add_timeline(report_.timeline);
  for (size_t i = 0; i < config_.ports.size(); ++i) {
    const PortList& together = shard_ports_[shard_of_[i]];
    const Shard& shard = *shards_[shard_of_[i]];
    const auto number = static_cast<uint32_t>(std::ranges::find(together, i) - together.begin());
    ShardSnapshot snapshot;
    shard.fit(snapshot);
    shard.snapshot(snapshot, live_->now(), number);
    report_.ports.push_back(port_report(config_.nodes[config_.ports[i].node].name, config_.ports[i],
                                        config_, shard.node_table(), snapshot, live_->device(i)));
    if (number == 0) {
      report_.ports.back().cm = cms_[shard_of_[i]]->counters();
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
                     config_.ports[i].transmit_time_stamps};
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
