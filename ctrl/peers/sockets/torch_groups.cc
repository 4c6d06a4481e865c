#include "ctrl/peers/sockets/torch_groups.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "ctrl/peers/nccl/bootstrap/communicator_hash.h"

namespace understudy {
namespace {

/// More pairs of ranks than these are asked for on neighbouring nodes only.
constexpr size_t kMostPairs = 64;

std::optional<uint32_t> number_of(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

TorchGroups::TorchGroups(Setup setup, PeerNetwork& network, NcclSockets::Callbacks callbacks)
    : setup_(std::move(setup)), network_(network), callbacks_(std::move(callbacks)) {}

std::vector<uint32_t> TorchGroups::members_of(const UniqueIdKey& key) const {
  std::vector<uint32_t> group;
  const auto name = number_of(key.group);
  if (name == 0u) {
    for (uint32_t rank = 0; rank < setup_.ranks.size(); ++rank) group.push_back(rank);
  } else if (name && *name <= setup_.groups.size()) {
    group = setup_.groups[*name - 1];
    std::sort(group.begin(), group.end());  // as new_group() does
  }
  const size_t colon = key.member.find(':');
  if (colon == std::string::npos) {
    // The first group's own communicator is not ours; further ones of a group nobody makes as a
    // rule.
    return name != 0u && key.member == "0" ? group : std::vector<uint32_t>();
  }
  const auto low = number_of(std::string_view(key.member).substr(0, colon));
  const auto high = number_of(std::string_view(key.member).substr(colon + 1));
  if (!low || !high || *low >= *high || *high >= group.size()) return {};
  return {group[*low], group[*high]};
}

bool TorchGroups::is_mixed(const std::vector<uint32_t>& members) const {
  const auto real = [&](uint32_t rank) { return setup_.ranks[rank].real; };
  return std::any_of(members.begin(), members.end(), real) &&
         !std::all_of(members.begin(), members.end(), real);
}

std::vector<UniqueIdKey> TorchGroups::keys(bool real_first) const {
  std::vector<UniqueIdKey> all;
  for (uint32_t group = 0; group <= setup_.groups.size(); ++group) {
    const std::string name = std::to_string(group);
    std::vector<uint32_t> members;
    if (group == 0) {
      for (uint32_t rank = 0; rank < setup_.ranks.size(); ++rank) members.push_back(rank);
    } else {
      members = members_of({name, "0"});
      if (is_mixed(members) && setup_.ranks[members.front()].real == real_first) {
        all.push_back({name, "0"});
      }
    }
    add_pairs(name, members, real_first, all);
  }
  return all;
}

void TorchGroups::add_pairs(const std::string& group, const std::vector<uint32_t>& members,
                            bool real_first, std::vector<UniqueIdKey>& keys) const {
  const auto size = static_cast<uint32_t>(members.size());
  const auto node = [&](uint32_t i) { return setup_.ranks[members[i]].node; };
  const auto real = [&](uint32_t i) { return setup_.ranks[members[i]].real; };
  std::vector<UniqueIdKey> all, near;
  uint32_t per_node = 1;
  while (per_node < size && node(per_node) == node(0)) ++per_node;
  for (uint32_t low = 0; low < size; ++low) {
    // Stages of a pipeline: the same place on the next node, and from the last one to the first.
    for (const uint32_t high : std::set{low + per_node, low + size - per_node}) {
      if (high < size && high > low && real(low) == real_first && real(high) != real_first) {
        near.push_back({group, std::to_string(low) + ":" + std::to_string(high)});
      }
    }
    for (uint32_t high = low + 1; high < size && all.size() <= kMostPairs; ++high) {
      if (real(low) != real_first || real(high) == real_first) continue;
      all.push_back({group, std::to_string(low) + ":" + std::to_string(high)});
    }
  }
  const auto& taken = all.size() <= kMostPairs ? all : near;
  keys.insert(keys.end(), taken.begin(), taken.end());
}

void TorchGroups::tell_unknown(const UniqueIdKey& key) {
  if (!known_.insert(key).second) return;
  callbacks_.say("PyTorch makes communicator " + key.member + " of its process group \"" +
                 key.group +
                 "\", and nothing tells its ranks: say with groups in the [job] which ranks each "
                 "new_group() has, in their order");
}

TorchGroups::Joined& TorchGroups::make(const UniqueIdKey& key, std::vector<uint32_t> members) {
  const auto former = std::find_if(retired_.begin(), retired_.end(),
                                   [&](const auto& one) { return one->members == members; });
  std::unique_ptr<Joined> one;
  if (former != retired_.end()) {
    one = std::move(*former);
    retired_.erase(former);
  } else {
    one = std::make_unique<Joined>();
    std::vector<IpAddress> addresses;
    addresses.reserve(members.size());
    for (const uint32_t rank : members) addresses.push_back(setup_.addresses[rank]);
    one->members = std::move(members);
    NcclSockets::Callbacks callbacks = callbacks_;
    callbacks.say = [say = callbacks_.say, of = one.get()](const std::string& line) {
      say(of->name + ": " + line);
    };
    one->sockets = std::make_unique<NcclSockets>(network_, std::move(addresses), callbacks);
  }
  one->name = "process group " + key.group +
              (key.member.find(':') == std::string::npos ? "" : ", ranks " + key.member);
  joined_.push_back(std::move(one));
  return *joined_.back();
}

/// The network goes on calling its listeners.
void TorchGroups::retire(std::unique_ptr<Joined> one) {
  one->sockets->forget();
  one->communicator.reset();
  one->hash = 0;
  one->told = false;
  retired_.push_back(std::move(one));
}

void TorchGroups::start(Time now, Joined& one, const NcclUniqueId& id,
                        std::optional<ListenerId> root) {
  NcclCommunicatorSettings settings;
  settings.version = setup_.nccl;
  settings.id = id;
  settings.emulated_root = root.has_value();
  settings.root_listener = root.value_or(0);
  settings.number = static_cast<uint32_t>(joined_.size()) * kNumbers;
  settings.seed = setup_.seed;
  for (const uint32_t rank : one.members) {
    settings.ranks.push_back({setup_.ranks[rank].real, setup_.ranks[rank].node});
  }
  one.hash = communicator_hash(id, setup_.nccl);
  one.communicator = std::make_unique<NcclCommunicator>(std::move(settings), *one.sockets);
  one.sockets->attach(*one.communicator);
  one.communicator->start(now);
}

std::optional<NcclUniqueId> TorchGroups::provide(Time now, const UniqueIdKey& key) {
  if (const auto made = provided_.find(key); made != provided_.end()) return made->second;
  const std::vector<uint32_t> members = members_of(key);
  if (members.empty()) tell_unknown(key);
  if (!is_mixed(members) || setup_.ranks[members.front()].real) return std::nullopt;
  known_.insert(key);
  Joined& one = make(key, members);
  const ListenerId root = one.sockets->new_listener();
  const auto at = one.sockets->listen(0, root);
  if (!at) {
    callbacks_.say(one.name + ": no root: " + at.error().text);
    retire(std::move(joined_.back()));
    joined_.pop_back();
    return std::nullopt;
  }
  const NcclUniqueId id = make_unique_id(setup_.seed, ++made_, *at);
  provided_[key] = id;
  start(now, one, id, root);
  return id;
}

void TorchGroups::learned(Time now, const UniqueIdKey& key, const NcclUniqueId& id) {
  const std::vector<uint32_t> members = members_of(key);
  if (members.empty()) return tell_unknown(key);
  if (!is_mixed(members) || !known_.insert(key).second) return;
  Joined& one = make(key, members);
  callbacks_.say(one.name + ": communicator of " + std::to_string(members.size()) +
                 " ranks, root at " + id.root.text());
  start(now, one, id, std::nullopt);
}

void TorchGroups::poll() {
  for (const auto& one : joined_) {
    one->sockets->poll();
    if (!one->over() || one->told) continue;
    one->told = true;
    const std::string& failure = one->communicator->failure();
    callbacks_.say(one->name + ": " + (failure.empty() ? "the real ranks have left" : failure));
  }
}

void TorchGroups::forget() {
  for (auto& one : std::exchange(joined_, {})) retire(std::move(one));
  provided_.clear();
  known_.clear();
}

bool TorchGroups::on_ended(const EndedConnection& ended) {
  return std::any_of(joined_.begin(), joined_.end(),
                     [&](const auto& one) { return one->sockets->on_ended(ended); });
}

bool TorchGroups::owns(ConnectionId connection) const {
  return std::any_of(joined_.begin(), joined_.end(),
                     [&](const auto& one) { return one->sockets->owns(connection); });
}

bool TorchGroups::idle() const {
  return std::all_of(joined_.begin(), joined_.end(),
                     [](const auto& one) { return one->over() || !one->communicator->begun(); });
}

std::vector<std::string> TorchGroups::waiting() const {
  std::vector<std::string> lines;
  for (const auto& one : joined_) {
    if (!one->communicator->begun()) continue;
    for (const std::string& line : one->communicator->waiting()) {
      lines.push_back(one->name + ": " + line);
    }
  }
  return lines;
}

uint32_t TorchGroups::job_rank(const NcclConnector& connector, uint32_t rank) const {
  return has(connector) ? joined(connector).members[rank] : rank;
}

void TorchGroups::on_connector(const NcclConnector& connector, const std::string& failure) {
  joined(connector).sockets->on_connector(connector, failure);
}

std::vector<MadeCommunicator> TorchGroups::communicators() const {
  std::vector<MadeCommunicator> all;
  for (uint32_t i = 0; i < joined_.size(); ++i) {
    const Joined& one = *joined_[i];
    if (!one.communicator->begun()) continue;
    MadeCommunicator& made = all.emplace_back();
    made.number = (i + 1) * kNumbers;
    made.ranks = one.members;
    for (uint32_t rank = 0; rank < one.members.size(); ++rank) made.called.push_back(rank);
    made.hash = one.hash;
    made.search_channels = one.communicator->search_channels();
    for (const NcclCommunicator::Child& child : one.communicator->children()) {
      MadeCommunicator& split = all.emplace_back();
      split.number = child.number;
      for (const uint32_t rank : child.ranks) split.ranks.push_back(one.members[rank]);
      split.called = child.ranks;
      split.hash = child.magic;
      split.search_channels = child.search_channels;
    }
  }
  return all;
}

}  // namespace understudy
