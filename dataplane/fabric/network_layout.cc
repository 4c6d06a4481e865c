// How a network is made of a graph: links with their queues, limits and marks.
#include <algorithm>
#include <utility>

#include "dataplane/fabric/network.h"

namespace understudy {
namespace {

constexpr size_t kPfcFramesAtOnce = 4;  // of a class on a link: room before the first allocation

/// IEEE 802.1Qbb, annex N, without the interface's own delays, which the model does not have.
uint64_t headroom_of(const GraphLink& link, const NetworkSettings& settings) {
  const auto round_trip = static_cast<unsigned __int128>(link.rate.bps()) * 2 *
                          static_cast<uint64_t>(link.latency.ps()) / Rate::kPsBitsPerByte;
  return static_cast<uint64_t>(round_trip) + 3 * uint64_t{settings.full_packet_bytes} +
         settings.pfc_frame_bytes;
}

}  // namespace

Network::Network(const Graph& graph, const NetworkSettings& settings, NetworkEnds& ends,
                 Routing* routing)
    : graph_(graph),
      settings_(settings),
      ends_(ends),
      routing_(routing),
      classes_(static_cast<unsigned>(settings.classes.size())) {
  for (unsigned c = 0; c < classes_; ++c) {
    for (unsigned p = 0; p < kPriorities; ++p) {
      if (settings_.classes[c].priorities >> p & 1) class_of_[p] = static_cast<uint8_t>(c);
    }
  }
  const auto& vertices = graph_.vertices();
  for (const Vertex& v : vertices) {
    buffers_.emplace_back(v.kind == VertexKind::kSwitch ? settings_.buffer : 0);
  }
  for (const GraphLink& g : graph_.links()) {
    Link l(g.rate, g.latency);
    l.own_rate = g.rate;
    if (g.limits.any()) l.set_limits(&g.limits);
    l.from = g.from;
    l.to = g.to;
    l.from_nic = vertices[g.from].kind != VertexKind::kSwitch;
    l.to_nic = vertices[g.to].kind != VertexKind::kSwitch;
    l.faulty = !g.down.empty() || g.loss > 0;
    l.faults.set_loss(g.loss);
    for (const ClassSettings& c : settings_.classes) {
      IngressUse use;
      if (c.pfc) {
        l.pfc.reserve(kPfcFramesAtOnce * classes_);
        use.headroom = c.pfc->headroom_by_link ? headroom_of(g, settings_) : c.pfc->headroom;
        for (const auto& [rate, bytes] : c.pfc->headroom_by_rate) {
          if (rate == g.rate) use.headroom = bytes;
        }
      }
      ingress_.push_back(use);
      const EcnSettings* ecn = nullptr;
      for (const EcnSettings& e : c.ecn) {
        if (e.rate == g.rate || (e.rate.is_unlimited() && ecn == nullptr)) ecn = &e;
      }
      ecn_.push_back(ecn);
      queues_.emplace_back();
    }
    links_.push_back(std::move(l));
  }
  turns_.resize(vertices.size());
  for (VertexId v = 0; v < vertices.size(); ++v) note_faster(v);
  if (settings_.watchdog) watched_.resize(queues_.size());
  if (!settings_.reconverge || routing_ == nullptr) return;
  moved_.resize(links_.size());
  left_out_.resize(links_.size());
  for (LinkId link = 0; link < links_.size(); ++link) {
    for (const GraphLink::Outage& outage : graph_.link(link).down) {
      await_reroute(link, outage.from);
      await_reroute(link, outage.to);
    }
  }
}

/// Of the links that end at `vertex`, which ones lead into faster ones.
void Network::note_faster(VertexId vertex) {
  const auto speed = [&](LinkId link) { return links_[link].own_rate.bps() - 1; };  // 0: unlimited
  uint64_t most = 0;
  for (const LinkId out : graph_.out(vertex)) most = std::max(most, speed(out));
  for (const LinkId out : graph_.out(vertex)) {
    Link& in = links_[reverse(out)];
    in.into_faster = in.is_limited() || speed(reverse(out)) < most;
  }
}

}  // namespace understudy
