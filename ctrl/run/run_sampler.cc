#include "ctrl/run/run_sampler.h"

#include <algorithm>

#include "dataplane/base/try.h"

namespace understudy {

Result<std::unique_ptr<RunSampler>> RunSampler::create(const SeriesOptions& options,
                                                       Emulator& emulator, Pairs pairs) {
  if (!options.wanted()) return std::unique_ptr<RunSampler>();
  if (emulator.network() == nullptr) {
    return fail(emulator.scenario().config.path + ": there is no network to look at");
  }
  std::unique_ptr<RunSampler> sampled(new RunSampler(options, emulator, std::move(pairs)));
  const SharedNetwork& network = sampled->network_;
  auto series = TrafficSeries::create(options, network.topology().graph, network.flows());
  if (!series) return tl::unexpected(series.error());
  sampled->series_ = std::move(*series);
  if (emulator.scenario().clock == RunClock::kReal) {
    TRY(sampled->make_probes());
  } else if (network.packets() != nullptr) {
    sampled->series_->watch(*network.packets());
  }
  return sampled;
}

SampleProbe RunSampler::empty_probe() const {
  return {*emulator_.queues(), network_.packets(), network_.rates()};
}

Result<void> RunSampler::make_probes() {
  probes_ = series_->probes(empty_probe());
  of_queue_pairs_ = probes_.size();
  if (probes_.size() <= kMostProbes) return {};
  const size_t most = kMostProbes * SampleProbe::kMost;
  size_t wanted = 0;
  for (const SampleProbe& probe : probes_) wanted += probe.size();
  return fail("run samples " + std::to_string(most) + " links and flows at most, and there are " +
              std::to_string(wanted) + ": choose by --series-links and --series-flows");
}

void RunSampler::sample() {
  if (pairs_) {
    series_->forget_queue_pairs();
    for (const auto* pairs : pairs_()) {
      for (const ControlledPair& pair : *pairs) series_->watch(pair.name, *pair.control);
    }
  }
  series_->sample({emulator_.queues(), network_.packets(), network_.rates()});
}

Result<void> RunSampler::run(Simulation& simulation, const std::function<bool()>& over) {
  const auto stuck = [&] {
    DeadlockSearch* search = emulator_.search();
    return search != nullptr && !search->find(*emulator_.queues()).empty();
  };
  uint32_t until_look = kSamplesBetweenLooks;
  while (!over()) {
    const Time next = simulation.next();
    if (next.is_never()) break;
    while (series_->next() < next) {
      sample();
      if (--until_look != 0) continue;
      until_look = kSamplesBetweenLooks;
      if (stuck()) return {};
    }
    TRY(simulation.run(series_->next()));
  }
  while (!series_->holds(simulation.now())) sample();
  return {};
}

Result<void> RunSampler::run_until(Simulation& simulation, Time until) {
  while (series_->next() <= until) {
    TRY(simulation.run(series_->next()));
    sample();
  }
  return simulation.run(until);
}

/// Queue pairs first: commands that take them away are behind these.
void RunSampler::turn(Time now) {
  if (outstanding_ != 0 || now < next_round_) return;
  next_round_ = std::max(next_round_ + interval_, now);
  probe_queue_pairs();
  outstanding_ = probes_.size();
  ShardControl& control = emulator_.sides().front()->control;
  for (size_t i = of_queue_pairs_; i < probes_.size(); ++i) {
    control.wake(probes_[i], Time::zero(), [this] { on_answer(); });
  }
  for (size_t i = 0; i < of_queue_pairs_; ++i) {
    const Time at = now + kSpread * static_cast<int64_t>(i);
    control.wake(probes_[i], at, [this] { on_answer(); });
  }
}

/// They come and go.
void RunSampler::probe_queue_pairs() {
  probes_.erase(probes_.begin() + static_cast<std::ptrdiff_t>(of_queue_pairs_), probes_.end());
  names_.assign(of_queue_pairs_, {});
  if (!pairs_) return;
  for (const auto* pairs : pairs_()) {
    for (const ControlledPair& pair : *pairs) {
      if (!series_->wants(pair.name)) continue;
      if (probes_.size() == of_queue_pairs_ || probes_.back().size() == SampleProbe::kMost) {
        if (probes_.size() == of_queue_pairs_ + kMostPairProbes) return;
        probes_.push_back(empty_probe());
        names_.emplace_back();
      }
      probes_.back().queue_pairs.push_back({.control = pair.control});
      names_.back().push_back(pair.name);
    }
  }
}

void RunSampler::on_answer() {
  if (--outstanding_ != 0) return;
  for (size_t i = of_queue_pairs_; i < probes_.size(); ++i) series_->add(probes_[i], names_[i]);
  for (size_t i = 0; i < of_queue_pairs_; ++i) series_->add(probes_[i], names_[i]);
}

Result<void> RunSampler::finish(const std::string& heading, Time end) {
  const size_t links = network_.topology().graph.links().size();
  std::vector<uint64_t> peaks(links), bytes(links);
  const std::vector<NetworkLinkCounters> counters = emulator_.links(end);
  for (LinkId link = 0; link < counters.size(); ++link) {
    peaks[link] = counters[link].queue_peak;
    bytes[link] = counters[link].wire_bytes;
  }
  std::vector<Duration> took;
  if (network_.packets() != nullptr) took = times_taken(network_.packets()->results());
  if (network_.rates() != nullptr) {
    took = times_taken(network_.rates()->times());
    const std::vector<uint64_t> carried = network_.rates()->link_bytes();
    for (LinkId link = 0; link < links; ++link) bytes[link] += carried[link];
  }
  return series_->finish(heading, peaks, bytes, took);
}

}  // namespace understudy
