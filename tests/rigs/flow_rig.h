// A small network for tests of flows as rates: NICs at a switch, flows, and the model of both.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/fabric/routes.h"
#include "dataplane/flows/flow_model.h"

namespace understudy {

inline Rate gbps(uint64_t n) { return Rate::bits_per_second(n * 1'000'000'000); }

/// Frames without headers: a byte is a byte.
inline FlowSettings without_headers() {
  FlowSettings frames;
  frames.overhead = frames.gap = 0;
  return frames;
}

struct FlowRig {
  explicit FlowRig(const FlowSettings& settings = without_headers()) : frames(settings) {}

  VertexId add(VertexKind kind) {
    Vertex vertex{kind, "v", 0, 0, 0};
    vertex.name += std::to_string(graph.vertices().size());
    return graph.add_vertex(vertex);
  }
  /// NICs at one switch, of `rate` and 1 us; the first vertex is the switch.
  void star(unsigned nics, Rate rate) {
    add(VertexKind::kSwitch);
    for (unsigned i = 0; i < nics; ++i) {
      graph.connect(add(VertexKind::kNic), 0, rate, Duration::us(1));
    }
  }
  FlowSpec& flow(VertexId from, VertexId to, uint64_t bytes, Duration start = {}) {
    FlowSpec& f = flows.emplace_back();
    f.from = from;
    f.to = to;
    f.bytes = bytes;
    f.start = start;
    return f;
  }
  /// A flow that waits for these.
  FlowSpec& then(VertexId from, VertexId to, uint64_t bytes, std::vector<uint32_t> after) {
    FlowSpec& f = flow(from, to, bytes);
    f.after = std::move(after);
    return f;
  }
  const std::vector<FlowTimes>& run(std::vector<RateChange> changes = {}) {
    Routes routes(graph, RouteChoice::kEcmp, 1);
    senders = {};
    std::vector<uint32_t> of_connection(flows.size(), 0xffffffff);
    for (uint32_t i = 0; i < flows.size(); ++i) {
      const FlowSpec& f = flows[i];
      uint32_t own = static_cast<uint32_t>(senders.paths.size());
      if (f.connection != kNoConnection) {
        uint32_t& known = of_connection[f.connection];
        if (known == 0xffffffff) known = own;
        own = known;
      }
      if (own == senders.paths.size()) {
        senders.paths.push_back(routes.path(f.from, f.to, flow_hash(f.from, f.to, i)));
      }
      senders.of.push_back(own);
    }
    model = std::make_unique<FlowModel>(graph, flows, senders, frames, cut_through, changes);
    model->start();
    while (model->finished() < flows.size() && !model->next().is_never()) model->step();
    return model->times();
  }

  Graph graph;
  std::vector<FlowSpec> flows;
  FlowSenders senders;
  FlowSettings frames;
  bool cut_through = true;
  std::unique_ptr<FlowModel> model;
};

}  // namespace understudy
