// What of flows that somebody hears of is a matter of packets: those of a single one, acknowledgements,
// and in which order the last packets of longer ones come.
#include <algorithm>

#include "dataplane/flows/flow_model.h"

namespace understudy {
namespace {

constexpr uint32_t kMany = 4;

}  // namespace

bool FlowModel::is_short(uint32_t flow) const {
  return heard_[flow] && specs_[flow].bytes <= frames_.payload;
}

/// A packet begins at `at` or behind those that are in front of it; gives when it does.
Time FlowModel::take(LinkId link, Time at, uint64_t bytes) {
  const Time begin = std::max(line_[link], at);
  line_[link] = begin + on_link(link, bytes);
  return begin;
}

/// Where many come to one NIC, a single packet goes from link to link behind others of its kind. False:
/// it has to share.
bool FlowModel::pass(uint32_t flow) {
  const uint32_t sender = routes_.of[flow];
  Sender& s = senders_[sender];
  const std::span<const LinkId> path = rates_.path(sender);
  const auto closed = [&](LinkId link) { return is_closed(link); };
  if (!is_short(flow) || short_[specs_[flow].to] < kMany || s.first != kNone || s.cut_off ||
      std::ranges::any_of(path, closed)) {
    return false;
  }
  times_[flow].start = now_;
  const uint64_t bytes = wire_bytes_[flow];
  Time at = now_, end;
  for (const LinkId link : path) {
    const Time begin = take(link, at, bytes);
    end = begin + on_link(link, bytes) + latency_[link];
    at = cut_through_ ? begin + latency_[link] : end;
  }
  s.bytes += bytes;
  calls_.push({end, Call::kReceived, called_++, flow});
  return true;
}

/// Packets that leave its NIC one by one are in front of it; a single one is behind the last.
bool FlowModel::waits_in_line(uint32_t flow) {
  const uint32_t sender = routes_.of[flow];
  if (!heard_[flow] || has_place_[flow] || senders_[sender].cut_off) return false;
  const LinkId link = rates_.path(sender).front();
  const Time place = std::max(line_[link], now_);
  if (is_short(flow)) {
    line_[link] = place + on_link(link, wire_bytes_[flow]);
  } else if (senders_[sender].first != kNone) {
    return false;
  }
  if (place == now_) return false;
  has_place_[flow] = true;
  start_at(place, flow);
  return true;
}

/// All that leave now are known.
void FlowModel::come_in() {
  if (left_.size() > 1) {
    for (LinkId Left::*link : {&Left::first, &Left::last}) {
      std::ranges::stable_sort(left_, {}, link);
      for (size_t i = 0, end = 0; i < left_.size(); i = end) {
        while (end < left_.size() && left_[end].*link == left_[i].*link) ++end;
        put_in_front(std::span(left_).subspan(i, end - i), left_[i].*link);
      }
    }
  }
  for (const Left& left : left_) {
    const Time at = later(now_, path_time(left.sender, wire_bytes_[left.flow]) - left.in_front);
    calls_.push({std::max(at, now_), Call::kReceived, called_++, left.flow});
  }
  left_.clear();
}

/// Of flows that share a link the last one's last packet leaves it now, those of the others before.
void FlowModel::put_in_front(std::span<Left> flows, LinkId link) {
  if (flows.size() == 1) return;
  const uint64_t full = frames_.payload + frames_.overhead + frames_.gap;
  Duration before;
  for (size_t i = flows.size(); i-- > 0;) {
    flows[i].in_front = std::max(flows[i].in_front, before);
    before += on_link(link, std::min(wire_bytes_[flows[i].flow], full));
  }
}

}  // namespace understudy
