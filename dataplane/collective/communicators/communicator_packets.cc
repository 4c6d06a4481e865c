#include "dataplane/collective/communicators/communicator_packets.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "dataplane/base/assert.h"

namespace understudy {

CommunicatorPackets::CommunicatorPackets(std::vector<PacketCommunicator> communicators,
                                         uint32_t first, const PacketLevelRanksSettings& settings,
                                         const WaysOf& ways_of)
    : first_(first) {
  std::vector<InnerConnection> connections;
  uint32_t ranks = 0;
  for (PacketCommunicator& what : communicators) {
    State& state = states_.emplace_back();
    state.what = std::move(what);
    state.first_rank = ranks;
    ranks += state.what.members();
  }
  for (uint32_t c = 0; c < states_.size(); ++c) make_links(c, ways_of, connections);
  inner_ = std::make_unique<InnerMessages>(std::move(connections), settings);
  inner_->listen(*this);
  RankProgramOwner& owner = *this;
  program_ = std::make_unique<RankProgram>(owner, ranks, kInFlight, settings.inside);
}

CommunicatorPackets::~CommunicatorPackets() = default;

void CommunicatorPackets::make_links(uint32_t communicator, const WaysOf& ways_of,
                                     std::vector<InnerConnection>& connections) {
  State& state = states_[communicator];
  const auto shapes = static_cast<uint32_t>(state.what.shapes.size());
  using Key = std::tuple<uint32_t, uint32_t, uint32_t, uint8_t>;
  std::map<Key, uint32_t> known;
  state.parts.resize(shapes);
  state.links.resize(shapes);
  state.messages.resize(shapes);
  communicator_of_.resize(communicator_of_.size() + state.what.members(), communicator);
  for (uint32_t shape = 0; shape < shapes; ++shape) {
    std::vector<const RankSchedule*> schedules;
    for (const auto& schedule : state.what.shapes[shape]) schedules.push_back(schedule.get());
    auto far = far_ends(schedules).value();  // all members of one operation
    for (uint32_t member = 0; member < schedules.size(); ++member) {
      const std::vector<Connection>& all = schedules[member]->connections();
      std::vector<uint32_t>& links = state.links[shape].emplace_back(all.size(), kNone);
      for (uint32_t c = 0; c < all.size(); ++c) {
        const Connection& connection = all[c];
        if (!connection.network) continue;
        ASSERT_INVARIANT(!connection.relayed);
        const Key key{connection.from, connection.to, connection.channel, connection.index};
        const auto [it, fresh] = known.try_emplace(key, connections_.size());
        if (fresh) {
          connections_.push_back(
              {communicator, connection.from, connection.to, std::vector<Use>(shapes), {}, {}});
          connections.push_back({ways_of(first_ + communicator, connection), connection.window});
        }
        links[c] = it->second;
        InnerConnection& inner = connections[it->second];
        inner.window = std::max(inner.window, connection.window);
        Use& use = connections_[it->second].uses[shape];
        const bool sends = connection.direction == Direction::kSend;
        (sends ? use.from : use.to) = c;
        use.messages = connection.messages;
        if (sends) state.messages[shape] += connection.messages;
      }
      for (FarEnd& end : far[member]) end.rank += state.first_rank;
      state.parts[shape].emplace_back(*schedules[member], std::move(far[member]),
                                      RankPart::Order::kByChannel);
    }
  }
}

uint32_t CommunicatorPackets::attach(FlowCarrier& traffic, uint32_t first_wake) {
  ASSERT_INVARIANT(first_wake < kMostWakes);
  traffic_ = &traffic;
  first_wake_ = first_wake;
  traffic.listen(*this);
  return first_wake + kMostWakes;
}

void CommunicatorPackets::wake_at(Time at, const Wake& wake) {
  uint32_t number = 0;
  if (free_.empty()) {
    number = static_cast<uint32_t>(wakes_.size());
    ASSERT_INVARIANT(number < kMostWakes);
    wakes_.push_back(wake);
  } else {
    number = free_.back();
    free_.pop_back();
    wakes_[number] = wake;
  }
  traffic_->wake_listener(at, first_wake_ + number);
}

void CommunicatorPackets::on_wake(uint32_t index, Time now) {
  if (index < first_wake_ || index - first_wake_ >= wakes_.size()) return;  // another job's
  const uint32_t number = index - first_wake_;
  const Wake wake = wakes_[number];
  ASSERT_INVARIANT(wake.kind != Wake::Kind::kFree);
  wakes_[number].kind = Wake::Kind::kFree;
  free_.push_back(number);
  if (wake.kind == Wake::Kind::kPassing) return program_->passed(wake.end, now);
  enter_now(wake.communicator, {wake.end.operation, wake.end.rank}, now);
}

void CommunicatorPackets::enter(uint32_t communicator, uint32_t operation, uint32_t member,
                                Time at) {
  wake_at(at, {Wake::Kind::kEntry, communicator - first_, {operation, member, 0}});
}

uint32_t CommunicatorPackets::append(uint32_t communicator, uint32_t shape) {
  std::vector<uint32_t>& operations = states_[communicator - first_].what.operations;
  operations.push_back(shape);
  return static_cast<uint32_t>(operations.size()) - 1;
}

void CommunicatorPackets::enter_now(uint32_t communicator, const Entry& entry, Time now) {
  State& state = states_[communicator];
  if (entry.operation >= state.retired + kInFlight) return state.waiting.push_back(entry);
  const uint32_t shape = shape_of(state, entry.operation);
  uint64_t& left = state.left[entry.operation % kInFlight];
  if (left == 0) {
    // Members of one node hear of each other before they have entered.
    left = state.what.members() + state.messages[shape];
    for (uint32_t m = 0; m < state.what.members(); ++m) {
      program_->begin(entry.operation, state.first_rank + m, state.parts[shape][m]);
    }
  }
  program_->enter(entry.operation, state.first_rank + entry.member, now);
}

void CommunicatorPackets::count_down(State& state, uint32_t operation, Time now) {
  uint64_t& left = state.left[operation % kInFlight];
  ASSERT_INVARIANT(left > 0);
  if (--left > 0) return;
  state.over[operation % kInFlight] = true;
  while (state.over[state.retired % kInFlight]) state.over[state.retired++ % kInFlight] = false;
  std::vector<Entry> waiting;
  waiting.swap(state.waiting);
  // The program may be in the middle of something.
  const uint32_t communicator = communicator_of_[state.first_rank];
  for (const Entry& entry : waiting) {
    wake_at(now, {Wake::Kind::kEntry, communicator, {entry.operation, entry.member, 0}});
  }
}

/// Where the next message of the link is; behind it from now on.
CommunicatorPackets::Place CommunicatorPackets::next(const Link& link, Place& place) const {
  const std::vector<uint32_t>& operations = states_[link.communicator].what.operations;
  while (place.message == link.uses[operations[place.operation]].messages) {
    ++place.operation;
    place.message = 0;
    ASSERT_INVARIANT(place.operation < operations.size());
  }
  const Place found = place;
  ++place.message;
  return found;
}

void CommunicatorPackets::inner_received(uint32_t connection, Time now) {
  Link& link = connections_[connection];
  const Place place = next(link, link.received);
  const State& state = states_[link.communicator];
  const Use& use = link.uses[shape_of(state, place.operation)];
  program_->arrived({place.operation, state.first_rank + link.to, use.to}, now);
}

void CommunicatorPackets::inner_acknowledged(uint32_t connection, Time now) {
  Link& link = connections_[connection];
  const Place place = next(link, link.acknowledged);
  State& state = states_[link.communicator];
  const Use& use = link.uses[shape_of(state, place.operation)];
  program_->acknowledged({place.operation, state.first_rank + link.from, use.from}, now);
  count_down(state, place.operation, now);
}

/// Messages are sent at once, or at the moment's end.
void CommunicatorPackets::inner_reaches(uint32_t, Time) { ASSERT_INVARIANT(false); }

void CommunicatorPackets::on_filled(const RankEnd& sender, uint64_t k, Time now) {
  const uint32_t link = link_at(sender);
  if (link == kNone) return;
  const State& state = state_of(sender.rank);
  const RankSchedule& schedule =
      *state.what.shapes[shape_of(state, sender.operation)][sender.rank - state.first_rank];
  inner_->post(link, schedule.message(sender.connection, k).wire, now);
}

void CommunicatorPackets::on_grantable(const RankEnd& receiver, uint64_t, Time now) {
  inner_->grant(link_at(receiver), now);
}

void CommunicatorPackets::on_passing(const RankEnd& end, Time at) {
  wake_at(at, {Wake::Kind::kPassing, 0, end});
}

void CommunicatorPackets::on_done(uint32_t operation, uint32_t rank, Time now) {
  State& state = state_of(rank);
  listener_->done(first_ + communicator_of_[rank], operation, rank - state.first_rank, now);
  count_down(state, operation, now);
}

}  // namespace understudy
