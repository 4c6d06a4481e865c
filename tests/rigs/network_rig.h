// Networks and flows for tests: graphs by hand, a run to its end, and what must hold of every run.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "dataplane/fabric/network.h"
#include "dataplane/fabric/next_hops.h"
#include "dataplane/flows/flow_traffic.h"

namespace understudy {

/// "h3"
inline std::string numbered(const char* prefix, size_t number) {
  std::string name(prefix);
  name += std::to_string(number);
  return name;
}

/// Sends at line rate whatever it hears.
struct LineRate final : Controller {
  explicit LineRate(Rate line) : Controller(line) {}
};

inline FlowControl line_rate(const FlowSpec&, Rate line, Duration) {
  FlowControl control;
  control.controller = std::make_unique<LineRate>(line);
  return control;
}

inline NetworkSettings lossless(uint64_t buffer, uint64_t headroom) {
  NetworkSettings s;
  s.buffer = buffer;
  ClassSettings c;
  c.pfc = PfcSettings{};
  c.pfc->headroom = headroom;
  s.classes = {c};
  return s;
}

/// 4,000 bytes and nothing else in a packet: 320 ns at 100 Gbit/s.
inline FlowSettings bare() {
  FlowSettings f;
  f.payload = 4000;
  f.overhead = 0;
  f.gap = 0;
  f.ack_bytes = 50;  // 4 ns
  return f;
}

inline NetworkSettings store_and_forward(uint64_t buffer = 4 << 20, uint64_t headroom = 100'000) {
  NetworkSettings s = lossless(buffer, headroom);
  s.cut_through = false;
  return s;
}

/// `hosts` NICs "h0", "h1" ... at one switch "s".
inline Graph star(unsigned hosts, Rate rate, Duration latency) {
  Graph g;
  const VertexId s = g.add_vertex({VertexKind::kSwitch, "s", 0, 0, 1});
  for (unsigned i = 0; i < hosts; ++i) {
    g.connect(g.add_vertex({VertexKind::kNic, numbered("h", i), i, 0, 0}), s, rate, latency);
  }
  return g;
}

/// The links along vertices of these names.
inline std::vector<LinkId> path_of(const Graph& g, const std::vector<std::string>& names) {
  std::vector<LinkId> path;
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    const VertexId from = g.find(names[i]), to = g.find(names[i + 1]);
    for (const LinkId link : g.out(from)) {
      if (g.link(link).to == to) {
        path.push_back(link);
        break;
      }
    }
  }
  EXPECT_EQ(path.size() + 1, names.size());
  return path;
}

inline FlowSpec flow_of(const Graph& g, const std::vector<std::string>& names, uint64_t bytes,
                        Duration start = {}) {
  FlowSpec f;
  f.path = path_of(g, names);
  f.from = g.find(names.front());
  f.to = g.find(names.back());
  f.bytes = bytes;
  f.start = start;
  return f;
}

/// A flow whose way the switches choose.
inline FlowSpec routed_flow(const Graph& g, const std::string& from, const std::string& to,
                            uint64_t bytes, uint64_t number, uint8_t most_paths = 1) {
  FlowSpec f;
  f.from = g.find(from);
  f.to = g.find(to);
  f.bytes = bytes;
  f.number = number;
  f.most_paths = most_paths;
  return f;
}

/// A network with flows in it. Without `other` switches know all shortest paths.
struct FlowRun {
  FlowRun(const Graph& graph, std::vector<FlowSpec> flows, const NetworkSettings& network_settings,
          const FlowSettings& flow_settings = {}, FlowTraffic::MakeControl make = line_rate,
          Routing* other = nullptr)
      : g(graph),
        specs(std::move(flows)),
        settings(network_settings),
        transport(flow_settings),
        traffic(g, specs, transport, std::move(make)),
        hops(g, RouteChoice::kSpray, 1),
        net(g, settings, traffic, other != nullptr ? other : &hops) {
    traffic.start(net);
  }
  /// Until all flows have ended, or `limit`.
  void run(Time limit = Time::zero() + Duration::s(10)) {
    while (!traffic.all_finished() && net.next() <= limit) net.step();
    net.finish(net.next().is_never() ? limit : net.next());
  }
  /// Lets what is still under way arrive.
  void drain() {
    while (!net.next().is_never()) net.step();
  }
  uint64_t lost() const {
    uint64_t n = 0;
    for (LinkId l = 0; l < g.links().size(); ++l) {
      for (const uint64_t k : net.counters(l).lost) n += k;
    }
    return n;
  }
  uint64_t pauses() const {
    uint64_t n = 0;
    for (LinkId l = 0; l < g.links().size(); ++l) n += net.counters(l).pauses;
    return n;
  }

  Graph g;
  std::vector<FlowSpec> specs;
  NetworkSettings settings;
  FlowSettings transport;
  FlowTraffic traffic;
  NextHops hops;
  Network net;
};

}  // namespace understudy
