#include "ctrl/network/ideal_times.h"

#include <algorithm>
#include <unordered_map>

#include "ctrl/traffic/flow_routes.h"
#include "ctrl/traffic/traffic.h"
#include "dataplane/fabric/wire.h"
#include "dataplane/flows/max_min.h"

namespace understudy {
namespace {

/// The wires that packets of one flow cross, and nothing else does.
class IdleWires {
 public:
  IdleWires(const Graph& graph, bool cut_through, Duration resolution)
      : graph_(graph), cut_through_(cut_through), resolution_(resolution) {}

  /// When the last byte of a packet that starts as early as it can is at the end of `path`.
  Time cross(const std::vector<LinkId>& path, uint32_t bytes) {
    LinkExit at;  // at the beginning of the next link
    for (const LinkId link : path) {
      Wire& wire = this->wire(link);
      Time come = at.tail;
      if (link == path.front()) {
        come = Time::zero();
      } else if (cut_through_) {
        // In front of a faster link it waits until it can go through in one piece.
        come = std::max(at.head, at.tail - wire.most_for(bytes));
      }
      wire.send(std::max(come, wire.free_at()), at.tail, time_on(wire, bytes));
      at = wire.exit();
    }
    return at.tail;
  }

 private:
  Wire& wire(LinkId link) {
    const GraphLink& l = graph_.link(link);
    const auto [it, fresh] = wires_.try_emplace(link, l.rate, l.latency);
    if (fresh && l.limits.any()) it->second.set_limits(&l.limits);
    return it->second;
  }
  Duration time_on(Wire& wire, uint32_t bytes) const {
    if (resolution_ == Duration()) return wire.time_of_next(bytes);
    const int64_t exact = wire.time_for(bytes).ps();
    return Duration::ps(exact - exact % resolution_.ps());
  }

  const Graph& graph_;
  const bool cut_through_;
  const Duration resolution_;
  std::unordered_map<LinkId, Wire> wires_;
};

}  // namespace

Duration IdealTimes::of(size_t flow) {
  const auto nic = [&](VertexId v) -> const NicLimits& {
    return topology_.graph.vertices()[v].nic;
  };
  return nic(flows_[flow].from).lead + on_network(flow) + nic(flows_[flow].to).tail;
}

/// From its NIC's link to the other NIC.
Duration IdealTimes::on_network(size_t flow) {
  FlowSpec spec = flows_[flow];
  if (spec.number == kNoFlowNumber) spec.number = hash_number(flows_, flow);
  if (config_.fabric.fidelity == FabricFidelity::kFlow) {
    return as_rate(spec, path_of(routes_, spec));
  }
  if (!spec.spray.empty()) return packet_by_packet(spec, spec.spray);
  if (spec.path.empty() && spec.most_paths > 1) {
    return packet_by_packet(spec, routes_.paths(spec.from, spec.to, spec.most_paths));
  }
  const std::vector<LinkId> path = path_of(routes_, spec);
  Shape shape;
  for (const LinkId link : path) {
    const GraphLink& l = topology_.graph.link(link);
    shape.emplace_back(l.rate.bps(), l.latency.ps());
    if (l.limits.any()) shape.emplace_back(l.limits.pcie.bps(), l.limits.least.ps());
  }
  const auto [known, fresh] = known_.try_emplace({std::move(shape), spec.bytes});
  if (fresh) known->second = packet_by_packet(spec, {path});
  return known->second;
}

/// As FlowModel has it: all bytes at the rate of the slowest link, then what a packet needs to come
/// to the end.
Duration IdealTimes::as_rate(const FlowSpec& flow, const std::vector<LinkId>& path) const {
  const FlowSettings& frames = config_.queues.flows;
  const uint64_t packets = (flow.bytes + frames.payload - 1) / frames.payload;
  const uint64_t bytes = flow.bytes + packets * (frames.overhead + frames.gap);
  const uint64_t full = frames.payload + frames.overhead + frames.gap;
  const uint64_t packet = std::min<uint64_t>(bytes, full);
  Rate slowest = topology_.graph.link(path.front()).rate_for(full);
  Duration after;
  for (const LinkId link : path) {
    const GraphLink& l = topology_.graph.link(link);
    slowest = std::min(slowest, l.rate_for(full),
                       [](const Rate& a, const Rate& b) { return a.bps() < b.bps(); });
    after += l.latency;
    if (!config_.queues.network.cut_through && link != path.front()) {
      after += l.time_for(packet);
    }
  }
  using Work = unsigned __int128;
  const Work share = MaxMin::share_of(slowest);
  const Work work = static_cast<Work>(bytes) * Rate::kPsBitsPerByte << MaxMin::kFractionBits;
  return Duration::ps(static_cast<int64_t>((work + share - 1) / share)) + after;
}

/// The packets take the paths in turn.
Duration IdealTimes::packet_by_packet(const FlowSpec& flow,
                                      const std::vector<std::vector<LinkId>>& paths) const {
  const FlowSettings& frames = config_.queues.flows;
  IdleWires wires(topology_.graph, config_.queues.network.cut_through,
                  config_.queues.network.resolution);
  Time end;
  uint64_t sent = 0;
  for (size_t packet = 0; sent < flow.bytes; ++packet) {
    const uint64_t payload = std::min<uint64_t>(frames.payload, flow.bytes - sent);
    const auto bytes = static_cast<uint32_t>(payload + frames.overhead + frames.gap);
    end = std::max(end, wires.cross(paths[packet % paths.size()], bytes));
    sent += payload;
  }
  return end - Time::zero();
}

}  // namespace understudy
