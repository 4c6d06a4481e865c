#include "ctrl/session/job_runner.h"

#include "ctrl/report/collect.h"

namespace understudy {

Result<std::unique_ptr<JobRunner>> JobRunner::create(const Config& config,
                                                     const std::vector<ShardControl*>& controls,
                                                     const Topology* topology) {
  std::unique_ptr<JobRunner> runner(new JobRunner(config));
  for (const JobConfig& job : config.jobs) {
    Job made;
    // A real node enters when it likes: only its first credit tells.
    auto setup = build_ring(config, job, false, Time::zero(), topology);
    if (!setup) return fail(setup.error().text);
    made.setup = std::move(*setup);
    made.neighbours = job.ranks.size() == 2 ? 1 : 2;
    ShardControl* control = nullptr;
    const NodeId real = job.ranks[made.setup->job.real_rank];
    for (size_t i = 0; i < config.ports.size(); ++i) {
      if (config.ports[i].node == real && config.ports[i].nic == job.nic) control = controls[i];
    }
    auto environment = RingEnvironmentHost::create(config, job, *made.setup, *control);
    if (!environment) return fail(environment.error().text);
    made.environment = std::move(*environment);
    runner->jobs_.push_back(std::move(made));
  }
  return runner;
}

std::vector<RingOffer> JobRunner::offers(NodeId node) const {
  std::vector<RingOffer> result;
  for (uint32_t j = 0; j < jobs_.size(); ++j) {
    const JobConfig& job = config_.jobs[j];
    const RingJob& ring = jobs_[j].setup->job;
    for (const uint32_t rank : {ring.next(ring.real_rank), ring.previous(ring.real_rank)}) {
      if (job.ranks[rank] != node) continue;
      if (!result.empty() && result.back().job == j) continue;  // two ranks: both neighbours
      RingOffer offer;
      offer.job = j;
      RingJobMessage& m = offer.message;
      m.name = job.name;
      m.ranks = ring.ranks;
      m.client_rank = ring.real_rank;
      m.peer_rank = rank;
      m.real_ranks = {ring.real_rank};
      m.channels = ring.channels;
      for (const uint64_t bytes : job.sizes) m.operations.push_back({bytes, job.warmup, job.iterations});
      m.mtu = config_.fabric.mtu;
      m.seed = config_.seed;
      m.exact = ring.exact;
      m.data_traffic_class = m.control_traffic_class = job.sender.traffic_class;
      const NicConfig& nic = config_.nodes[job.ranks[ring.real_rank]].nics[job.nic];
      offer.client_addresses = {roce_address(nic)};
      result.push_back(offer);
    }
  }
  return result;
}

Result<EndpointReady> JobRunner::connect(const EndpointRequest& request) {
  const RingLinkRequest& link = *request.ring;
  Job& job = jobs_[link.job];
  if (job.ready != 0) return fail("the job has been started already");
  const bool we_send = !link.real_sends;
  const RingNearEnd ours = job.environment->open(link.channel, we_send);
  if (ours.qpn == 0) return fail("no queue pair is left on this port");
  RingFarEnd far;
  far.qpn = request.remote_qpn;
  far.psn = request.remote_psn;
  far.expects = request.local_psn;
  far.fifo_va = link.fifo_address;
  far.fifo_rkey = link.fifo_rkey;
  far.mtu = request.mtu;
  far.traffic_class = request.sender.traffic_class;
  job.environment->connect(link.channel, we_send, far);
  return EndpointReady{ours.qpn, request.local_psn, ours.va, ours.rkey};
}

void JobRunner::on_ring_ready(uint32_t job, uint32_t, uint32_t) {
  Job& j = jobs_[job];
  if (++j.ready == j.neighbours && j.environment->all_connected()) j.environment->start();
}

void JobRunner::on_ring_result(uint32_t job, uint32_t, const RingResultMessage& result) {
  jobs_[job].results.push_back(result);
}

void JobRunner::on_ring_done(uint32_t job, uint32_t, uint32_t) { ++jobs_[job].done; }

bool JobRunner::finished() const {
  for (const Job& job : jobs_) {
    if (job.environment->progress().failed) continue;
    if (job.done < job.neighbours) return false;
  }
  return true;
}

std::string JobRunner::status() const {
  std::string text;
  for (size_t j = 0; j < jobs_.size(); ++j) {
    const RingProgress& progress = jobs_[j].environment->progress();
    if (!text.empty()) text += ", ";
    text += "job \"" + config_.jobs[j].name + "\" " + std::to_string(progress.finished.load()) +
            "/" + std::to_string(progress.results.size());
  }
  return text;
}

JobReport JobRunner::report(size_t index) const {
  const Job& job = jobs_[index];
  JobReport report = job_report(config_, index, job.environment->progress(), Verified::kNo,
                                [&](size_t i) { return job.setup->modelled[i]; });
  for (const RingResultMessage& result : job.results) {
    if (auto added = add_node_result(report, config_.jobs[index], result); !added) {
      ++report.violations;
    }
  }
  return report;
}

}  // namespace understudy
