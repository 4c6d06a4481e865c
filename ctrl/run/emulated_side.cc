#include "ctrl/run/emulated_side.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ctrl/config/kernel_nodes.h"
#include "ctrl/peers/ring/ring_messages.h"
#include "ctrl/peers/services/service_peer.h"
#include "ctrl/report/text.h"

namespace understudy {
namespace {

/// Of RDMA-CM in one turn: a millisecond or two of work.
constexpr size_t kCmMessages = 64;

}  // namespace

HostNamespaceSpec emulated_addresses(const Config& config) {
  HostNamespaceSpec spec;
  for (const PrefixConfig& prefix : config.prefixes) {
    if (prefix.v4) spec.emulated.push_back(*prefix.v4);
    if (prefix.v6) spec.emulated.push_back(*prefix.v6);
  }
  for (const PortConfig& port : config.ports) {
    if (is_reference_beside_kernels(config, port.node)) continue;  // its TCP is ours
    const NicConfig& nic = config.nodes[port.node].nics[port.nic];
    if (nic.v4) spec.real.push_back(*nic.v4);
    if (nic.v6) spec.real.push_back(*nic.v6);
  }
  return spec;
}

EmulatedSide::EmulatedSide(const Config& config, Emulator& emulator, RunReport& report, Now now,
                           Say say)
    : config_(config),
      emulator_(emulator),
      report_(report),
      now_(std::move(now)),
      say_(std::move(say)),
      client_log_(say_) {}

Result<std::unique_ptr<EmulatedSide>> EmulatedSide::create(const Config& config, Emulator& emulator,
                                                           RunReport& report, Now now, Say say,
                                                           std::vector<ShardControl*> reference) {
  std::unique_ptr<EmulatedSide> side(
      new EmulatedSide(config, emulator, report, std::move(now), std::move(say)));
  std::vector<ShardControl*> by_port;
  for (size_t port = 0; port < config.ports.size(); ++port) {
    by_port.push_back(&emulator.port(port).side->control);
  }
  auto jobs = JobRunner::create(config, by_port, emulator.take_jobs(false), reference);
  if (!jobs) return fail(jobs.error().text);
  side->jobs_ = std::move(*jobs);
  for (const std::string& line : side->jobs_->doubts()) side->say_(line);
  side->reference_ = std::move(reference);
  side->watch_.emplace(*side->jobs_);
  const SharedNetwork* network = emulator.network();
  side->endpoints_ = std::make_unique<ServiceEndpoints>(
      config, by_port, network == nullptr ? nullptr : &network->topology());
  side->open_cm();
  return side;
}

PeerHost::Callbacks EmulatedSide::callbacks() {
  PeerHost::Callbacks callbacks;
  callbacks.endpoint = [this](NodeId node, ConnectionId id, const EndpointRequest& request) {
    on_endpoint(node, id, request);
  };
  callbacks.start = [this](const EndpointStart& start) { endpoints_->start(start); };
  callbacks.ended = [this](const EndedConnection& ended) { on_ended(ended); };
  return callbacks;
}

Result<void> EmulatedSide::open(PeerHost& host) {
  host_ = &host;
  if (auto opened = open_services(); !opened) return opened;
  if (auto opened = open_rings(); !opened) return opened;
  if (auto opened = open_feeds(); !opened) return opened;
  nccl_.emplace(
      config_, *jobs_, host, say_,
      [this](const IpAddress& local, const IpAddress& remote, std::function<void()> answered) {
        probe(local, remote, std::move(answered));
      });
  if (auto opened = nccl_->open(); !opened) return opened;
  if (config_.clients.empty()) return {};
  std::vector<CmControl*> cms;
  for (size_t port = 0; port < config_.ports.size(); ++port) {
    cms.push_back(cms_[emulator_.port(port).shard].get());
  }
  dialling_ = std::make_unique<ActiveClients>(config_, host, *endpoints_, std::move(cms));
  return {};
}

Result<void> EmulatedSide::listen(NodeId node, unsigned nic, uint16_t port,
                                  PeerHost::PeerFactory factory) {
  return listen(node, nic, port,
                PeerHost::Acceptor([factory = std::move(factory)](const AcceptedConnection&) {
                  return factory();
                }));
}

Result<void> EmulatedSide::listen(NodeId node, unsigned nic, uint16_t port,
                                  const PeerHost::Acceptor& acceptor) {
  const NicConfig& n = config_.nodes[node].nics[nic];
  for (const auto& address : {n.v4, n.v6}) {
    if (!address) continue;
    if (auto done = host_->listen_at({*address, port}, node, acceptor); !done) return done;
  }
  return {};
}

Result<void> EmulatedSide::open_services() {
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
  return {};
}

Result<void> EmulatedSide::open_rings() {
  for (const NodeConfig& node : config_.nodes) {
    const auto offers = jobs_->offers(node.index);
    std::set<unsigned> nics;
    for (const RingOffer& offer : offers) nics.insert(config_.jobs[offer.job].nic);
    for (const unsigned nic : nics) {
      const IpAddress local = roce_address(node.nics[nic]);
      const auto accept = [this, offers, local](const AcceptedConnection& accepted) {
        auto peer = std::make_unique<RingPeer>(local, offers, *watch_);
        rings_[accepted.id] = peer.get();
        return peer;
      };
      auto done = listen(node.index, nic, kRingOobPort, PeerHost::Acceptor(accept));
      if (!done) return done;
    }
  }
  return {};
}

/// Tells real ranks that wait for one another that all of them are ready, or that one has gone.
void EmulatedSide::turn_rings() {
  for (const auto& [id, peer] : rings_) {
    const auto job = peer->waits();
    if (!job) continue;
    if (auto why = watch_->why_not(*job)) {
      peer->call_off(std::move(*why));
    } else if (jobs_->has_begun(*job)) {
      peer->begin();
    } else if (!peer->meet()) {
      continue;
    }
    host_->flush(id);
  }
}

Result<void> EmulatedSide::open_feeds() {
  for (const JobRunner::FeedPort& feed : jobs_->feeds()) {
    auto done = listen(feed.node, feed.nic, feed.port,
                       [this, job = feed.job] { return jobs_->feed_peer(job); });
    if (!done) return done;
    say_("job \"" + config_.jobs[feed.job].name + "\": its feed is listened to on " +
         roce_address(config_.nodes[feed.node].nics[feed.nic]).text() + ":" +
         std::to_string(feed.port));
  }
  return {};
}

void EmulatedSide::open_cm() {
  CmControl::Callbacks callbacks;
  callbacks.ended = [this](const ServiceReport& client) { client_log_.ended(report_, client); };
  callbacks.say = [this](const std::string& line) { client_log_.line(line); };
  for (size_t i = 0; i < emulator_.sides().size(); ++i) {
    const size_t port = emulator_.scenario().shards[i].ports.front();
    callbacks.caller_ended = [this, port](const CmControl::EndedCaller& caller) {
      if (const auto text = dialling_->on_ended(port, caller); !text.empty()) say_(text);
    };
    cms_.push_back(std::make_unique<CmControl>(config_, port, emulator_.sides()[i]->control,
                                               *endpoints_, callbacks));
    cms_.back()->listen();
  }
}

/// Of the port behind which `remote` is.
void EmulatedSide::probe(const IpAddress& local, const IpAddress& remote,
                         std::function<void()> answered) {
  for (size_t i = 0; i < config_.ports.size(); ++i) {
    const PortConfig& port = config_.ports[i];
    if (roce_address(config_.nodes[port.node].nics[port.nic]) != remote) continue;
    return cms_[emulator_.port(i).shard]->probe(local, remote, std::move(answered));
  }
}

void EmulatedSide::on_endpoint(NodeId node, ConnectionId id, const EndpointRequest& request) {
  auto ready = request.behaviour == Behaviour::kNccl   ? nccl_->endpoint(id, request)
               : request.behaviour == Behaviour::kRing ? jobs_->connect(request)
                                                       : endpoints_->create(node, id, request);
  if (request.service_port != 0) {
    ServiceReport& client = clients_[id];
    client.node = config_.nodes[node].name;
    client.client = request.remote.text();
    client.port = request.service_port;
    client.kind = request.service_kind;
    client.from = now_();
  }
  if (ready) {
    host_->endpoint_ready(id, *ready);
  } else {
    host_->endpoint_refused(id, ready.error().text);
  }
}

std::string_view EmulatedSide::kind_at(NodeId node, uint16_t port) const {
  for (const ServiceConfig& service : config_.services) {
    if (service.node == node && service.port == port) return service_kind_name(service.kind);
  }
  return "ring";  // the only one that is not configured
}

void EmulatedSide::on_ended(const EndedConnection& ended) {
  rings_.erase(ended.id);
  if (nccl_ && nccl_->on_ended(ended)) return;
  if (ended.dialled) {
    if (const auto text = dialling_->on_ended(now_(), ended); !text.empty()) say_(text);
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
    client.from = now_();
  }
  client.to = now_();
  client.error = ended.failure;
  client_log_.ended(report_, client);
  if (!ended.keep_endpoints) endpoints_->remove(ended.id);
}

bool EmulatedSide::work_done() const {
  if (jobs_->empty() && !dialling_) return false;
  return jobs_->finished() && (!dialling_ || dialling_->finished());
}

std::string EmulatedSide::status() const {
  std::string text = jobs_->status();
  if (nccl_) {
    for (const std::string& line : nccl_->status()) text += (text.empty() ? "" : "\n") + line;
  }
  const auto line = [&](const std::string& more) { text += (text.empty() ? "" : "\n") + more; };
  if (text.empty()) line("running for " + time_text(now_()));
  if (!config_.services.empty()) {
    const uint64_t served = report_.services.size() + report_.services_left_out.clients;
    line("services: " + count_text(clients_.size(), "client") + " connected, " +
         std::to_string(served) + " served");
  }
  if (dialling_) {
    line("clients: " + std::to_string(dialling_->done()) + " of " +
         std::to_string(config_.clients.size()) + " done");
  }
  size_t queue_pairs = 0, regions = 0;
  for (const auto& side : emulator_.sides()) {
    queue_pairs += side->control.queue_pairs();
    regions += side->control.memory_regions();
  }
  line("in use: " + count_text(queue_pairs, "queue pair") + ", " +
       count_text(regions, "memory region"));
  return text;
}

/// RunReport::others.
bool EmulatedSide::has_others() const {
  const bool told = config_.jobs.size() > 1 || !config_.traffic.empty() ||
                    !config_.events.empty() || !config_.faults.empty() || !config_.clients.empty();
  const bool served =
      !clients_.empty() || !report_.services.empty() || report_.services_left_out.clients > 0;
  return told || served || !report_.commands.empty();
}

void EmulatedSide::turn() {
  const Time now = now_();
  report_.others = has_others();
  if (dialling_) dialling_->poll(now);
  if (nccl_) nccl_->poll(now);
  turn_rings();
  for (auto& cm : cms_) {
    // In virtual time a turn takes none.
    if (report_.virtual_clock) {
      cm->poll(now);
    } else {
      cm->poll(now, kCmMessages);
    }
  }
  for (const std::string& line : jobs_->poll(now, {!report_.virtual_clock, report_.others}))
    say_(line);
  for (const auto& side : emulator_.sides()) side->control.poll();
  for (ShardControl* control : reference_) {
    if (control != nullptr) control->poll();
  }
  client_log_.poll(now);
}

bool EmulatedSide::find_out() const {
  return jobs_->find_out() ||
         std::ranges::any_of(cms_, [](const auto& cm) { return cm->is_behind(); });
}

void EmulatedSide::hang_up() {
  for (auto& cm : cms_) cm->hang_up(now_());
}

bool EmulatedSide::quiet() const {
  return std::ranges::all_of(cms_, [](const auto& cm) { return cm->quiet(); });
}

void EmulatedSide::finish(bool timeline) {
  for (auto& [id, client] : clients_) {
    client.to = now_();
    client_log_.ended(report_, client);
  }
  if (dialling_) report_.clients = dialling_->reports();
  for (auto& cm : cms_) cm->finish(now_());
  client_log_.finish();
  report_.jobs.resize(config_.jobs.size());
  for (size_t j = 0; j < config_.jobs.size(); ++j) {
    if (jobs_->has(j)) report_.jobs[j] = jobs_->report(j);
  }
  if (timeline) jobs_->add_timeline(report_.timeline);
}

void EmulatedSide::report_cm() {
  for (size_t port = 0; port < report_.ports.size(); ++port) {
    const Emulator::Port& of = emulator_.port(port);
    if (of.first()) report_.ports[port].cm = cms_[of.shard]->counters();
  }
}

}  // namespace understudy
