#include "ctrl/peers/torch_store/emulated_rank0.h"

#include <utility>

namespace understudy {

EmulatedRank0::EmulatedRank0(RendezvousSettings settings, StoreHost& host,
                             RendezvousCallbacks callbacks)
    : settings_(std::move(settings)), callbacks_(std::move(callbacks)), server_(host, *this) {
  for (const RendezvousSettings::Rank& rank : settings_.ranks) emulated_ += rank.real ? 0 : 1;
}

void EmulatedRank0::start(Time) {
  server_.add("init/", emulated_);
  if (!settings_.agents) return;
  const AgentKeys agents = agent_keys(settings_);
  for (const AgentKeys::Entry& entry : agents.entries) {
    server_.set(entry.key, store_value(entry.value));
  }
  server_.add(agents.exit_counter, agents.emulated_nodes);
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
  if (*parsed != UniqueIdKey{"0", "0"}) given_.insert(key);
  const UniqueIdBytes bytes = unique_id_bytes(*id);
  server_.set(key, StoreValue(bytes.begin(), bytes.end()));
}

void EmulatedRank0::look_for_next() {
  ids_.clear();
  for (const std::string& key : std::exchange(given_, {})) server_.erase(key);
}

/// The emulated ranks come to a barrier just before the first real one: the last is then a real
/// one, and does what the last has to do.
void EmulatedRank0::on_adding(Time, const std::string& key) {
  if (is_barrier_key(key) && barriers_.insert(key).second) server_.add(key, emulated_);
}

void EmulatedRank0::on_set(Time now, const std::string& key, const StoreValue& value) {
  const auto parsed = parse_unique_id_key(key);
  if (!parsed || value.size() != kUniqueIdBytes) return;
  const auto id = parse_unique_id(value);
  if (!id) {
    failure_ = "store: key \"" + key + "\": " + id.error().text;
    return;
  }
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
