#include "ctrl/peers/torch_store/emulated_rank0.h"

#include <utility>

namespace understudy {
namespace {

/// Of the communicator of all ranks.
const UniqueIdKey kFirst{"0", "0"};

}  // namespace

EmulatedRank0::EmulatedRank0(RendezvousSettings settings, StoreHost& host,
                             RendezvousCallbacks callbacks)
    : settings_(std::move(settings)), callbacks_(std::move(callbacks)), server_(host, *this) {
  for (const RendezvousSettings::Rank& rank : settings_.ranks) emulated_ += rank.real ? 0 : 1;
}

void EmulatedRank0::start(Time) {
  add("init/", emulated_);
  if (!settings_.agents) return;
  const AgentKeys agents = agent_keys(settings_);
  for (const AgentKeys::Entry& entry : agents.entries) set(entry.key, store_value(entry.value));
  add(agents.exit_counter, agents.emulated_nodes);
}

void EmulatedRank0::fail_with(const std::string& why) {
  if (failure_.empty()) failure_ = "store: " + why;
}

void EmulatedRank0::set(const std::string& key, StoreValue value) {
  if (const auto done = server_.set(key, std::move(value)); !done) fail_with(done.error().text);
}

void EmulatedRank0::add(const std::string& key, int64_t number) {
  if (const auto done = server_.add(key, number); !done) fail_with(done.error().text);
}

void EmulatedRank0::on_accepted(StreamId stream, const SocketAddress& from) {
  server_.on_accepted(stream, from);
}

void EmulatedRank0::on_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes) {
  met_ = true;
  server_.on_bytes(now, stream, bytes);
}

void EmulatedRank0::on_closed(Time, StreamId stream) { server_.on_closed(stream); }

void EmulatedRank0::on_wanted(Time now, const std::string& key) {
  const auto parsed = parse_unique_id_key(key);
  if (!parsed || !callbacks_.provide) return;
  const auto id = callbacks_.provide(now, *parsed);
  if (!id) return;
  ids_.insert(*parsed);
  // The root of the communicator of all ranks stays, and so does its id.
  if (*parsed != kFirst) published_.try_emplace(key);
  const UniqueIdBytes bytes = unique_id_bytes(*id);
  set(key, StoreValue(bytes.begin(), bytes.end()));
}

/// A second init_process_group() uses the first one's keys again. A real rank may have begun it
/// before the last one has left the first: what is of the next one already stays.
void EmulatedRank0::look_for_next() {
  ids_.clear();
  for (const auto& [key, next] : std::exchange(published_, {})) {
    if (!next) {
      server_.erase(key);
      continue;
    }
    published_.try_emplace(key);
    tell_.push_back(key);
  }
  // Who adds to a barrier to which all have come begins it anew.
  for (auto it = barriers_.begin(); it != barriers_.end();) {
    if (std::exchange(it->second, false) || all_came(it->first)) {
      ++it;
      continue;
    }
    server_.erase(it->first);
    it = barriers_.erase(it);
  }
}

bool EmulatedRank0::all_came(const std::string& barrier) const {
  const StoreValue* sum = server_.find(barrier);
  return sum != nullptr && *sum == store_value(std::to_string(settings_.ranks.size()));
}

/// Not from within look_for_next(): whoever calls it is not ready for the next one yet.
void EmulatedRank0::poll(Time now) {
  for (const std::string& key : std::exchange(tell_, {})) {
    if (const StoreValue* value = server_.find(key)) learn(now, key, *value);
  }
}

/// The emulated ranks come to a barrier just before the first real one: the last is then a real
/// one, and does what the last has to do.
void EmulatedRank0::on_adding(Time, const std::string& key, int64_t number) {
  if (!is_barrier_key(key)) return;
  const auto [found, first] = barriers_.try_emplace(key);
  if (!first) {
    // Who comes when all have come, and does not only look, is at the next program's.
    if (number == 0 || !all_came(key)) return;
    found->second = true;
    server_.erase(key);
    server_.erase(last_worker_key(key));
  }
  add(key, emulated_);
}

void EmulatedRank0::on_set(Time now, const std::string& key, const StoreValue& value) {
  const auto parsed = parse_unique_id_key(key);
  if (!parsed || value.size() != kUniqueIdBytes) return;
  const auto [found, first] = published_.try_emplace(key);
  // Of another attempt of torchrun's workers it has another prefix.
  found->second = !first || ids_.contains(*parsed);
  learn(now, key, value);
}

void EmulatedRank0::learn(Time now, const std::string& key, const StoreValue& value) {
  const auto parsed = parse_unique_id_key(key);
  const auto id = parse_unique_id(value);
  if (!id) return fail_with("key " + quoted_store_key(key) + ": " + id.error().text);
  if (ids_.insert(*parsed).second && callbacks_.learned) callbacks_.learned(now, *parsed, *id);
}

std::vector<std::string> EmulatedRank0::waiting() const {
  const std::string at = "PyTorch's store at " + settings_.master.text();
  if (!met_) return {at + ", served by emulated rank 0, waits for the first real rank"};
  return {at + ", served by emulated rank 0: " + std::to_string(server_.clients()) +
          " connections of real ranks, " + std::to_string(server_.waiting_clients()) +
          " wait for a key"};
}

}  // namespace understudy
