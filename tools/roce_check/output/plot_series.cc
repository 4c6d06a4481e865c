#include "tools/roce_check/output/plot_series.h"

#include <algorithm>
#include <optional>

namespace understudy {
namespace {

constexpr size_t kMostPoints = 4000;  // of one kind; more make SVGs that viewers choke on
constexpr size_t kSteps = 200;        // of a rate's curve

void thin(std::vector<PlotPoint>& points) {
  if (points.size() <= kMostPoints) return;
  std::vector<PlotPoint> kept;
  for (size_t i = 0; i < kMostPoints; ++i) kept.push_back(points[i * points.size() / kMostPoints]);
  points = std::move(kept);
}

/// A READ takes one for each packet of its response.
int64_t psns_of(const PacketRecord& p, uint32_t pmtu) {
  if (p.info().kind != OpKind::kReadRequest || pmtu == 0) return 1;
  return std::max<int64_t>(1, (int64_t{p.dma_length} + pmtu - 1) / pmtu);
}

}  // namespace

std::vector<PlotSeries> psn_series(const PacketTable& table, const FlowPair& connection,
                                   bool forward, Time origin) {
  const uint32_t asks = forward ? connection.forward : connection.reverse;
  const uint32_t answers = forward ? connection.reverse : connection.forward;
  PlotSeries sent{"sent", "points pt 7 ps 0.25 lc rgb '#1f77b4'", {}};
  PlotSeries again{"sent again", "points pt 7 ps 0.35 lc rgb '#d62728'", {}};
  PlotSeries acks{"ACK", "points pt 1 ps 0.7 lc rgb '#2ca02c'", {}};
  PlotSeries naks{"NAK", "points pt 2 ps 0.9 lw 2 lc rgb '#ff7f0e'", {}};
  PlotSeries data{"response", "points pt 6 ps 0.3 lc rgb '#9467bd'", {}};
  std::vector<uint32_t> indices;
  for (const uint32_t flow : {asks, answers}) {
    if (flow == kNoFlow) continue;
    const auto& packets = table.flows[flow].packets;
    indices.insert(indices.end(), packets.begin(), packets.end());
    if (asks == answers) break;
  }
  std::ranges::sort(indices);
  std::optional<Psn> first;
  int64_t newest = 0;  // of the requests, from the first one on
  for (const uint32_t index : indices) {
    const PacketRecord& p = table.packets[index];
    const bool request = p.flow == asks && p.info().is_request();
    const bool answer = p.flow == answers && p.info().is_response();
    if (!request && !answer) continue;
    if (!first) {
      if (!request) continue;
      first = p.psn.advance(Psn::kMask);  // so that the first one is new
      newest = 0;
    }
    const Psn base = first->advance(static_cast<uint32_t>(newest) & Psn::kMask);
    const int64_t psn = newest + p.psn.distance_from(base);
    const PlotPoint point{(p.at - origin).seconds(), static_cast<double>(psn - 1)};
    const uint8_t kind = p.syndrome & kSyndromeKindMask;
    if (request) {
      (psn > newest ? sent : again).points.push_back(point);
      newest = std::max(newest, psn + psns_of(p, connection.pmtu) - 1);
    } else if (p.info().kind == OpKind::kReadResponse || p.info().atomic_ack) {
      data.points.push_back(point);
    } else {
      (kind == kSyndromeAck ? acks : naks).points.push_back(point);
    }
  }
  std::vector<PlotSeries> out;
  for (PlotSeries* s : {&sent, &data, &acks, &again, &naks}) {
    thin(s->points);
    if (!s->points.empty()) out.push_back(std::move(*s));
  }
  return out;
}

PlotSeries rate_series(const PacketTable& table, const Flow& flow, Time origin, Duration span,
                       const std::string& title, const std::string& style) {
  PlotSeries out{title, style, {}};
  const double width = std::max(span.seconds(), 1e-9) / kSteps;
  std::vector<double> bits(kSteps, 0);
  constexpr double kBitsPerByte = 8;
  for (const uint32_t index : flow.packets) {
    const PacketRecord& p = table.packets[index];
    const double step = (p.at - origin).seconds() / width;
    const auto at = static_cast<size_t>(std::clamp(step, 0.0, static_cast<double>(kSteps - 1)));
    bits[at] += p.wire_bytes * kBitsPerByte;
  }
  for (size_t i = 0; i < kSteps; ++i) {
    out.points.push_back({(static_cast<double>(i) + 0.5) * width, bits[i] / width * 1e-6});
  }
  return out;
}

}  // namespace understudy
