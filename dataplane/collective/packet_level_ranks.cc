#include "dataplane/collective/packet_level_ranks.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "collective_model/workload/chain.h"
#include "dataplane/base/assert.h"

namespace understudy {

MessageWays message_ways(std::span<const VertexId> from, std::span<const VertexId> to) {
  MessageWays ways;
  ways.pairs = ways.count = static_cast<uint32_t>(std::max(from.size(), to.size()));
  ASSERT_INVARIANT(!from.empty() && !to.empty() && ways.count <= ways.all.size());
  for (uint32_t part = 0; part < ways.count; ++part) {
    ways.all[part] = {from[part % from.size()], to[part % to.size()]};
  }
  ways.credits = static_cast<uint32_t>(to.size());
  return ways;
}

FlowSpec data_flow(const PacketLevelRanksSettings& settings, const MessageWays::Way& way,
                   uint32_t connection) {
  FlowSpec flow;
  flow.priority = settings.priority;
  flow.from = way.from;
  flow.to = way.to;
  flow.control = settings.control;
  flow.ect = settings.ect;
  flow.ack_every = settings.ack_every;
  flow.first_header = settings.first_header;
  flow.last_header = settings.last_header;
  flow.connection = connection;
  return flow;
}

FlowSpec credit_flow(const PacketLevelRanksSettings& settings, const FlowSpec& data,
                     uint32_t connection) {
  FlowSpec flow = data;
  std::swap(flow.from, flow.to);
  flow.bytes = settings.credit_bytes;
  flow.control = kNoControl;
  flow.ect = false;
  flow.last_header = 0;
  flow.connection = connection;
  return flow;
}

PacketLevelRanks::PacketLevelRanks(std::vector<RankOperation> operations,
                                   const PacketLevelRanksSettings& settings,
                                   std::vector<bool> played)
    : operations_(std::move(operations)),
      settings_(settings),
      played_(std::move(played)),
      program_(*this, most_ranks(operations_), static_cast<uint32_t>(operations_.size()),
               settings.inside),
      parts_(operations_.size()),
      relay_free_(most_ranks(operations_)) {
  ASSERT_INVARIANT(played_.empty() || played_.size() == most_ranks(operations_));
  for (uint32_t o = 0; o < operations_.size(); ++o) make_parts(o);
}

uint32_t PacketLevelRanks::most_ranks(const std::vector<RankOperation>& operations) {
  size_t most = 0;
  for (const RankOperation& operation : operations) most = std::max(most, operation.ranks.size());
  return static_cast<uint32_t>(most);
}

void PacketLevelRanks::make_parts(uint32_t operation) {
  std::vector<const RankSchedule*> schedules;
  for (const auto& schedule : operations_[operation].ranks) schedules.push_back(schedule.get());
  auto ends = far_ends(schedules).value();  // all ranks of one operation
  std::vector<Part>& parts = parts_[operation];
  parts.reserve(schedules.size());
  for (uint32_t r = 0; r < schedules.size(); ++r) {
    if (played(r)) ++unfinished_;
    parts.push_back({RankPart(*schedules[r], std::move(ends[r]), RankPart::Order::kByChannel),
                     std::vector<End>(schedules[r]->connections().size())});
    for (uint32_t c = 0; c < parts[r].ends.size() && settings_.inside; ++c) {
      const Connection& own = schedules[r]->connections()[c];
      if (own.network && !relays(own)) continue;
      parts[r].ends[c].way = static_cast<uint32_t>(ways_.size());
      ways_.push_back({operation, r, c});
    }
    program_.begin(operation, r, parts[r].program);
  }
  ASSERT_INVARIANT(parts.size() == schedules.size());
}

bool PacketLevelRanks::crosses_network(const RankEnd& end) const {
  const Connection& c = connections(end.operation, end.rank)[end.connection];
  if (c.direction != Direction::kSend || !c.network) return false;
  return played(end.rank) || played(peer(end).rank);
}

/// Calls each(end) for every end that sends over the network, by operation, rank and connection.
template <typename Each>
void PacketLevelRanks::for_each_crossing(Each each) const {
  for (uint32_t o = 0; o < operations_.size(); ++o) {
    for (uint32_t r = 0; r < parts_[o].size(); ++r) {
      for (uint32_t c = 0; c < connections(o, r).size(); ++c) {
        if (crosses_network({o, r, c})) each(RankEnd{o, r, c});
      }
    }
  }
}

uint32_t PacketLevelRanks::add_flows(std::vector<FlowSpec>& flows, const WaysOf& ways_of,
                                     uint32_t first_connection) {
  first_flow_ = static_cast<uint32_t>(flows.size());
  struct Numbered {
    uint32_t credits = 0, data = 0;  ///< first number
    uint32_t turn = 0;               ///< way of the next operation's first credit
  };
  using Key = std::tuple<uint32_t, uint32_t, uint32_t, uint8_t>;
  const auto key = [](const Connection& c) { return Key{c.from, c.to, c.channel, c.index}; };
  std::map<Key, Numbered> numbered;
  // Credits have the lower numbers: they go first when both start at one moment.
  uint32_t data = 0, next = first_connection;
  for_each_crossing([&](const RankEnd& end) {
    const Connection& connection = connections(end.operation, end.rank)[end.connection];
    const auto [it, fresh] = numbered.try_emplace(key(connection));
    if (!fresh) return;
    const MessageWays ways = ways_of(connection);
    ASSERT_INVARIANT(ways.credits > 0 && ways.credits <= ways.count);
    it->second = {next, data};
    next += ways.credits;
    data += ways.count * ways.turns;
  });
  for_each_crossing([&](const RankEnd& sender) {
    const Connection& connection = connections(sender.operation, sender.rank)[sender.connection];
    const MessageWays ways = ways_of(connection);
    Numbered& known = numbered.at(key(connection));
    add_messages(flows, sender, ways, next + known.data);
    add_credits(flows, sender, ways, known.credits, known.turn);
    known.turn = static_cast<uint32_t>((known.turn + connection.messages) % ways.credits);
  });
  end_flow_ = static_cast<uint32_t>(flows.size());
  return next + data;
}

/// The messages of one operation, all first parts, then all second ones.
void PacketLevelRanks::add_messages(std::vector<FlowSpec>& flows, const RankEnd& sender,
                                    const MessageWays& ways, uint32_t number) {
  const RankSchedule& schedule = *operations_[sender.operation].ranks[sender.rank];
  const Connection& connection = schedule.connections()[sender.connection];
  const uint32_t parts = ways.count;
  End& end = at(sender);
  end.data = static_cast<uint32_t>(flows.size());
  if (ways.mixes()) {
    end.split = static_cast<uint32_t>(splits_.size());
    const uint64_t all = std::max<uint64_t>(connection.messages, 1);
    splits_.push_back({parts, static_cast<uint32_t>(connection.messages), WholeMessages(parts, all),
                       WholeMessages(parts, all), WholeMessages(1, all)});
  }
  ranges_.push_back({end.data, sender, false, ways.mixes()});
  for (uint32_t part = 0; part < parts; ++part) {
    FlowSpec flow = data_flow(settings_, ways.part(part), 0);
    for (uint64_t k = 0; k < connection.messages; ++k) {
      flow.connection = number + part + static_cast<uint32_t>(k % ways.turns) * parts;
      const uint64_t bytes = schedule.message(sender.connection, k).wire;
      flow.bytes = message_part(bytes, parts, part).bytes;
      flows.push_back(flow);
    }
  }
}

/// Their credits, the first of them by way `turn`.
void PacketLevelRanks::add_credits(std::vector<FlowSpec>& flows, const RankEnd& sender,
                                   const MessageWays& ways, uint32_t number, uint32_t turn) {
  const Connection& connection = connections(sender.operation, sender.rank)[sender.connection];
  End& end = at(sender);
  end.credits_at = static_cast<uint32_t>(flows.size());
  ranges_.push_back({end.credits_at, sender, true, ways.mixes()});
  const FlowSpec first = data_flow(settings_, ways.all[0], 0);
  flows.insert(flows.end(), connection.messages, credit_flow(settings_, first, number));
  if (ways.credits == 1) return;
  for (size_t flow = end.credits_at; flow < flows.size(); ++flow) {
    flows[flow].from = ways.all[turn].to;
    flows[flow].to = ways.all[turn].from;
    flows[flow].connection = number + turn;
    if (++turn == ways.credits) turn = 0;
  }
}

uint32_t PacketLevelRanks::attach(FlowCarrier& traffic, uint32_t first_wake) {
  traffic_ = &traffic;
  traffic.listen(*this);
  for (uint32_t flow = first_flow_; flow < end_flow_; ++flow) traffic.hold(flow);
  first_wake_ = first_wake;
  return way_wake(ways_.size());
}

void PacketLevelRanks::follow(WorkloadExecutor& workload, uint32_t group) {
  workload_ = &workload;
  group_ = group;
}

void PacketLevelRanks::make_workload() {
  own_ = std::make_unique<Own>();
  Chain chain{.ranks = ranks(),
              .operations = static_cast<uint32_t>(operations_.size()),
              .computes = true,
              .step = [&](uint32_t operation, uint32_t rank) {
                const std::vector<EntryStep>& steps = operations_[operation].steps;
                return steps.empty() ? EntryStep() : steps[rank];
              }};
  add_chain(own_->workload, chain);
  own_->executor = std::make_unique<WorkloadExecutor>(own_->workload);
  follow(*own_->executor, 0);
}

void PacketLevelRanks::start() {
  if (parts_.empty()) return;
  if (workload_ == nullptr) make_workload();
  for (uint32_t r = 0; r < ranks(); ++r) {
    workload_->listen(group_, r, *this);
    workload_->begin(group_, r, Time::zero());
  }
}

Time PacketLevelRanks::completion(size_t operation, uint32_t rank) const {
  return parts_[operation][rank].completion;
}

Time PacketLevelRanks::entry(size_t operation, uint32_t rank) const {
  return parts_[operation][rank].entry;
}

uint32_t PacketLevelRanks::parts(size_t operation, uint32_t rank, uint32_t connection) const {
  const uint32_t number = parts_[operation][rank].ends[connection].split;
  return number == kWhole ? 1 : splits_[number].parts;
}

uint32_t PacketLevelRanks::flow_of(size_t operation, uint32_t rank, uint32_t connection, uint64_t k,
                                   uint32_t part) const {
  const End& end = parts_[operation][rank].ends[connection];
  DEBUG_ASSERT_INVARIANT(part < parts(operation, rank, connection));
  const uint32_t before = part == 0 ? 0 : part * splits_[end.split].messages;
  return end.data + before + static_cast<uint32_t>(k);
}

const PacketLevelRanks::Range& PacketLevelRanks::range_of(uint32_t flow) const {
  const auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), flow,
                       [](uint32_t value, const Range& range) { return value < range.first; });
  return *(after - 1);
}

void PacketLevelRanks::may_enter(uint32_t operation, uint32_t rank, Time at) {
  if (!played(rank)) return other_starts(rank);
  traffic_->wake_listener(at, entry_wake(operation, rank));
}

void PacketLevelRanks::enter(uint32_t operation, uint32_t rank, Time now) {
  DEBUG_ASSERT_INVARIANT(played(rank) && part(operation, rank).entry.is_never());
  part(operation, rank).entry = now;
  cause_ = WaitCause::kEntry;
  program_.enter(operation, rank, now);
}

void PacketLevelRanks::on_received(uint32_t flow, Time now) {
  if (flow < first_flow_ || flow >= end_flow_) return;
  const Range& range = range_of(flow);
  const RankEnd& sender = range.sender;
  cause_ = range.credit ? WaitCause::kCredit : WaitCause::kData;
  if (range.credit) {
    at(sender).credits += range.split ? split(sender).credits.take(flow - range.first) : 1;
    post(sender, now);
  } else if (!range.split) {
    received(sender, flow, now);
  } else {
    Split& s = split(sender);
    const uint32_t k = (flow - range.first) % s.messages;
    const uint32_t whole = s.received.take(k);  // this one, and those that waited for it
    for (uint32_t i = 0; i < whole; ++i) received(sender, range.first + k + i, now);
  }
}

/// The sender's next message is there, whose first part, or the whole of which, is `flow`.
void PacketLevelRanks::received(const RankEnd& sender, uint32_t flow, Time now) {
  const RankEnd receiver = peer(sender);
  if (!played(receiver.rank)) {
    other_received(receiver.operation, receiver.rank, receiver.connection, now);
  } else if (settings_.step_cost > Duration()) {
    traffic_->wake_listener(now + settings_.step_cost, first_wake_ + (flow - first_flow_));
  } else {
    program_.arrived(receiver, now);
  }
}

void PacketLevelRanks::on_acknowledged(uint32_t flow, Time now) {
  if (flow < first_flow_ || flow >= end_flow_) return;
  const Range& range = range_of(flow);
  if (range.credit) return;
  if (!range.split) return acknowledged(range.sender, now);
  Split& s = split(range.sender);
  uint32_t whole = s.acknowledged.take((flow - range.first) % s.messages);
  for (; whole > 0; --whole) acknowledged(range.sender, now);
}

void PacketLevelRanks::acknowledged(const RankEnd& sender, Time now) {
  if (!played(sender.rank)) {
    return other_acknowledged(sender.operation, sender.rank, sender.connection, now);
  }
  cause_ = WaitCause::kAcknowledgement;
  program_.acknowledged(sender, now);
}

void PacketLevelRanks::on_wake(uint32_t index, Time now) {
  if (index < first_wake_ || index >= way_wake(ways_.size())) return;  // another job's
  if (index >= way_wake(0)) {
    const RankEnd& end = ways_[index - way_wake(0)];
    if (!connections(end.operation, end.rank)[end.connection].network) {
      cause_ = WaitCause::kData;
      return program_.passed(end, now);
    }
    cause_ = WaitCause::kData;
    ++at(end).filled;  // its copy has come to the GPU next to the NIC
    return post(end, now);
  }
  if (index < entry_wake(0, 0)) {
    cause_ = WaitCause::kData;
    return program_.arrived(peer(range_of(first_flow_ + (index - first_wake_)).sender), now);
  }
  const uint32_t entry = index - entry_wake(0, 0);
  enter(entry / ranks(), entry % ranks(), now);
}

void PacketLevelRanks::other_posts(uint32_t operation, uint32_t rank, uint32_t connection,
                                   Time now) {
  const RankEnd sender{operation, rank, connection};
  DEBUG_ASSERT_INVARIANT(!played(rank));
  ++at(sender).filled;
  post(sender, now);
}

/// Copies of one GPU to others of its node follow each other on its link.
void PacketLevelRanks::relay(const RankEnd& sender, uint64_t k, Time now) {
  const uint64_t bytes =
      operations_[sender.operation].ranks[sender.rank]->message(sender.connection, k).wire;
  Time& free = relay_free_[sender.rank];
  free = std::max(now, free) + settings_.inside->rate.time_for(bytes);
  traffic_->wake_listener(free + settings_.inside->latency, way_wake(at(sender).way));
}

void PacketLevelRanks::on_filled(const RankEnd& sender, uint64_t k, Time now) {
  End& end = at(sender);
  if (recording_) end.moments.push_back({now, Time::never(), cause_, cause_});
  const Connection& connection = connections(sender.operation, sender.rank)[sender.connection];
  if (!connection.network) return;
  if (relays(connection)) return relay(sender, k, now);
  ++end.filled;
  post(sender, now);
}

void PacketLevelRanks::on_grantable(const RankEnd& receiver, uint64_t k, Time now) {
  traffic_->release(at(peer(receiver)).credits_at + static_cast<uint32_t>(k), now);
}

void PacketLevelRanks::on_passing(const RankEnd& end, Time time) {
  DEBUG_ASSERT_INVARIANT(at(end).way < ways_.size());
  traffic_->wake_listener(time, way_wake(at(end).way));
}

void PacketLevelRanks::on_done(uint32_t operation, uint32_t rank, Time now) {
  DEBUG_ASSERT_INVARIANT(unfinished_ > 0 && part(operation, rank).completion.is_never());
  part(operation, rank).completion = now;
  --unfinished_;
  workload_->done(group_, operation, rank, now);
}

/// The message leaves whose first part is `flow`: its other parts.
void PacketLevelRanks::release_rest(const Split& split, uint32_t flow, Time now) {
  for (uint32_t part = 1; part < split.parts; ++part) {
    traffic_->release(flow + part * split.messages, now);
  }
}

/// Filled messages leave as far as there are credits.
void PacketLevelRanks::post(const RankEnd& sender, Time now) {
  End& end = at(sender);
  while (end.posted < end.filled && end.posted < end.credits) {
    if (recording_) {
      end.moments[end.posted].posted = now;
      end.moments[end.posted].why_posted = cause_;
    }
    const uint32_t flow = end.data + static_cast<uint32_t>(end.posted++);
    traffic_->release(flow, now);
    if (end.split != kWhole) release_rest(splits_[end.split], flow, now);
  }
}

}  // namespace understudy
