#include "ctrl/session/sampled_run.h"

#include "dataplane/fabric/deadlock.h"

namespace understudy {

Result<std::unique_ptr<SampledRun>> SampledRun::create(const SeriesOptions& options,
                                                       SwitchedRun& run) {
  std::unique_ptr<SampledRun> sampled(new SampledRun(run));
  auto series = TrafficSeries::create(options, run.topology().graph, run.flows());
  if (!series) return tl::unexpected(series.error());
  sampled->series_ = std::move(*series);
  if (run.packets() != nullptr) sampled->series_->watch(*run.packets());
  return sampled;
}

void SampledRun::watch(const std::vector<ControlledPair>& pairs) {
  for (const ControlledPair& pair : pairs) series_->watch(pair.name, *pair.control);
}

Result<void> SampledRun::run(Simulation& simulation, const Shard& shard,
                             const std::function<bool()>& over) {
  DeadlockSearch search(*shard.network());
  const auto stuck = [&] { return !search.find(*shard.network()).empty(); };
  const SeriesSources sources{shard.network(), run_.packets(), run_.rates()};
  while (!over()) {
    const Time next = simulation.next();
    if (next.is_never()) break;
    if (!series_->sample_until(next, sources, stuck)) return {};
    if (auto ran = simulation.run(series_->next()); !ran) return ran;
  }
  while (!series_->holds(simulation.now())) series_->sample(sources);
  return {};
}

Result<void> SampledRun::finish(const std::string& heading, const ShardSnapshot& snapshot) {
  std::vector<uint64_t> peaks, bytes;
  for (const NetworkLinkCounters& c : snapshot.network) {
    peaks.push_back(c.queue_peak);
    bytes.push_back(c.wire_bytes);
  }
  std::vector<Duration> took;
  if (run_.packets() != nullptr) took = times_taken(run_.packets()->results());
  if (run_.rates() != nullptr) {
    took = times_taken(run_.rates()->times());
    const std::vector<uint64_t> carried = run_.rates()->link_bytes();
    for (LinkId link = 0; link < bytes.size(); ++link) bytes[link] += carried[link];
  }
  return series_->finish(heading, peaks, bytes, took);
}

}  // namespace understudy
