#include "tools/roce_check/checks/link_timeline.h"

#include <algorithm>
#include <limits>

namespace understudy {

Rate LinkTimeline::rate_at(Time t) const {
  Rate rate = steps_.front().rate;
  for (const Step& step : steps_) {
    if (step.at <= t) rate = step.rate;
  }
  return rate;
}

double LinkTimeline::capacity(Time from, Time to, uint32_t packet) const {
  constexpr double kBitsPerByte = 8;
  double bytes = 0;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Time begin = i == 0 ? from : std::max(from, steps_[i].at);
    const Time end = i + 1 == steps_.size() ? to : std::min(to, steps_[i + 1].at);
    if (end <= begin) continue;
    const Rate rate = packet == 0 ? steps_[i].rate : limited_rate(steps_[i].rate, limits_, packet);
    if (rate.is_unlimited()) return std::numeric_limits<double>::infinity();
    bytes += (end - begin).seconds() * static_cast<double>(rate.bps()) / kBitsPerByte;
  }
  return bytes;
}

bool LinkTimeline::shortened(Time from, Time to) const {
  return std::ranges::any_of(shorter_, [&](Time t) { return from < t && t <= to; });
}

bool takes_rate(const Config& config, const PacketRecord& p) {
  if (config.fabric.control_class == ControlClass::kShared) return true;
  const OpcodeInfo& info = p.info();
  const bool credit = info.kind == OpKind::kWrite && info.start && info.end && !info.imm;
  return info.kind != OpKind::kAck && !credit;
}

std::vector<LinkChange> all_changes(const Config& config, const std::vector<LinkChange>& recorded) {
  std::vector<LinkChange> out = recorded;
  for (const EventConfig& event : config.events) {
    if (event.link || (!event.rate && !event.latency)) continue;
    out.push_back({event.at, event.node, event.rate, event.latency});
  }
  // What stands in both is the same change twice, which does no harm.
  std::ranges::stable_sort(out, {}, &LinkChange::at);
  return out;
}

LinkTimeline link_timeline(const Config& config, NodeId node, unsigned nic,
                           const std::vector<LinkChange>& changes, bool delayed) {
  const NicConfig& link = config.nodes[node].nics[nic];
  // Not asked: fabric.pacing. Switched off, the queues do not keep their rates, and it must show.
  LinkTimeline out(link.link_rate, link.link_latency, link.limits.packets);
  Duration latency = link.link_latency;
  for (const LinkChange& change : changes) {
    if (change.node != node) continue;
    latency = change.latency.value_or(latency);
    out.change(change.at + (delayed ? latency : Duration()), change.rate, change.latency);
  }
  return out;
}

}  // namespace understudy
