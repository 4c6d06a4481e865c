#include "ctrl/jobs/job_runner.h"

#include <algorithm>

#include "ctrl/compile/shard_config.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/jobs/link_timeline.h"
#include "ctrl/jobs/node_job.h"
#include "ctrl/jobs/operations/reference_feed.h"
#include "ctrl/jobs/packet_model.h"
#include "ctrl/peers/nccl/transport/net_ib_layout.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

uint32_t next(const CollectiveJob& job, uint32_t rank) { return (rank + 1) % job.ranks(); }
uint32_t previous(const CollectiveJob& job, uint32_t rank) {
  return (rank + job.ranks() - 1) % job.ranks();
}

/// Of a real rank's connection; nothing if there is no such one.
std::optional<uint32_t> link_of(const CollectiveJob& job, const RingLinkRequest& wanted) {
  for (uint32_t l = 0; l < job.links.size(); ++l) {
    const CollectiveConnection& link = job.links[l];
    if (link.real != wanted.real_rank || link.far != wanted.emulated_rank) continue;
    if (link.channel == wanted.channel && link.index == wanted.index &&
        link.real_sends == wanted.real_sends) {
      return l;
    }
  }
  return std::nullopt;
}

}  // namespace

/// Of a rank that speaks for itself.
bool JobRunner::is_program(const Job& job, uint32_t rank) {
  return job.setup().job.is_real(rank) && control_behind(job, rank) == nullptr;
}

std::vector<uint32_t> JobRunner::programs(const Job& job) {
  std::vector<uint32_t> all;
  for (const uint32_t rank : job.setup().job.real) {
    if (is_program(job, rank)) all.push_back(rank);
  }
  return all;
}

/// Of a plain ring: pairs of a program's rank and a neighbour of its that is played here. Else the
/// nodes of programs.
uint32_t JobRunner::clients_of(uint32_t number) const {
  const Job& job = jobs_[number];
  const CollectiveJob& ring = job.setup().job;
  if (!is_ring_of_neighbours(config_, config_.jobs[number])) {
    return static_cast<uint32_t>(programs(job).size() / job.setup().communicator.gpus);
  }
  uint32_t count = 0;
  for (const uint32_t real : programs(job)) {
    for (const uint32_t rank : std::set<uint32_t>{next(ring, real), previous(ring, real)}) {
      count += is_program(job, rank) ? 0 : 1;
    }
  }
  return count;
}

Result<std::unique_ptr<JobRunner>> JobRunner::create(const Config& config,
                                                     const std::vector<ShardControl*>& controls,
                                                     std::vector<std::unique_ptr<JobState>> states,
                                                     const std::vector<ShardControl*>& reference) {
  std::unique_ptr<JobRunner> runner(new JobRunner(config));
  runner->jobs_.resize(config.jobs.size());
  for (size_t j = 0; j < config.jobs.size(); ++j) {
    if (states[j] == nullptr) continue;
    const JobConfig& job = config.jobs[j];
    Job& made = runner->jobs_[j];
    made.state = std::move(states[j]);
    made.control = controls[port_of_rank(config, job, made.setup(), made.setup().job.real.front())];
    TRY(runner->host(made, job));
    runner->find_reference(made, job, reference);
    if (!job.join) TRY(runner->host_reference(made, job));
    made.clients = runner->clients_of(static_cast<uint32_t>(j));
    made.has_begun = made.has_ended = made.clients == 0;
    if (!job.join && !is_ring_of_neighbours(config, job)) make_node_jobs(config, job, made);
  }
  return runner;
}

void JobRunner::make_node_jobs(const Config& config, const JobConfig& job, Job& made) {
  const std::vector<uint32_t> all = programs(made);
  const Communicator& communicator = made.setup().communicator;
  for (size_t i = 0; i < all.size(); i += communicator.gpus) {
    made.node_jobs[all[i]] = node_job(config, job, made.setup(), communicator.node_of(all[i]), all);
  }
}

std::vector<size_t> JobRunner::own() const {
  std::vector<size_t> numbers;
  for (size_t j = 0; j < jobs_.size(); ++j) {
    if (has(j)) numbers.push_back(j);
  }
  return numbers;
}

bool JobRunner::empty() const {
  return std::ranges::none_of(jobs_, [](const Job& job) { return job.state != nullptr; });
}

Result<void> JobRunner::host(Job& job, const JobConfig& config) {
  const CtsLayout layout =
      config.join ? net_ib_layout(config.nccl).cts : NcclWire::alone(config).layout;
  auto emulated =
      EmulatedRanksBinding::create(config_, config, *job.state, *job.control, true, layout);
  if (!emulated) return fail(emulated.error().text);
  job.emulated = std::move(*emulated);
  route_feed(job);
  return {};
}

void JobRunner::route_feed(Job& job) {
  FedOperations* const feed = job.emulated->feed();
  if (feed == nullptr) return;
  feed->route(job.feed_routes);
  if (job.feed_from) feed->told_by([this, other = *job.feed_from] { return feed_of(other); });
}

void JobRunner::route_feed(size_t number, FedRoutes routes) {
  jobs_[number].feed_routes = std::move(routes);
  route_feed(jobs_[number]);
}

void JobRunner::feed_from(size_t number, size_t other) {
  jobs_[number].feed_from = other;
  route_feed(jobs_[number]);
}

Result<void> JobRunner::plan_again(size_t number, uint32_t search_channels) {
  Job& job = jobs_[number];
  const CollectiveSetup& former = job.setup();
  auto own = std::make_unique<JobConfig>(config_.jobs[number]);
  own->search_channels = search_channels;
  auto setup =
      TRY(build_collective(config_, *own, false, former.topology, former.carried, &former));
  // The network has the flows of these connections, and no others.
  if (setup->inner.size() != former.inner.size()) {
    return fail(
        "emulated ranks would need connections that the network does not have: set "
        "search_channels = " +
        std::to_string(search_channels) + " in the [[job]]");
  }
  CollectiveState& ranks = job.state->ranks;
  auto state = TRY(begin_job(config_, *own, std::move(setup), ranks.workload, ranks.group));
  TRY(model_by_packets(config_, *own, *state));
  state->ranks.carrier = std::move(ranks.carrier);
  job.emulated->give_up();
  job.emulated.reset();
  job.state = std::move(state);
  job.own = std::move(own);
  TRY(host(job, *job.own));
  if (recorded_) job.emulated->record();
  if (feed_ && job.emulated->feed() != nullptr && !job.own->child) {
    job.emulated->feed()->follow(*feed_);
  }
  return {};
}

void JobRunner::ended_communicator(size_t number, Time now, const std::string& how, bool next) {
  Job& job = jobs_[number];
  if (config_.jobs[number].join->joins_once()) return;
  job.former = with_last(std::move(job.former), number, now, how);
  job.kinds = kinds_of(job);
  job.forgetting = true;
  job.emulated_started = job.lost = false;
  job.joined.reset();
  if (next) job.emulated->forget([this, number] { begin_again(number); });
}

/// Nothing of the last communicator runs any more.
void JobRunner::begin_again(size_t number) {
  Job& job = jobs_[number];
  auto again = begin_job_again(*job.state);
  if (!again) {
    job.no_further = again.error().text;
    return;
  }
  if (recorded_) {
    job.played.push_back({std::move(job.state), std::move(job.emulated)});
  }
  job.emulated.reset();
  job.state = std::move(*again);
  job.watch = {};
  if (auto hosted = host(job, job.own == nullptr ? config_.jobs[number] : *job.own); !hosted) {
    job.no_further = hosted.error().text;
    return;
  }
  if (recorded_) job.emulated->record();
  job.forgetting = false;
}

void JobRunner::record() {
  recorded_ = true;
  for (const size_t j : own()) jobs_[j].emulated->record();
}

void JobRunner::add_timeline(std::vector<TimelineTrack>& tracks) const {
  for (const size_t j : own()) {
    for (const Job::Played& played : jobs_[j].played) {
      understudy::add_timeline(tracks, config_, config_.jobs[j], *played.state->setup,
                               played.emulated->moments());
    }
    understudy::add_timeline(tracks, config_, config_.jobs[j], jobs_[j].setup(),
                             jobs_[j].emulated->moments());
  }
}

std::vector<RingOffer> JobRunner::offers(NodeId node) const {
  std::vector<RingOffer> result;
  for (const size_t j : own()) {
    const JobConfig& job = config_.jobs[j];
    if (job.join) continue;
    if (!is_ring_of_neighbours(config_, job)) {
      add_node_offers(static_cast<uint32_t>(j), node, result);
      continue;
    }
    for (const uint32_t real : programs(jobs_[j])) {
      add_offers(static_cast<uint32_t>(j), real, node, result);
    }
  }
  return result;
}

/// To one of its real ranks, if the node is its neighbour.
void JobRunner::add_offers(uint32_t number, uint32_t real, NodeId node,
                           std::vector<RingOffer>& offers) const {
  const JobConfig& job = config_.jobs[number];
  const CollectiveJob& ring = jobs_[number].setup().job;
  for (const uint32_t rank : std::set<uint32_t>{next(ring, real), previous(ring, real)}) {
    if (job.ranks[rank] != node || is_program(jobs_[number], rank)) continue;
    RingOffer offer;
    offer.job = number;
    RingJobMessage& m = offer.message;
    m.name = job.name;
    m.ranks = ring.ranks();
    m.client_rank = real;
    m.peer_rank = rank;
    m.real_ranks = programs(jobs_[number]);
    m.channels = job.channels;
    for (const uint64_t bytes : job.sizes) {
      m.operations.push_back({bytes, job.warmup, job.iterations});
    }
    m.mtu = config_.fabric.mtu;
    m.seed = config_.seed;
    m.exact = ring.exact;
    m.data_traffic_class = m.control_traffic_class = job.sender.traffic_class;
    offer.client_addresses = {roce_address(config_.nodes[job.ranks[real]].nics[job.nic])};
    offers.push_back(offer);
  }
}

/// To each of its real nodes that a program plays, if a rank of `node` is played here.
void JobRunner::add_node_offers(uint32_t number, NodeId node,
                                std::vector<RingOffer>& offers) const {
  const JobConfig& job = config_.jobs[number];
  const CollectiveSetup& setup = jobs_[number].setup();
  const uint32_t gpus = setup.communicator.gpus;
  const auto place = std::ranges::find(job.ranks, node) - job.ranks.begin();
  if (static_cast<size_t>(place) == job.ranks.size()) return;
  if (is_program(jobs_[number], static_cast<uint32_t>(place) * gpus)) return;
  for (const auto& [client, told] : jobs_[number].node_jobs) {
    RingOffer offer;
    offer.job = number;
    offer.message.name = job.name;
    offer.message.client_rank = client;
    offer.message.real_ranks = programs(jobs_[number]);
    offer.message.mtu = config_.fabric.mtu;
    offer.message.data_traffic_class = offer.message.control_traffic_class =
        job.sender.traffic_class;
    offer.node = told;
    for (const NicConfig& nic : config_.nodes[job.ranks[told->node]].nics) {
      offer.client_addresses.push_back(roce_address(nic));
    }
    offers.push_back(std::move(offer));
  }
}

Result<EndpointReady> JobRunner::connect(const EndpointRequest& request) {
  const RingLinkRequest& link = *request.ring;
  Job& job = jobs_[link.job];
  // A node's program is known by its first rank.
  const uint32_t client = link.real_rank - link.real_rank % job.setup().communicator.gpus;
  const auto ready = job.ready.lower_bound({client, 0});
  if (ready != job.ready.end() && ready->first == client) {
    return fail("the job has been started already");
  }
  const auto number = link_of(job.setup().job, link);
  if (!number) return fail("the job has no such channel");
  const CollectiveConnection& connection = job.setup().job.links[*number];
  RanksHost* const played = connection.among_real() ? reference_of(job, connection.far) : nullptr;
  const auto count = static_cast<uint32_t>(1 + link.more.size());
  const LinkNearEnd ours =
      played != nullptr ? played->end(connection.twin) : job.emulated->open(*number, count);
  if (ours.qpns.size() != count) return fail("no queue pair is left on this port");
  const LinkDevices theirs = link_devices(config_, config_.jobs[link.job], job.setup(), connection);
  LinkFarEnd far;
  far.qpns = {request.remote_qpn};
  far.fifo_rkey = link.fifo_rkey;
  for (const RingLinkRequest::More& more : link.more) {
    if (const size_t device = far.qpns.size(); device < theirs.near.size()) {
      far.fifo_rkey[device] = more.fifo_rkey;
    }
    far.qpns.push_back(more.qpn);
  }
  far.parts = count;
  far.devices = theirs.seen_from_far(count);
  far.psn = request.remote_psn;
  far.expects = request.local_psn;
  far.fifo_va = link.fifo_address;
  far.mtu = request.mtu;
  far.traffic_class = request.sender.traffic_class;
  if (played != nullptr) {
    played->connect(connection.twin, std::move(far));
  } else {
    job.emulated->connect(*number, far);
    job.emulated->join(*number);  // nothing begins before start()
  }
  return EndpointReady{ours.qpns.front(), request.local_psn, ours.va, ours.rkey, ours.qpns};
}

std::optional<RingLinkEnd> JobRunner::on_ring_meeting(uint32_t job, const RingLinkEnd& end) {
  const bool sends = end.direction == RingDirection::kClientSends;
  const uint32_t from = sends ? end.of->client_rank : end.of->peer_rank;
  const uint32_t to = sends ? end.of->peer_rank : end.of->client_rank;
  auto& ends = jobs_[job].ends;
  ends.insert_or_assign({from, to, end.channel, end.of->index, sends}, end);
  const auto other = ends.find({from, to, end.channel, end.of->index, !sends});
  if (other == ends.end()) return std::nullopt;
  return other->second;
}

void JobRunner::on_ring_ready(uint32_t job, uint32_t real_rank, uint32_t emulated_rank) {
  Job& j = jobs_[job];
  j.ready.emplace(real_rank, emulated_rank);
  if (j.ready.size() != j.clients || j.has_begun) return;
  j.has_begun = true;
  if (j.emulated->all_joined()) start(j);
}

void JobRunner::on_ring_result(uint32_t job, uint32_t real_rank, const RingResultMessage& result) {
  jobs_[job].results.emplace_back(real_rank, result);
}

void JobRunner::on_ring_done(uint32_t job, uint32_t real_rank, uint32_t emulated_rank) {
  Job& j = jobs_[job];
  j.done.emplace(real_rank, emulated_rank);
  if (j.done.size() != j.clients || j.has_ended) return;
  j.has_ended = true;
  j.emulated->end();
}

std::vector<std::string> JobRunner::poll(Time now, const JobWatch::Surroundings& run) {
  std::vector<std::string> lines;
  for (size_t j = 0; j < jobs_.size(); ++j) {
    if (!has(j) || jobs_[j].forgetting) continue;
    Job& job = jobs_[j];
    const auto add = [&](const std::string& line) {
      lines.push_back("job \"" + config_.jobs[j].name + "\": " + line);
    };
    job.emulated->poll(now);
    const InferenceReport* found = job.emulated->found();
    const JobWatch::Context context{job.setup(), *job.state, run, found, config_.jobs[j].listed};
    for (const std::string& line :
         job.watch.look(now, context, job.emulated->progress(), [&] { job.emulated->look(); })) {
      add(line);
    }
    if (found == nullptr || found->lost.empty() || job.lost) continue;
    job.lost = true;
    add((found->fed ? "the feed" : "inference") +
        std::string(" has lost track, every credit is answered at once from now on: ") +
        found->lost);
  }
  return lines;
}

bool JobRunner::find_out() const {
  return std::ranges::any_of(jobs_, [](const Job& job) {
    return job.state != nullptr && job.emulated->found() != nullptr && !job.has_ended &&
           !job.forgetting && (job.has_begun || !job.ready.empty());
  });
}

Result<void> JobRunner::follow(const std::string& feed) {
  feed_ = TRY(recorded_feed(feed));
  for (const size_t j : own()) {
    FedOperations* const fed = jobs_[j].emulated->feed();
    if (fed != nullptr && !config_.jobs[j].child) fed->follow(*feed_);
  }
  return {};
}

std::vector<JobRunner::FeedPort> JobRunner::feeds() const {
  std::vector<FeedPort> ports;
  if (feed_) return ports;
  for (uint32_t j = 0; j < jobs_.size(); ++j) {
    const JobConfig& job = config_.jobs[j];
    if (!has(j) || job.operations != OperationsMode::kFed || job.child) continue;
    const auto node =
        std::ranges::find_if(job.ranks, [&](NodeId n) { return !config_.nodes[n].real; });
    if (node != job.ranks.end()) ports.push_back({j, *node, job.nic, job.feed.port});
  }
  return ports;
}

std::unique_ptr<FeedPeer> JobRunner::feed_peer(uint32_t job) {
  // The plan may be made again after it has come, and between communicators there is none.
  const auto feed = [this, job] { return feed_of(job); };
  ++jobs_[job].plugins;
  // Of the last communicator whose operations it told, or while it connected.
  const auto speaks_of = std::make_shared<size_t>(communicators_over(job));
  return std::make_unique<FeedPeer>(
      [this, feed, job, speaks_of](Time now, const FedOperation& fed) {
        *speaks_of = communicators_over(job);
        if (FedOperations* all = feed()) all->fed(now, fed);
      },
      [feed](Time now, uint64_t records) {
        if (FedOperations* all = feed()) all->missing(now, records);
      },
      [this, feed, job, speaks_of](Time now, const std::string& failure) {
        // The other real ranks' plugins go on; and that a process has ended, or how, may be heard
        // when the next one's communicator is there.
        const bool last = --jobs_[job].plugins == 0;
        if (*speaks_of != communicators_over(job)) return;
        FedOperations* all = feed();
        if (all != nullptr && (last || !failure.empty())) all->closed(now, failure);
      });
}

bool JobRunner::finished() const {
  for (const size_t j : own()) {
    const Job& job = jobs_[j];
    if (!config_.jobs[j].join && job.emulated->progress().failed) continue;
    if (!job.has_ended) return false;
  }
  return settled();
}

bool JobRunner::settled() const {
  return std::ranges::all_of(own(), [this](size_t j) {
    const Job& job = jobs_[j];
    const bool told = !config_.jobs[j].join && config_.jobs[j].operations == OperationsMode::kTold;
    const bool left = job.clients > 0 && job.has_ended;
    return !told || !left || job.emulated->progress().over();
  });
}

std::vector<const std::vector<ControlledPair>*> JobRunner::controlled() const {
  std::vector<const std::vector<ControlledPair>*> all;
  for (const size_t j : own()) {
    all.push_back(&jobs_[j].emulated->controlled());
    for (const auto& ranks : jobs_[j].reference) {
      if (ranks != nullptr) all.push_back(&ranks->controlled());
    }
  }
  return all;
}

std::vector<std::string> JobRunner::doubts() const {
  std::vector<std::string> lines;
  for (const size_t j : own()) {
    const std::string& doubt = jobs_[j].state->doubt;
    if (!doubt.empty()) lines.push_back("job \"" + config_.jobs[j].name + "\": " + doubt);
  }
  return lines;
}

size_t JobRunner::communicators_over(size_t job) const {
  const auto& former = jobs_[job].former;
  return former ? former->communicators.size() : 0;
}

std::string JobRunner::status() const {
  std::string text;
  for (const size_t j : own()) {
    const CollectiveProgress& progress = jobs_[j].emulated->progress();
    if (!text.empty()) text += ", ";
    text += "job \"" + config_.jobs[j].name + "\" " + std::to_string(progress.finished.load()) +
            (config_.jobs[j].listed ? "/" + std::to_string(progress.results.size()) : "");
    if (config_.jobs[j].join && !config_.jobs[j].join->joins_once()) {
      text += " (" + std::to_string(communicators_over(j)) + " communicators are over)";
    }
  }
  for (const size_t j : own()) {
    const std::string& standing = jobs_[j].watch.standing();
    if (!standing.empty()) text += "\njob \"" + config_.jobs[j].name + "\": " + standing;
  }
  return text;
}

}  // namespace understudy
