// What of flows that somebody hears of is a matter of packets: those of a single one, acknowledgements,
// and in which order the last packets of longer ones come.
#include <algorithm>

#include "dataplane/flows/flow_model.h"

namespace understudy {
namespace {

/// Streams of a link that are kept; more at once are queues, of which rates know nothing.
constexpr size_t kStreams = 4;

}  // namespace

bool FlowModel::is_short(uint32_t flow) const {
  return heard_[flow] && specs_[flow].bytes <= frames_.payload;
}

/// The sender's first flow, which is longer than a packet, begins now.
void FlowModel::note_stream(uint32_t sender) {
  Time at = now_;
  const uint64_t full = frames_.payload + frames_.overhead + frames_.gap;
  for (const LinkId link : rates_.path(sender)) {
    std::vector<Stream>& streams = streams_[link];
    std::erase_if(streams, [&](const Stream& s) { return s.to < now_; });
    if (streams.size() == kStreams) streams.erase(streams.begin());
    streams.push_back({at, Time::never(), {}, at - now_, sender, {}});
    at = later(at, latency_[link] + (cut_through_ ? Duration() : on_link(link, full)));
  }
}

/// The sender takes another way from now on, and what it has sent on this one is over.
void FlowModel::drop_stream(uint32_t sender) {
  for (const LinkId link : rates_.path(sender)) {
    std::erase_if(streams_[link],
                  [&](const Stream& s) { return s.sender == sender && s.to.is_never(); });
  }
}

/// It has just left. Gives how much later than that its last packet is on some link further on: gaps
/// that others have made on the first one let in those of the next ones.
Duration FlowModel::end_stream(uint32_t sender, uint64_t bytes) {
  const uint64_t full = frames_.payload + frames_.overhead + frames_.gap;
  Duration first, most;
  for (const LinkId link : rates_.path(sender)) {
    for (Stream& s : streams_[link]) {
      if (s.sender != sender || !s.to.is_never()) continue;
      if (link == rates_.path(sender).front()) first = s.behind;
      most = std::max(most, s.behind);
      const Duration took = now_ - senders_[sender].begun;
      s.to = later(now_, s.offset + std::max(Duration(), s.behind - first));
      s.apart = Duration::ps(
          static_cast<int64_t>(static_cast<double>(took.ps()) * static_cast<double>(full) /
                               static_cast<double>(std::max(bytes, full))));
    }
  }
  return most - first;
}

/// When a packet that reaches the link at `at` can begin there.
Time FlowModel::link_free(LinkId link, Time at) {
  const uint64_t full = frames_.payload + frames_.overhead + frames_.gap;
  const Duration packet = on_link(link, full);
  Time free = std::max(line_[link], at);
  for (const Stream& s : streams_[link]) {
    if (at < s.from || at >= s.to) continue;
    Duration apart = s.apart;
    if (s.to.is_never()) {
      const MaxMin::Share rate = senders_[s.sender].rate;
      if (rate == 0) continue;
      apart = Rate::bits_per_second(rate >> MaxMin::kFractionBits).time_for(full);
    }
    if (apart.ps() <= 0) continue;
    const Duration phase = Duration::ps((at - s.from).ps() % apart.ps());
    if (phase < packet) free = std::max(free, std::min(s.to, at + (packet - phase)));
  }
  return free;
}

/// Another packet has been let in between those of the link's streams.
void FlowModel::push_back(LinkId link, Time at, Duration by) {
  for (Stream& s : streams_[link]) {
    if (!s.to.is_never() || at <= s.from) continue;
    s.from += by;
    s.behind += by;
    const std::span<const LinkId> path = rates_.path(s.sender);
    if (path.front() != link) continue;
    for (const LinkId next : path.subspan(1)) {
      for (Stream& further : streams_[next]) {
        if (further.sender == s.sender && further.to.is_never()) further.from += by;
      }
    }
    Sender& sender = senders_[s.sender];
    sender.left += static_cast<Work>(sender.rate) * static_cast<Work>(by.ps());
    if (sender.active) plan(s.sender);
  }
}

/// A single packet goes from link to link behind others. False: it has to wait for its connection, or
/// for a link, or shares one with flows whose packets are not known.
bool FlowModel::crosses_alone(uint32_t flow) {
  const uint32_t sender = routes_.of[flow];
  const Sender& s = senders_[sender];
  const auto shares = [&](LinkId link) { return is_closed(link) || others_[link] != 0; };
  if (!is_short(flow) || s.first != kNone || s.cut_off ||
      std::ranges::any_of(rates_.path(sender), shares)) {
    return false;
  }
  crossings_.push({now_, crossed_++, flow, 0, false});
  return true;
}

/// What is in front of the sender's flows, once the one before has left.
void FlowModel::cross_from_front(uint32_t sender) {
  Sender& s = senders_[sender];
  while (s.first != kNone && is_short(s.first)) {
    const uint32_t flow = s.first, next = next_[flow];
    s.first = kNone;
    const bool crosses = crosses_alone(flow);
    s.first = crosses ? next : flow;
    if (!crosses) return;
  }
}

void FlowModel::cross_all() {
  while (!crossings_.empty() && crossings_.top().at == now_) {
    const Crossing crossing = crossings_.top();
    crossings_.pop();
    cross(crossing);
  }
}

void FlowModel::cross(const Crossing& crossing) {
  const auto& [at, number, flow, hop, acknowledges] = crossing;
  const uint32_t sender = routes_.of[flow];
  const std::span<const LinkId> path = rates_.path(sender);
  const uint64_t bytes = acknowledges ? frames_.ack_bytes + frames_.gap : wire_bytes_[flow];
  // The way may have become shorter meanwhile.
  const size_t on = std::min<size_t>(hop, path.size() - 1);
  const LinkId link = acknowledges ? reverse(path[path.size() - 1 - on]) : path[on];
  const Time begin = link_free(link, at);
  const Time end = begin + on_link(link, bytes);
  line_[link] = end;
  push_back(link, begin, end - begin);
  if (hop == 0 && !acknowledges) times_[flow].start = begin - nic_from(flow).lead;
  if (hop + 1 < path.size()) {
    crossings_.push(
        {(cut_through_ ? begin : end) + latency_[link], crossed_++, flow, hop + 1, acknowledges});
    return;
  }
  const Time in = end + latency_[link];
  if (acknowledges) {
    calls_.push({in + nic_from(flow).tail, Call::kAcknowledged, called_++, flow});
  } else {
    senders_[sender].bytes += bytes;
    come_to_nic(flow, in);
  }
}

/// Packets that leave its NIC one by one are in front of it.
bool FlowModel::waits_in_line(uint32_t flow) {
  const uint32_t sender = routes_.of[flow];
  if (!heard_[flow] || is_short(flow) || has_place_[flow] || senders_[sender].cut_off ||
      senders_[sender].first != kNone) {
    return false;
  }
  const Time place = std::max(line_[rates_.path(sender).front()], now_);
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
    const Time at =
        later(now_, path_time(left.sender, wire_bytes_[left.flow]) + left.behind - left.in_front);
    come_to_nic(left.flow, std::max(at, now_));
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
