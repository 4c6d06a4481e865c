#include "ctrl/predict/shared_rate.h"

#include <algorithm>

#include "dataplane/flows/max_min.h"

namespace understudy {

SharedRate shared_rate(const Config& config, const Topology& topology, Routes& routes,
                       const std::vector<MessageWays::Way>& ways) {
  const Graph& graph = topology.graph;
  const uint64_t packet = uint64_t{config.fabric.mtu} + PacketLimits::kHeaders;
  MaxMin rates(graph.links().size());
  for (LinkId link = 0; link < graph.links().size(); ++link) {
    rates.set_capacity(link, MaxMin::share_of(graph.link(link).rate_for(packet)));
  }
  SharedRate out;
  uint64_t number = 0;
  for (const MessageWays::Way& way : ways) {
    const auto path = routes.path(way.from, way.to, flow_hash(way.from, way.to, number++));
    Duration latency;
    for (const LinkId link : path) latency += graph.link(link).latency;
    out.latency = std::max(out.latency, latency);
    rates.start(rates.add(path));
  }
  rates.update();
  for (uint32_t sender = 0; sender < ways.size(); ++sender) {
    const double rate = static_cast<double>(rates.rate(sender)) /
                        static_cast<double>(uint64_t{1} << MaxMin::kFractionBits) / 8e6;
    out.slowest = out.slowest > 0 ? std::min(out.slowest, rate) : rate;
  }
  return out;
}

}  // namespace understudy
