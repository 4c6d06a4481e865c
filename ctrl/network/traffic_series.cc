#include "ctrl/network/traffic_series.h"

#include <fnmatch.h>

#include <algorithm>
#include <numeric>

#include "ctrl/report/series/series_plot.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr size_t kMostCurves = 6;  // of links and of flows in a plot
constexpr uint64_t kPsPerSecond = 1'000'000'000'000;

bool fits(const std::vector<std::string>& patterns, const std::string& name) {
  return patterns.empty() || std::any_of(patterns.begin(), patterns.end(), [&](const auto& p) {
           return ::fnmatch(p.c_str(), name.c_str(), 0) == 0;
         });
}

/// The first pattern that fits none of the names; null if there is none.
template <typename Names>
const std::string* useless(const std::vector<std::string>& patterns, const Names& names) {
  for (const std::string& p : patterns) {
    const std::vector<std::string> one = {p};
    if (std::none_of(names.begin(), names.end(), [&](const auto& n) { return fits(one, n); })) {
      return &p;
    }
  }
  return nullptr;
}

/// `bits` in units of 2^-Network::kBitFraction bit in a time, as bit/s to the nearest.
uint64_t per_second(unsigned __int128 bits, Duration time) {
  const auto ps = static_cast<uint64_t>(time.ps());
  const unsigned __int128 fine = bits / ps * kPsPerSecond + bits % ps * kPsPerSecond / ps;
  constexpr auto kHalf = static_cast<unsigned __int128>(1) << (Network::kBitFraction - 1);
  return static_cast<uint64_t>((fine + kHalf) >> Network::kBitFraction);
}

uint64_t bits_per_second(MaxMin::Share share) {
  return (share + (MaxMin::Share{1} << (MaxMin::kFractionBits - 1))) >> MaxMin::kFractionBits;
}

}  // namespace

Result<void> TrafficSeries::check(const SeriesOptions& options, const Graph& graph,
                                  const std::vector<FlowSpec>& flows,
                                  const std::vector<std::string>& queue_pairs) {
  std::vector<std::string> links, names;
  for (LinkId link = 0; link < graph.links().size(); ++link) links.push_back(graph.link_name(link));
  if (!options.flows.empty()) {
    names = queue_pairs;
    for (const FlowSpec& flow : flows) names.push_back(flow.name);
  }
  if (const std::string* p = useless(options.links, links)) {
    return fail("--series-links \"" + *p + "\": no link has such a name; one is \"" +
                links.front() + "\"");
  }
  if (const std::string* p = useless(options.flows, names)) {
    return fail("--series-flows \"" + *p +
                "\": no flow and no queue pair under a [[control]] has " + "such a name" +
                (names.empty() ? "" : "; one is \"" + names.front() + "\""));
  }
  return {};
}

Result<std::unique_ptr<TrafficSeries>> TrafficSeries::create(const SeriesOptions& options,
                                                             const Graph& graph,
                                                             const std::vector<FlowSpec>& flows) {
  auto file = TRY(SeriesFile::create(options.path));
  std::unique_ptr<TrafficSeries> series(new TrafficSeries(std::move(file), options, graph, flows));
  for (LinkId link = 0; link < graph.links().size(); ++link) {
    if (fits(options.links, graph.link_name(link))) series->links_.push_back({.link = link});
  }
  return series;
}

bool TrafficSeries::wants(const std::string& sender) const { return fits(options_.flows, sender); }

bool TrafficSeries::selected(uint32_t flow) const { return wants(flows_[flow].name); }

void TrafficSeries::watch(std::string name, const QpControl& control) {
  if (!wants(name)) return;
  if (known_pairs_.insert(name).second) pairs_seen_.push_back(name);
  queue_pairs_.push_back({std::move(name), &control});
}

void TrafficSeries::sample(const SeriesSources& sources) {
  for (Link& link : links_) add_link(link, sources);
  for (const QueuePair& pair : queue_pairs_) add_queue_pair(pair);
  if (sources.packets != nullptr) add_flows(*sources.packets);
  if (sources.rates != nullptr) add_flows(*sources.rates);
  next_ += interval_;
}

void TrafficSeries::add_link(Link& link, const SeriesSources& sources) {
  std::optional<uint64_t> queue;
  uint64_t throughput = 0;
  if (sources.network != nullptr) {
    const unsigned __int128 sent = sources.network->sent_bits(link.link, next_);
    queue = sources.network->queued_bytes(link.link);
    throughput = per_second(sent - link.sent, interval_);
    link.sent = sent;
  }
  if (sources.rates != nullptr) {
    throughput += bits_per_second(sources.rates->rates().used(link.link));
  }
  add_row(link, next_, queue, throughput);
}

void TrafficSeries::add_row(Link& link, Time at, std::optional<uint64_t> queue,
                            uint64_t throughput) {
  const bool quiet = throughput == 0 && queue.value_or(0) == 0;
  if (!quiet || !link.quiet) {
    SeriesRow row;
    row.at = at;
    row.kind = SeriesKind::kLink;
    const std::string name = graph_.link_name(link.link);
    row.name = name;
    row.queue = queue;
    row.throughput = throughput;
    file_.add(row);
  }
  link.quiet = quiet;
}

void TrafficSeries::add_queue_pair(const QueuePair& pair) {
  if (!pair.control->started()) return;
  add_row(pair.name, next_, pair.control->rate(), pair.control->window());
}

void TrafficSeries::add_row(const std::string& queue_pair, Time at, Rate rate, uint64_t window) {
  SeriesRow row;
  row.at = at;
  row.kind = SeriesKind::kQueuePair;
  row.name = queue_pair;
  if (!rate.is_unlimited()) row.rate = rate.bps();
  if (window != Controller::kNoWindow) row.window = window;
  file_.add(row);
}

std::vector<SampleProbe> TrafficSeries::probes(const SampleProbe& empty) const {
  std::vector<SampleProbe> all;
  const auto room = [&]() -> SampleProbe& {
    if (all.empty() || all.back().size() == SampleProbe::kMost) all.push_back(empty);
    return all.back();
  };
  for (const Link& link : links_) room().links.push_back({.link = link.link});
  for (uint32_t flow = 0; flow < flows_.size(); ++flow) {
    if (selected(flow)) room().flows.push_back({.flow = flow});
  }
  return all;
}

void TrafficSeries::add(const SampleProbe& probe, const std::vector<std::string>& names) {
  for (const SampleProbe::Link& probed : probe.links) {
    Link& link = *std::ranges::lower_bound(links_, probed.link, {}, &Link::link);
    uint64_t throughput = bits_per_second(probed.used);
    if (probe.at > link.at) throughput += per_second(probed.sent - link.sent, probe.at - link.at);
    add_row(link, probe.at, probed.queued, throughput);
    link.sent = probed.sent;
    link.at = probe.at;
  }
  for (const SampleProbe::Flow& flow : probe.flows) add_flow(flow, probe.at, probe.as_rates());
  for (size_t i = 0; i < probe.queue_pairs.size(); ++i) {
    const SampleProbe::QueuePair& pair = probe.queue_pairs[i];
    if (!pair.sends) continue;
    if (known_pairs_.insert(names[i]).second) pairs_seen_.push_back(names[i]);
    add_row(names[i], probe.at, pair.rate, pair.window);
  }
}

/// One row more once it has ended.
void TrafficSeries::add_flow(const SampleProbe::Flow& probed, Time at, bool as_rate) {
  Probed& last = probed_[probed.flow];
  if (!probed.started) last.at = at;
  if (!probed.started || last.ended) return;
  SeriesRow row;
  row.at = at;
  row.name = flows_[probed.flow].name;
  if (!as_rate && at > last.at) {
    constexpr unsigned __int128 kBits = 8;
    row.throughput = per_second(
        ((probed.delivered - last.delivered) * kBits) << Network::kBitFraction, at - last.at);
  }
  if (as_rate || probed.ended || !probed.rate.is_unlimited()) row.rate = probed.rate.bps();
  if (probed.window != Controller::kNoWindow) row.window = probed.window;
  file_.add(row);
  last = {probed.delivered, at, probed.ended};
}

void TrafficSeries::add_flows(const FlowTraffic& traffic) {
  for (const uint32_t flow : begun_) {
    if (flow < flows_.size() && selected(flow)) active_.push_back({flow, 0});
  }
  if (!begun_.empty()) std::ranges::sort(active_, {}, &Flow::flow);
  begun_.clear();
  std::erase_if(active_, [&](Flow& active) {
    const FlowResult& result = traffic.results()[active.flow];
    const bool ended = !result.acknowledged.is_never();
    constexpr unsigned __int128 kBits = 8;
    SeriesRow row;
    row.at = next_;
    row.name = flows_[active.flow].name;
    row.throughput = per_second(
        ((result.delivered - active.delivered) * kBits) << Network::kBitFraction, interval_);
    const Rate rate = traffic.rate(active.flow);
    if (ended || !rate.is_unlimited()) row.rate = rate.bps();
    if (const uint64_t window = traffic.window(active.flow); window != Controller::kNoWindow) {
      row.window = window;
    }
    file_.add(row);
    active.delivered = result.delivered;
    return ended;
  });
}

void TrafficSeries::add_flows(const FlowModel& model) {
  auto leaving = model.leaving();
  std::ranges::sort(leaving);
  const auto add = [&](uint32_t flow, uint64_t rate) {
    SeriesRow row;
    row.at = next_;
    row.name = flows_[flow].name;
    row.rate = rate;
    file_.add(row);
  };
  std::vector<Flow> before = std::move(active_);
  active_.clear();
  auto gone = before.begin();
  for (const auto& [flow, share] : leaving) {
    if (!selected(flow)) continue;
    for (; gone != before.end() && gone->flow < flow; ++gone) add(gone->flow, 0);
    if (gone != before.end() && gone->flow == flow) ++gone;
    add(flow, bits_per_second(share));
    active_.push_back({flow, 0});
  }
  for (; gone != before.end(); ++gone) add(gone->flow, 0);
}

/// Of the queue pairs the first, of the flows the busiest; `of` tells how many there are.
std::vector<std::string> TrafficSeries::drawn_senders(const std::vector<Duration>& took,
                                                      size_t& of) const {
  std::vector<uint32_t> flows;
  for (uint32_t i = 0; i < flows_.size(); ++i) {
    if (selected(i)) flows.push_back(i);
  }
  of = flows.size() + pairs_seen_.size();
  const size_t others = std::min(flows.size(), kMostCurves / 2);
  const size_t pairs = std::min(pairs_seen_.size(), kMostCurves - others);
  const size_t shown = std::min(flows.size(), kMostCurves - pairs);
  const auto busier = [&](uint32_t a, uint32_t b) {
    return std::tuple(flows_[b].bytes, took[b], a) < std::tuple(flows_[a].bytes, took[a], b);
  };
  std::partial_sort(flows.begin(), flows.begin() + static_cast<std::ptrdiff_t>(shown), flows.end(),
                    busier);
  std::vector<std::string> names;
  for (size_t i = 0; i < pairs; ++i) names.push_back(pairs_seen_[i]);
  for (size_t i = 0; i < shown; ++i) names.push_back(flows_[flows[i]].name);
  return names;
}

Result<void> TrafficSeries::finish(const std::string& heading, const std::vector<uint64_t>& peaks,
                                   const std::vector<uint64_t>& bytes,
                                   const std::vector<Duration>& took) {
  TRY(file_.finish());
  if (options_.plot.empty()) return {};
  SeriesPlot plot{options_.plot, heading, interval_, {}, {}, 0, 0};
  std::vector<LinkId> links;
  for (const Link& l : links_) {
    if (bytes[l.link] != 0) links.push_back(l.link);
  }
  std::ranges::stable_sort(links, std::greater{},
                           [&](LinkId l) { return std::pair(peaks[l], bytes[l]); });
  for (size_t i = 0; i < std::min(links.size(), kMostCurves); ++i) {
    plot.links.push_back(graph_.link_name(links[i]));
  }
  size_t senders = 0;
  plot.senders = drawn_senders(took, senders);
  plot.other_links = links.size() - plot.links.size();
  plot.other_senders = senders - plot.senders.size();
  if (plot.senders.size() < senders || plot.links.size() < links.size()) {
    plot.heading += ": the busiest " + std::to_string(plot.links.size()) + " of " +
                    std::to_string(links.size()) + " links, " +
                    std::to_string(plot.senders.size()) + " of " + std::to_string(senders) +
                    " senders";
  }
  return draw_series(file_, plot);
}

}  // namespace understudy
