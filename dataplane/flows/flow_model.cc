#include "dataplane/flows/flow_model.h"

#include <algorithm>
#include <utility>

namespace understudy {
namespace {

constexpr size_t kHeapArity = 4;  // flatter than a binary heap: what it does is miss the cache

}  // namespace

FlowModel::FlowModel(const Graph& graph, const std::vector<FlowSpec>& flows,
                     const FlowSenders& senders, const FlowSettings& frames, bool cut_through,
                     const std::vector<RateChange>& changes,
                     const std::vector<GroupChange>& group_changes)
    : routes_(senders),
      frames_(frames),
      cut_through_(cut_through),
      rates_(graph.links().size()),
      down_(graph.links().size()),
      closed_(graph.links().size()),
      next_(flows.size(), kNone),
      heard_(flows.size()),
      ready_(flows.size()),
      times_(flows.size()),
      due_(flows.size()),
      held_(flows.size()),
      specs_(flows),
      groups_(flows),
      senders_(senders.paths.size()),
      line_(graph.links().size()),
      streams_(graph.links().size()),
      others_(graph.links().size()),
      has_place_(flows.size()) {
  for (const Vertex& vertex : graph.vertices()) nics_.push_back(vertex.nic);
  if (std::ranges::none_of(nics_, &NicLimits::delays)) nics_.clear();
  for (LinkId id = 0; id < graph.links().size(); ++id) {
    const GraphLink& link = graph.link(id);
    limits_.push_back(link.limits);
    rate_.push_back(link.rate);
    capacity_.push_back(capacity_of(id, link.rate));
    latency_.push_back(link.latency);
    rates_.set_capacity(id, capacity_.back());
    for (const GraphLink::Outage& outage : link.down) {
      changes_.push_back({{outage.from, id, {}, {}}, 1});
      changes_.push_back({{outage.to, id, {}, {}}, -1});
    }
  }
  for (const std::vector<LinkId>& path : senders.paths) rates_.add(path);
  for (const RateChange& change : changes) changes_.push_back({change, 0});
  for (const GroupChange& change : group_changes) {
    changes_.push_back({{.at = change.at}, 0, change});
  }
  std::stable_sort(changes_.begin(), changes_.end(),
                   [](const Change& a, const Change& b) { return a.to.at < b.to.at; });
  wire_bytes_.reserve(flows.size());
  offset_.reserve(flows.size());
  waits_for_.reserve(flows.size());
  first_follower_.resize(flows.size() + 1);
  for (const FlowSpec& flow : flows) {
    wire_bytes_.push_back(wire_bytes(flow));
    offset_.push_back(flow.start);
    waits_for_.push_back(static_cast<uint32_t>(flow.after.size()));
    for (const uint32_t before : flow.after) ++first_follower_[before + 1];
  }
  for (size_t i = 0; i < flows.size(); ++i) first_follower_[i + 1] += first_follower_[i];
  followers_.resize(first_follower_.back());
  std::vector<uint32_t> filled(first_follower_.begin(), first_follower_.end() - 1);
  for (uint32_t i = 0; i < flows.size(); ++i) {
    for (const uint32_t before : flows[i].after) followers_[filled[before]++] = i;
    senders_[senders.of[i]].stopped = !groups_.runs(flows[i].group);
  }
}

void FlowModel::start() {
  for (uint32_t i = 0; i < waits_for_.size(); ++i) {
    if (waits_for_[i] == 0) start_by_clock(i, Time::zero() + offset_[i]);
  }
}

/// One without bytes is a packet, as a message of zero length is.
uint64_t FlowModel::wire_bytes(const FlowSpec& flow) const {
  const uint64_t packets =
      std::max<uint64_t>(1, flow.bytes / frames_.payload + (flow.bytes % frames_.payload != 0));
  return flow.bytes + packets * (frames_.overhead + frames_.gap) + flow.first_header +
         flow.last_header;
}

/// From a flow's leaving until it has come in.
Duration FlowModel::path_time(uint32_t sender, uint64_t bytes) const {
  Duration sum;
  bool first = true;
  const uint64_t packet =
      std::min<uint64_t>(bytes, frames_.payload + frames_.overhead + frames_.gap);
  for (const LinkId link : rates_.path(sender)) {
    sum += latency_[link];
    if (!cut_through_ && !first) {
      sum += on_link(link, packet);
    }
    first = false;
  }
  return sum;
}

/// For full packets one behind the other.
MaxMin::Share FlowModel::capacity_of(LinkId link, Rate rate) const {
  const uint64_t full = frames_.payload + frames_.overhead + frames_.gap;
  return MaxMin::share_of(limited_rate(rate, limits_[link], full));
}

/// Of a packet.
Duration FlowModel::on_link(LinkId link, uint64_t bytes) const {
  return std::max(rate_[link].time_for(bytes), limits_[link].time_for(bytes));
}

void FlowModel::put(size_t at, const Leaving& leaving) {
  heap_[at] = leaving;
  senders_[leaving.sender].place = static_cast<uint32_t>(at);
}

/// Moves the free place `at` up or down to where `leaving` belongs, and puts it there.
void FlowModel::sift(size_t at, const Leaving& leaving) {
  while (at > 0 && leaving < heap_[(at - 1) / kHeapArity]) {
    put(at, heap_[(at - 1) / kHeapArity]);
    at = (at - 1) / kHeapArity;
  }
  while (true) {
    const size_t first = kHeapArity * at + 1;
    if (first >= heap_.size()) break;
    size_t child = first;
    for (size_t i = first + 1; i < std::min(first + kHeapArity, heap_.size()); ++i) {
      if (heap_[i] < heap_[child]) child = i;
    }
    if (!(heap_[child] < leaving)) break;
    put(at, heap_[child]);
    at = child;
  }
  put(at, leaving);
}

void FlowModel::schedule(uint32_t sender, Time at) {
  size_t place = senders_[sender].place;
  if (place == kNone) {
    place = heap_.size();
    heap_.emplace_back();
  }
  sift(place, {at, sender});
}

void FlowModel::unschedule(uint32_t sender) {
  const size_t place = senders_[sender].place;
  if (place == kNone) return;
  senders_[sender].place = kNone;
  const Leaving last = heap_.back();
  heap_.pop_back();
  if (place < heap_.size()) sift(place, last);
}

/// When the sender's first flow leaves, if its rate stays.
void FlowModel::plan(uint32_t sender) {
  const Sender& s = senders_[sender];
  if (s.rate == 0 || s.first == kNone) return unschedule(sender);
  const Work time = (s.left + s.rate - 1) / s.rate;
  if (time >= static_cast<Work>(INT64_MAX - s.since.ps())) return unschedule(sender);
  schedule(sender, s.since + Duration::ps(static_cast<int64_t>(time)));
}

void FlowModel::begin_next(uint32_t sender) {
  Sender& s = senders_[sender];
  s.left = static_cast<Work>(wire_bytes_[s.first]) * Rate::kPsBitsPerByte << MaxMin::kFractionBits;
  s.since = s.begun = now_;
  if (heard_[s.first] && !is_short(s.first)) note_stream(sender);
  if (s.active) plan(sender);
}

void FlowModel::begin(uint32_t flow) {
  times_[flow].start = now_ - nic_from(flow).lead;
  const uint32_t sender = routes_.of[flow];
  Sender& s = senders_[sender];
  if (s.first != kNone) {
    s.last = next_[s.last] = flow;
    return;
  }
  s.first = s.last = flow;
  begin_next(sender);
  activate(sender);
}

void FlowModel::activate(uint32_t sender) {
  Sender& s = senders_[sender];
  if (s.active || s.stopped || s.cut_off || s.first == kNone) return;
  s.active = true;
  rates_.start(sender);
  count(sender, !listeners_.empty() && !heard_[s.first] ? 1 : 0);
}

/// One of whose packets nothing is known is on its links, or no longer.
void FlowModel::count(uint32_t sender, uint32_t others) {
  Sender& s = senders_[sender];
  if (s.others == others) return;
  for (const LinkId link : rates_.path(sender)) others_[link] += others - s.others;
  s.others = others;
}

/// `due`: by the clock of its group.
void FlowModel::start_by_clock(uint32_t flow, Time due) {
  const uint32_t group = specs_[flow].group;
  due_[flow] = due;
  held_[flow] = !groups_.runs(group);
  if (!held_[flow]) start_at(later(groups_.when(group, due), nic_from(flow).lead), flow);
}

void FlowModel::start_at(Time at, uint32_t flow) {
  const uint32_t connection = specs_[flow].connection;
  starts_.push({at, flow, heard_[flow] && connection != kNoConnection ? connection : flow});
}

void FlowModel::leave(uint32_t sender) {
  Sender& s = senders_[sender];
  const uint32_t flow = s.first;
  s.bytes += wire_bytes_[flow] - s.elsewhere;
  s.elsewhere = 0;
  s.first = next_[flow];
  Duration behind;
  if (heard_[flow] && !is_short(flow)) behind = end_stream(sender, wire_bytes_[flow]);
  cross_from_front(sender);
  if (s.first != kNone) {
    begin_next(sender);
  } else {
    unschedule(sender);
    idle_.push_back(sender);
  }
  if (heard_[flow]) {
    const std::span<const LinkId> path = rates_.path(sender);
    left_.push_back({path.front(), path.back(), sender, flow, behind, {}});
    return;
  }
  received(flow, later(now_, path_time(sender, wire_bytes_[flow]) + nic_to(flow).tail));
}

void FlowModel::received(uint32_t flow, Time at) {
  times_[flow].received = at;
  ++finished_;
  groups_.note_end(specs_[flow].group);
  for (uint32_t i = first_follower_[flow]; i < first_follower_[flow + 1]; ++i) {
    const uint32_t next = followers_[i];
    ready_[next] = std::max(ready_[next], at);
    if (--waits_for_[next] != 0) continue;
    // It starts that long after all have come in, which may be after the group has stopped.
    const uint32_t group = specs_[next].group;
    start_by_clock(next, later(groups_.clock(group, ready_[next]), offset_[next]));
  }
}

/// A flow of a listener has come in whole at its receiver's NIC: when the program hears of it, and
/// when its acknowledgement leaves.
void FlowModel::come_to_nic(uint32_t flow, Time at) {
  const NicLimits& nic = nic_to(flow);
  calls_.push({later(at, nic.tail), Call::kReceived, called_++, flow});
  if (nic.delays()) crossings_.push({later(at, nic.ack_delay), crossed_++, flow, 0, true});
}

void FlowModel::call(const Call& call) {
  if (call.kind == Call::kReceived) {
    received(call.index, call.at);
    if (!nic_to(call.index).delays()) cross({call.at, crossed_++, call.index, 0, true});
  }
  for (FlowListener* listener : listeners_) {
    if (call.kind == Call::kReceived) listener->on_received(call.index, call.at);
    if (call.kind == Call::kAcknowledged) listener->on_acknowledged(call.index, call.at);
    if (call.kind == Call::kWake) listener->on_wake(call.index, call.at);
  }
}

void FlowModel::hold(uint32_t flow) {
  ++waits_for_[flow];
  heard_[flow] = true;
}

void FlowModel::release(uint32_t flow, Time at) {
  ready_[flow] = std::max(ready_[flow], at);
  if (--waits_for_[flow] != 0) return;
  const Time clock = groups_.clock(specs_[flow].group, ready_[flow]);
  start_by_clock(flow, later(clock, offset_[flow]));
}

void FlowModel::apply(const Change& change) {
  const LinkId link = change.to.link;
  if (change.to.rate) {
    rate_[link] = *change.to.rate;
    capacity_[link] = capacity_of(link, rate_[link]);
  }
  if (change.to.latency) latency_[link] = *change.to.latency;
  down_[link] += static_cast<uint32_t>(change.down);
  const auto close = [&](uint8_t bit, const std::optional<bool>& closed) {
    if (!closed) return;
    closed_[link] = static_cast<uint8_t>(*closed ? closed_[link] | bit : closed_[link] & ~bit);
  };
  close(kDown, change.to.down);
  close(kPaused, change.to.paused);
  close(kFromDead, change.to.from_dead);
  close(kToDead, change.to.to_dead);
  if (change.to.storm) close(kStorm, change.to.storm->on);
  if (change.down != 0 || change.to.moves_link()) await_reroute(link, now_);
  note_outage(change.to);
  rates_.set_capacity(link, is_closed(link) ? 0 : capacity_[link]);
}

void FlowModel::apply(const GroupChange& change) {
  if (!groups_.set_running(change.group, change.running, change.at)) return;
  const FlowGroups::Range flows = groups_.flows(change.group);
  for (uint32_t i = flows.first; i < flows.end; ++i) {
    const uint32_t sender = routes_.of[i];
    Sender& s = senders_[sender];
    s.stopped = !change.running;
    if (change.running) {
      if (held_[i]) start_by_clock(i, due_[i]);
      if (!s.active && s.first != kNone) s.since = now_;
      activate(sender);
    } else {
      rest(sender);
    }
  }
}

/// It sends nothing for the time being.
void FlowModel::rest(uint32_t sender) {
  Sender& s = senders_[sender];
  if (!s.active) return;
  s.left -= std::min(s.left, static_cast<Work>(s.rate) * static_cast<Work>((now_ - s.since).ps()));
  s.since = now_;
  s.active = false;
  s.rate = 0;
  rates_.stop(sender);
  count(sender, 0);
  unschedule(sender);
}

void FlowModel::change(const RateChange& change) {
  now_ = change.at;
  apply(Change{change, 0});
  settle();
}

void FlowModel::change(const GroupChange& change) {
  now_ = change.at;
  apply(change);
  settle();
}

void FlowModel::plan(Change change) {
  const auto after = [](Time at, const Change& known) { return at < known.to.at; };
  const auto from = changes_.begin() + static_cast<ptrdiff_t>(next_change_);
  changes_.insert(std::upper_bound(from, changes_.end(), change.to.at, after), change);
}

/// Gives everyone the rate that is his from now on.
void FlowModel::settle() {
  for (const uint32_t sender : idle_) {
    Sender& s = senders_[sender];
    if (s.first != kNone || !s.active) continue;  // its next flow began at once
    s.active = false;
    s.rate = 0;
    rates_.stop(sender);
    count(sender, 0);
  }
  idle_.clear();
  rates_.update();
  for (const uint32_t sender : rates_.changed()) {
    Sender& s = senders_[sender];
    const Work done = static_cast<Work>(s.rate) * static_cast<Work>((now_ - s.since).ps());
    s.left = s.left > done ? s.left - done : 0;
    s.since = now_;
    if (last_outage_ != kNoOutage) note_rate(s, rates_.rate(sender));
    s.rate = rates_.rate(sender);
    plan(sender);
  }
}

Time FlowModel::next() const {
  Time next = Time::never();
  if (!heap_.empty()) next = heap_.front().at;
  if (!calls_.empty()) next = std::min(next, calls_.top().at);
  if (!crossings_.empty()) next = std::min(next, crossings_.top().at);
  if (!starts_.empty()) next = std::min(next, starts_.top().at);
  if (next_change_ < changes_.size()) next = std::min(next, changes_[next_change_].to.at);
  if (reaction_ != nullptr && !reaction_->findings.empty()) {
    next = std::min(next, reaction_->findings.begin()->first);
  }
  return next;
}

void FlowModel::step() {
  now_ = next();
  for (; !heap_.empty() && heap_.front().at == now_; ++events_) leave(heap_.front().sender);
  come_in();
  while (!calls_.empty() && calls_.top().at == now_) {
    const Call due = calls_.top();
    calls_.pop();
    call(due);
  }
  for (; !starts_.empty() && starts_.top().at == now_; ++events_) {
    const uint32_t flow = starts_.top().flow, group = specs_[flow].group;
    starts_.pop();
    if (groups_.runs(group) && groups_.when(group, due_[flow]) <= now_) {
      if (!crosses_alone(flow) && !waits_in_line(flow)) begin(flow);
    } else {
      start_by_clock(flow, due_[flow]);  // the group has been stopped since
    }
  }
  cross_all();
  for (; next_change_ < changes_.size() && changes_[next_change_].to.at == now_; ++next_change_) {
    const Change& change = changes_[next_change_];
    if (change.group.group != kNoGroup) {
      apply(change.group);
    } else {
      apply(change);
    }
  }
  reroute();
  settle();
}

std::vector<std::pair<uint32_t, MaxMin::Share>> FlowModel::leaving() const {
  std::vector<std::pair<uint32_t, MaxMin::Share>> flows;
  flows.reserve(heap_.size());
  for (const Leaving& l : heap_) {
    flows.emplace_back(senders_[l.sender].first, senders_[l.sender].rate);
  }
  return flows;
}

std::vector<uint32_t> FlowModel::stuck() const {
  std::vector<uint32_t> flows;
  for (const Sender& s : senders_) {
    if (s.first != kNone && s.rate == 0 && !s.stopped) flows.push_back(s.first);
  }
  return flows;
}

Rate FlowModel::rate(uint32_t flow) const {
  const Sender& s = senders_[routes_.of[flow]];
  if (s.first != flow) return {};
  return Rate::bits_per_second(s.rate >> MaxMin::kFractionBits);
}

std::vector<uint64_t> FlowModel::link_bytes() const {
  std::vector<uint64_t> bytes(capacity_.size());
  if (reaction_ != nullptr) bytes = reaction_->carried;
  for (uint32_t i = 0; i < senders_.size(); ++i) {
    for (const LinkId link : rates_.path(i)) bytes[link] += senders_[i].bytes;
  }
  return bytes;
}

}  // namespace understudy
