#include "ctrl/peers/torch_store/real_rank0.h"

#include <algorithm>
#include <utility>

namespace understudy {
namespace {

/// Between two rounds of questions: short while the job starts, and after each answer.
constexpr Duration kShortestPause = Duration::ms(20);
constexpr Duration kLongestPause = Duration::ms(500);
/// Groups beyond the last one that has a communicator which are asked for.
constexpr uint32_t kGroupsAhead = 4;

}  // namespace

RealRank0::RealRank0(RendezvousSettings settings, StoreHost& host, RendezvousCallbacks callbacks)
    : settings_(std::move(settings)),
      host_(host),
      callbacks_(std::move(callbacks)),
      client_(settings_.generation),
      former_(settings_.former) {
  for (const RendezvousSettings::Rank& rank : settings_.ranks) emulated_ += rank.real ? 0 : 1;
  begin();
}

void RealRank0::begin() {
  pause_ = kShortestPause;
  groups_ = kGroupsAhead;
  counts_.assign(kGroupsAhead, 0);
  awaited_ = {settings_.awaited.begin(), settings_.awaited.end()};
}

void RealRank0::start(Time) {
  // torch 1.x and 2.0 begin with 1, later releases with 0.
  barriers_.assign(barrier_keys(0, settings_.attempts).size(), {0, 1});
  dial();
}

/// The store may be another one by then, or still have what was there before.
void RealRank0::look_for_next() {
  begin();
  former_.merge(learned_);
  learned_.clear();
  publishes_ = introduced_;
}

void RealRank0::dial() {
  connected_ = false;
  stream_ = host_.new_stream();
  host_.dial(stream_);
}

void RealRank0::on_connected(Time now, StreamId stream) {
  if (stream != stream_) return;
  connected_ = true;
  client_.on_connected(now);
  poll(now);
}

void RealRank0::on_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes) {
  if (stream != stream_ || finished_) return;
  client_.on_bytes(now, bytes);
  poll(now);
}

void RealRank0::on_closed(Time now, StreamId stream) {
  if (stream != stream_) return;
  client_.on_closed(now);
  if (client_.dial_again()) {
    dial();
  } else if (settings_.again) {
    client_ = TcpStoreClient(settings_.generation);
    introduced_ = publishes_ = false;
    begin();
    start(now);
  } else {
    finished_ = true;
  }
}

/// Says that all emulated ranks are there.
void RealRank0::introduce(Time now) {
  introduced_ = true;
  const auto add = [&](std::string key, int64_t number) {
    client_.request(now, {StoreCommand::kAdd, {std::move(key)}, {}, number},
                    [](Time, const StoreAnswer&) {});
  };
  host_.say("store: connected to " + settings_.master.text() + ", " +
            std::string(store_generation_name(*client_.generation())) + "; " +
            std::to_string(emulated_) + " emulated ranks are there");
  add("init/", emulated_);
  publishes_ = true;
  if (!settings_.agents) return;
  AgentKeys agents = agent_keys(settings_);
  for (AgentKeys::Entry& entry : agents.entries) {
    client_.request(now,
                    {StoreCommand::kSet, {std::move(entry.key)}, {store_value(entry.value)}, 0},
                    [](Time, const StoreAnswer&) {});
  }
  add(agents.exit_counter, agents.emulated_nodes);
}

/// Before anybody waits for it: nobody tells that he does.
void RealRank0::publish(Time now, const UniqueIdKey& id) {
  const auto made = callbacks_.provide ? callbacks_.provide(now, id) : std::nullopt;
  if (!made) return;
  const UniqueIdBytes bytes = unique_id_bytes(*made);
  for (std::string& key : unique_id_keys(id, settings_.attempts)) {
    client_.request(
        now, {StoreCommand::kSet, {std::move(key)}, {StoreValue(bytes.begin(), bytes.end())}, 0},
        [](Time, const StoreAnswer&) {});
  }
}

void RealRank0::poll(Time now) {
  if (!connected_ || finished_ || !failure_.empty()) return;
  client_.poll(now);
  if (client_.dial_again()) {
    host_.close(stream_);
    dial();
    return;
  }
  if (client_.generation() && !introduced_) introduce(now);
  if (std::exchange(publishes_, false)) {
    for (const UniqueIdKey& id : settings_.ours) publish(now, id);
  }
  if (introduced_ && client_.idle() && now >= ask_at_) ask_for_all(now);
  carry();
}

void RealRank0::carry() {
  const auto output = client_.take_output();
  if (!output.empty()) host_.send(stream_, output);
  if (client_.failure().empty()) return;
  failure_ = "store at " + settings_.master.text() + ": " + client_.failure();
  host_.close(stream_);
}

void RealRank0::if_there(Time now, std::string key, std::function<void(Time)> found) {
  client_.request(now, {StoreCommand::kCheck, {std::move(key)}, {}, 0},
                  [this, found = std::move(found)](Time at, const StoreAnswer& answer) {
                    if (answer.number != 0) return;
                    pause_ = kShortestPause;
                    found(at);
                  });
}

void RealRank0::ask_for_all(Time now) {
  ask_at_ = now + pause_;
  // While the job starts nothing may wait for us; later nothing much happens.
  if (counts_[0] > 0) pause_ = std::min(pause_ * 2, kLongestPause);
  // Ids first: the real ranks go on as soon as we have come to their barrier.
  for (uint32_t group = 0; group < groups_; ++group) {
    const UniqueIdKey id{std::to_string(group), std::to_string(counts_[group])};
    for (const std::string& key : unique_id_keys(id, settings_.attempts)) {
      if_there(now, key, [this, id, key](Time at) { on_unique_id(at, id, key); });
    }
  }
  for (const UniqueIdKey& id : awaited_) {
    for (const std::string& key : unique_id_keys(id, settings_.attempts)) {
      if_there(now, key, [this, id, key](Time at) { on_unique_id(at, id, key); });
    }
  }
  for (size_t place = 0; place < barriers_.size(); ++place) {
    for (const uint32_t number : barriers_[place]) {
      const std::string key = barrier_keys(number, settings_.attempts)[place];
      if_there(now, key,
               [this, place, number, key](Time at) { on_barrier(at, place, number, key); });
    }
  }
}

/// Those of an earlier attempt may still be there, and come before ours.
void RealRank0::on_barrier(Time now, size_t place, uint32_t number, const std::string& key) {
  barriers_[place] = {number + 1};
  const auto world = static_cast<int64_t>(settings_.ranks.size());
  client_.request(now, {StoreCommand::kAdd, {key}, {}, emulated_},
                  [this, key, world](Time at, const StoreAnswer& answer) {
                    if (answer.number != world) return;
                    // Since 2.0 the last one tells the others.
                    client_.request(
                        at, {StoreCommand::kSet, {last_worker_key(key)}, {store_value("1")}, 0},
                        [](Time, const StoreAnswer&) {});
                  });
}

void RealRank0::on_unique_id(Time now, const UniqueIdKey& id, const std::string& key) {
  client_.request(now, {StoreCommand::kGet, {key}, {}, 0},
                  [this, id, key](Time at, const StoreAnswer& answer) {
                    const auto parsed = parse_unique_id(answer.values.at(0));
                    if (!parsed) {
                      failure_ = "store at " + settings_.master.text() + ": key \"" + key +
                                 "\": " + parsed.error().text;
                      return;
                    }
                    if (former_.contains(*parsed)) return;
                    learned_.insert(*parsed);
                    if (awaited_.erase(id) != 0) {
                      if (callbacks_.learned) callbacks_.learned(at, id, *parsed);
                      return;
                    }
                    const auto group = static_cast<uint32_t>(std::stoul(id.group));
                    if (group >= counts_.size() || id.member != std::to_string(counts_[group]))
                      return;
                    ++counts_[group];
                    groups_ = std::max(groups_, group + 1 + kGroupsAhead);
                    counts_.resize(groups_);
                    if (callbacks_.learned) callbacks_.learned(at, id, *parsed);
                  });
}

std::vector<std::string> RealRank0::waiting() const {
  const std::string at = "PyTorch's store at " + settings_.master.text();
  if (!connected_) return {"emulated ranks wait for " + at};
  if (!introduced_) return {"emulated ranks find out which protocol is spoken by " + at};
  if (counts_[0] > 0) return {};
  return {"emulated ranks wait for a unique id of NCCL in " + at +
          ", as under the key /default_pg/0//cuda//0"};
}

}  // namespace understudy
