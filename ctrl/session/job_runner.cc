#include "ctrl/session/job_runner.h"

#include <algorithm>

#include "ctrl/build/rail.h"
#include "ctrl/config/port_of.h"
#include "ctrl/peers/nccl/net_ib_layout.h"
#include "ctrl/report/collect.h"
#include "ctrl/session/job_plan.h"
#include "ctrl/session/link_timeline.h"
#include "ctrl/session/packet_model.h"

namespace understudy {
namespace {

uint32_t next(const CollectiveJob& job, uint32_t rank) { return (rank + 1) % job.ranks(); }
uint32_t previous(const CollectiveJob& job, uint32_t rank) {
  return (rank + job.ranks() - 1) % job.ranks();
}

/// Of a real rank's connection; nothing if there is no such one.
std::optional<uint32_t> link_of(const CollectiveJob& job, const RingLinkRequest& wanted) {
  for (uint32_t l = 0; l < job.links.size(); ++l) {
    const CollectiveLink& link = job.links[l];
    if (link.real != wanted.real_rank || link.far != wanted.emulated_rank) continue;
    if (link.channel == wanted.channel && link.real_sends == wanted.real_sends) return l;
  }
  return std::nullopt;
}

/// Pairs of a real rank and an emulated neighbour of its.
uint32_t neighbours_of(const CollectiveJob& job) {
  uint32_t count = 0;
  for (const uint32_t real : job.real) {
    for (const uint32_t rank : std::set<uint32_t>{next(job, real), previous(job, real)}) {
      count += job.is_real(rank) ? 0 : 1;
    }
  }
  return count;
}

}  // namespace

Result<std::vector<std::unique_ptr<CollectiveSetup>>> JobRunner::plan(const Config& config,
                                                                      SwitchedRun* switched,
                                                                      bool virtual_time) {
  std::vector<std::unique_ptr<CollectiveSetup>> setups;
  for (const JobConfig& job : config.jobs) {
    const bool scheduled = virtual_time && !job.join && job.entry == EntryMode::kScheduled;
    auto setup =
        plan_job(config, job, scheduled, carries_inner(config, job, virtual_time), switched);
    if (!setup) return fail(setup.error().text);
    setups.push_back(std::move(*setup));
  }
  return setups;
}

Result<std::unique_ptr<JobRunner>> JobRunner::create(
    const Config& config, const std::vector<ShardControl*>& controls,
    std::vector<std::unique_ptr<CollectiveSetup>> setups) {
  std::unique_ptr<JobRunner> runner(new JobRunner(config));
  for (const JobConfig& job : config.jobs) {
    Job made;
    made.setup = std::move(setups[runner->jobs_.size()]);
    made.neighbours = neighbours_of(made.setup->job);
    made.control = controls[*port_of(config, job.ranks[made.setup->job.real.front()], job.nic)];
    if (auto hosted = runner->host(made, job); !hosted) return fail(hosted.error().text);
    runner->jobs_.push_back(std::move(made));
  }
  return runner;
}

Result<void> JobRunner::host(Job& job, const JobConfig& config) {
  const CtsLayout layout = config.join ? net_ib_layout(config.nccl).cts : CtsLayout();
  auto environment =
      EnvironmentHost::create(config_, config, *job.setup, *job.control, true, layout);
  if (!environment) return fail(environment.error().text);
  job.environment = std::move(*environment);
  return {};
}

Result<void> JobRunner::plan_again(size_t number, uint32_t search_channels) {
  Job& job = jobs_[number];
  if (job.setup->topology != nullptr) {
    return fail("in a network of switches the plan is made at the start: set search_channels = " +
                std::to_string(search_channels) + " in the [[job]]");
  }
  auto own = std::make_unique<JobConfig>(config_.jobs[number]);
  own->search_channels = search_channels;
  auto setup = plan_job(config_, *own, false, false, nullptr);
  if (!setup) return fail(setup.error().text);
  job.environment->give_up();
  job.environment.reset();
  job.setup = std::move(*setup);
  job.own = std::move(own);
  if (auto hosted = host(job, *job.own); !hosted) return hosted;
  if (recorded_) job.environment->record();
  return {};
}

void JobRunner::record() {
  recorded_ = true;
  for (Job& job : jobs_) job.environment->record();
}

void JobRunner::add_timeline(std::vector<TimelineTrack>& tracks) const {
  for (size_t j = 0; j < jobs_.size(); ++j) {
    understudy::add_timeline(tracks, config_, config_.jobs[j], *jobs_[j].setup,
                             jobs_[j].environment->moments());
  }
}

std::vector<RingOffer> JobRunner::offers(NodeId node) const {
  std::vector<RingOffer> result;
  for (uint32_t j = 0; j < jobs_.size(); ++j) {
    const JobConfig& job = config_.jobs[j];
    if (job.join) continue;
    for (const uint32_t real : jobs_[j].setup->job.real) add_offers(j, real, node, result);
  }
  return result;
}

/// To one of its real ranks, if the node is its neighbour.
void JobRunner::add_offers(uint32_t number, uint32_t real, NodeId node,
                           std::vector<RingOffer>& offers) const {
  const JobConfig& job = config_.jobs[number];
  const CollectiveJob& ring = jobs_[number].setup->job;
  for (const uint32_t rank : std::set<uint32_t>{next(ring, real), previous(ring, real)}) {
    if (job.ranks[rank] != node) continue;
    RingOffer offer;
    offer.job = number;
    RingJobMessage& m = offer.message;
    m.name = job.name;
    m.ranks = ring.ranks();
    m.client_rank = real;
    m.peer_rank = rank;
    m.real_ranks = ring.real;
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

Result<EndpointReady> JobRunner::connect(const EndpointRequest& request) {
  const RingLinkRequest& link = *request.ring;
  Job& job = jobs_[link.job];
  if (job.ready_ranks.contains(link.real_rank)) return fail("the job has been started already");
  const auto number = link_of(job.setup->job, link);
  if (!number) return fail("the job has no such channel");
  const LinkNearEnd ours = job.environment->open(*number);
  if (ours.qpns.empty()) return fail("no queue pair is left on this port");
  LinkFarEnd far;
  far.qpns = {request.remote_qpn};
  far.psn = request.remote_psn;
  far.expects = request.local_psn;
  far.fifo_va = link.fifo_address;
  far.fifo_rkey = link.fifo_rkey;
  far.mtu = request.mtu;
  far.traffic_class = request.sender.traffic_class;
  job.environment->connect(*number, far);
  job.environment->join(*number);  // nothing begins before start()
  return EndpointReady{ours.qpns.front(), request.local_psn, ours.va, ours.rkey};
}

void JobRunner::on_ring_ready(uint32_t job, uint32_t real_rank, uint32_t) {
  Job& j = jobs_[job];
  j.ready_ranks.insert(real_rank);
  if (++j.ready == j.neighbours && j.environment->all_joined()) j.environment->start();
}

void JobRunner::on_ring_result(uint32_t job, uint32_t real_rank, const RingResultMessage& result) {
  jobs_[job].results.emplace_back(real_rank, result);
}

void JobRunner::on_ring_done(uint32_t job, uint32_t, uint32_t) {
  Job& j = jobs_[job];
  if (++j.done == j.neighbours) j.environment->end();
}

std::vector<std::string> JobRunner::poll(Time now) {
  std::vector<std::string> lost;
  for (size_t j = 0; j < jobs_.size(); ++j) {
    Job& job = jobs_[j];
    job.environment->poll(now);
    const InferenceReport* found = job.environment->found();
    if (found == nullptr || found->lost.empty() || job.lost) continue;
    job.lost = true;
    lost.push_back("job \"" + config_.jobs[j].name +
                   "\": " + (found->fed ? "the feed" : "inference") +
                   " has lost track, every credit is answered at once from now on: " + found->lost);
  }
  return lost;
}

bool JobRunner::find_out() const {
  return std::ranges::any_of(jobs_, [](const Job& job) {
    return job.environment->found() != nullptr && job.ready > 0 && job.done < job.neighbours;
  });
}

std::vector<JobRunner::FeedPort> JobRunner::feeds() const {
  std::vector<FeedPort> ports;
  for (uint32_t j = 0; j < jobs_.size(); ++j) {
    const JobConfig& job = config_.jobs[j];
    if (job.operations != OperationsMode::kFed) continue;
    const auto node =
        std::ranges::find_if(job.ranks, [&](NodeId n) { return !config_.nodes[n].real; });
    if (node != job.ranks.end()) ports.push_back({j, *node, job.nic, job.feed.port});
  }
  return ports;
}

std::unique_ptr<FeedPeer> JobRunner::feed_peer(uint32_t job) {
  // The plan may be made again after it has come.
  const auto feed = [this, job] { return jobs_[job].environment->feed(); };
  return std::make_unique<FeedPeer>(
      [feed](Time now, const FedOperation& fed) { feed()->fed(now, fed); },
      [feed](Time now, uint64_t records) { feed()->missing(now, records); },
      [feed](Time now, const std::string& failure) { feed()->closed(now, failure); });
}

bool JobRunner::finished() const {
  for (const Job& job : jobs_) {
    if (!config_.jobs[static_cast<size_t>(&job - jobs_.data())].join &&
        job.environment->progress().failed)
      continue;
    if (job.done < job.neighbours) return false;
  }
  return true;
}

std::string JobRunner::status() const {
  std::string text;
  for (size_t j = 0; j < jobs_.size(); ++j) {
    const CollectiveProgress& progress = jobs_[j].environment->progress();
    if (!text.empty()) text += ", ";
    text += "job \"" + config_.jobs[j].name + "\" " + std::to_string(progress.finished.load()) +
            "/" + std::to_string(progress.results.size());
  }
  return text;
}

JobReport JobRunner::report(size_t index) const {
  const Job& job = jobs_[index];
  JobReport report = job_report(config_, index, job.environment->progress(), job.setup->operations,
                                Verified::kNo, [&](size_t i) { return job.setup->modelled[i]; });
  report.model = model_name(job.setup->model);
  if (const InferenceReport* found = job.environment->found()) report.inferred = *found;
  add_results(report, index);
  return report;
}

void JobRunner::add_results(JobReport& report, size_t index) const {
  const CollectiveJob& ring = jobs_[index].setup->job;
  const JobConfig& job = config_.jobs[index];
  // Each one's times, if all of them are known.
  if (ring.real.size() > 1 && jobs_[index].results.size() == ring.real.size() * job.sizes.size()) {
    for (const uint32_t rank : ring.real) {
      report.real_nodes.push_back(config_.nodes[job.ranks[rank]].name);
    }
  }
  for (const auto& [rank, result] : jobs_[index].results) {
    if (auto added = add_node_result(report, job, result, ring.real_index[rank]); !added) {
      ++report.violations;
    }
  }
}

}  // namespace understudy
