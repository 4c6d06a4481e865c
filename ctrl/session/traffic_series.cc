#include "ctrl/session/traffic_series.h"

#include <fnmatch.h>

#include <algorithm>
#include <numeric>

#include "ctrl/report/series_plot.h"

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
                                  const std::vector<FlowSpec>& flows) {
  std::vector<std::string> links, names;
  for (LinkId link = 0; link < graph.links().size(); ++link) links.push_back(graph.link_name(link));
  if (!options.flows.empty()) {
    for (const FlowSpec& flow : flows) names.push_back(flow.name);
  }
  if (const std::string* p = useless(options.links, links)) {
    return fail("--series-links \"" + *p + "\": no link has such a name; one is \"" +
                links.front() + "\"");
  }
  if (const std::string* p = useless(options.flows, names)) {
    return fail("--series-flows \"" + *p + "\": no flow has such a name; one is \"" +
                names.front() + "\"");
  }
  return {};
}

Result<std::unique_ptr<TrafficSeries>> TrafficSeries::create(const SeriesOptions& options,
                                                             const Graph& graph,
                                                             const std::vector<FlowSpec>& flows) {
  auto file = SeriesFile::create(options.path);
  if (!file) return tl::unexpected(file.error());
  std::unique_ptr<TrafficSeries> series(new TrafficSeries(std::move(*file), options, graph, flows));
  for (LinkId link = 0; link < graph.links().size(); ++link) {
    if (fits(options.links, graph.link_name(link))) series->links_.push_back({link, 0, true});
  }
  return series;
}

bool TrafficSeries::selected(uint32_t flow) const {
  return fits(options_.flows, flows_[flow].name);
}

void TrafficSeries::add_link(Link& link, std::optional<uint64_t> queue, uint64_t throughput) {
  const bool quiet = throughput == 0 && queue.value_or(0) == 0;
  if (!quiet || !link.quiet) {
    SeriesRow row;
    row.at = next_;
    row.link = true;
    const std::string name = graph_.link_name(link.link);
    row.name = name;
    row.queue = queue;
    row.throughput = throughput;
    file_.add(row);
  }
  link.quiet = quiet;
}

void TrafficSeries::sample(const Network& network, const FlowTraffic& traffic) {
  for (Link& link : links_) {
    const unsigned __int128 sent = network.sent_bits(link.link, next_);
    add_link(link, network.queued_bytes(link.link), per_second(sent - link.sent, interval_));
    link.sent = sent;
  }
  for (const uint32_t flow : begun_) {
    if (selected(flow)) active_.push_back({flow, 0});
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
  next_ += interval_;
}

void TrafficSeries::sample(const FlowModel& model) {
  for (Link& link : links_) add_link(link, {}, bits_per_second(model.rates().used(link.link)));
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
  next_ += interval_;
}

Result<void> TrafficSeries::finish(const std::string& heading, const std::vector<uint64_t>& peaks,
                                   const std::vector<uint64_t>& bytes,
                                   const std::vector<Duration>& took) {
  if (auto written = file_.finish(); !written) return written;
  if (options_.plot.empty()) return {};
  SeriesPlot plot{options_.plot, heading, interval_, {}, {}};
  std::vector<LinkId> links;
  for (const Link& l : links_) {
    if (bytes[l.link] != 0) links.push_back(l.link);
  }
  std::ranges::stable_sort(links, std::greater{},
                           [&](LinkId l) { return std::pair(peaks[l], bytes[l]); });
  for (size_t i = 0; i < std::min(links.size(), kMostCurves); ++i) {
    plot.links.push_back(graph_.link_name(links[i]));
  }
  std::vector<uint32_t> flows;
  for (uint32_t i = 0; i < flows_.size(); ++i) {
    if (selected(i)) flows.push_back(i);
  }
  const size_t shown = std::min(flows.size(), kMostCurves);
  const auto busier = [&](uint32_t a, uint32_t b) {
    return std::tuple(flows_[b].bytes, took[b], a) < std::tuple(flows_[a].bytes, took[a], b);
  };
  std::partial_sort(flows.begin(), flows.begin() + static_cast<std::ptrdiff_t>(shown), flows.end(),
                    busier);
  for (size_t i = 0; i < shown; ++i) plot.flows.push_back(flows_[flows[i]].name);
  if (shown < flows.size() || plot.links.size() < links.size()) {
    plot.heading += ": the busiest " + std::to_string(plot.links.size()) + " of " +
                    std::to_string(links.size()) + " links, " + std::to_string(shown) + " of " +
                    std::to_string(flows.size()) + " flows";
  }
  return draw_series(file_, plot);
}

}  // namespace understudy
