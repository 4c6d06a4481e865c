#include "ctrl/peers/torch_store/agents.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "ctrl/peers/torch_store/base64.h"

namespace understudy {
namespace {

/// What stands for no state (c10d_rendezvous_backend.py).
constexpr std::string_view kNoState = "Y2FuaW1hZGFt";
/// Between two looks at the state: while agents gather nobody may wait for us; later they look once
/// a second themselves.
constexpr Duration kWhileGathering = Duration::ms(100), kLater = Duration::ms(500);
/// Agents send a heartbeat after 5 s, and are taken for dead after 15 s.
constexpr Duration kHeartbeat = Duration::s(3);
constexpr Duration kIdIsLate = Duration::s(8);
/// After the ranks are assigned; releases that publish MASTER_PORT behind them do so at once.
constexpr Duration kPortIsLate = Duration::s(2);

int64_t micros(Time now) { return (now - Time::zero()).ps() / 1'000'000; }

std::string text_of(const StoreValue& value) { return {value.begin(), value.end()}; }

}  // namespace

std::vector<TorchAgent> emulated_agents(const std::vector<AgentNode>& nodes,
                                        const std::vector<TorchAgent>& real) {
  std::vector<TorchAgent> made;
  const auto is_real = [](const AgentNode& node) { return node.real; };
  const auto first = std::find_if(nodes.begin(), nodes.end(), is_real) - nodes.begin();
  size_t seen = 0, last = 0;  // of `real`
  int64_t behind = -first;    // the last one
  for (const AgentNode& node : nodes) {
    if (node.real) {
      last = seen++;
      behind = 0;
    }
    TorchAgent agent = real.at(last);
    agent.local_id += behind++;
    if (!node.real) made.push_back(std::move(agent));
  }
  return made;
}

TorchAgents::TorchAgents(TorchAgentsSettings settings, StoreHost& host, Began began)
    : settings_(std::move(settings)),
      host_(host),
      began_(std::move(began)),
      nodes_(agent_nodes(settings_.ranks)) {
  access_.emplace(settings_.serves, settings_.generation, host_);
}

std::string TorchAgents::prefix() const {
  return state_key() + "." + std::to_string(*round_) + "/";
}

bool TorchAgents::is_mine(const TorchAgent& agent) const {
  return std::binary_search(mine_.begin(), mine_.end(), agent);
}

size_t TorchAgents::real_nodes() const {
  return static_cast<size_t>(
      std::count_if(nodes_.begin(), nodes_.end(), [](const AgentNode& node) { return node.real; }));
}

void TorchAgents::fail_with(const std::string& why) {
  if (failure_.empty()) failure_ = name() + " at " + settings_.endpoint.text() + ": " + why;
}

void TorchAgents::say_once(const std::string& line) {
  if (said_.insert(line).second) host_.say(line);
}

void TorchAgents::on_connected(Time now, StreamId stream) {
  access_->on_connected(now, stream);
  poll(now);
}

void TorchAgents::on_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes) {
  access_->on_bytes(now, stream, bytes);
}

void TorchAgents::poll(Time now) {
  if (finished_ || !failure_.empty()) return;
  access_->poll(now);
  if (!access_->failure().empty()) return fail_with(access_->failure());
  if (access_->lost() && (closed_ || !settings_.serves)) {
    if (leaves_) {
      finished_ = true;
      return;
    }
    begin_anew();
    return access_->start(now);
  }
  if (!access_->ready() || access_->busy() || now < look_at_) return;
  if (!ready_since_) ready_since_ = now;
  look(now);
  access_->poll(now);
}

/// All real agents have gone, others may come: nothing of theirs stays.
void TorchAgents::begin_anew() {
  access_.emplace(settings_.serves, settings_.generation, host_);
  ready_since_.reset();
  seen_.clear();
  heard_.clear();
  real_.clear();
  mine_.clear();
  round_.reset();
  roles_.clear();
  former_.reset();
  there_ = closed_ = begun_ = false;
}

void TorchAgents::look(Time now) {
  look_at_ = now + (begun_ ? kLater : kWhileGathering);
  access_->get(now, state_key(), [this](Time at, const StoreValue& text) { on_state(at, text); });
  if (round_ && !begun_) look_for_master(now);
  if (round_ && !roles_.empty()) look_at_roles(now);
  if (!there_ && now - *ready_since_ >= kIdIsLate) look_for_id(now);
}

void TorchAgents::look_for_id(Time now) {
  access_->ask(now, {StoreCommand::kKeyCount, {}, {}, 0}, [this](Time, const StoreAnswer& answer) {
    if (there_ || answer.number == 0) return;
    say_once("the store at " + settings_.endpoint.text() + " has keys, but no " + name() +
             ": torchrun's --rdzv-id is to be run_id of the job's join");
  });
}

void TorchAgents::on_state(Time now, const StoreValue& text) {
  there_ = true;
  if (text_of(text) == kNoState) return;
  // A large state is read once. What goes by time alone waits for the next heartbeat.
  if (text == seen_ && (!round_ || now < beat_at_)) return;
  seen_ = text;
  const auto pickle = base64_bytes(text);
  if (!pickle) return fail_with("its state is no base64");
  auto state = read_rendezvous_state(*pickle, form_);
  if (!state) return fail_with("its state: " + state.error().text);
  learn_clock(now, *state);
  if (state->closed) {
    closed_ = true;
    return;
  }
  if (heard_.empty() && !round_) return;
  state->drop_silent(clock(now));
  if (state->complete) {
    on_complete(now, std::move(*state), text);
  } else {
    on_gathering(now, std::move(*state), text);
  }
}

int64_t TorchAgents::clock(Time now) const { return offset_ + micros(now); }

/// The clock is that of the real agent whose heartbeats are latest, as seen when they came. Where
/// nobody is heard of any more, the last one goes on.
void TorchAgents::learn_clock(Time now, const RendezvousState& state) {
  std::map<TorchAgent, Heartbeat> heard;
  std::optional<int64_t> offset;
  for (const auto& [agent, at] : state.last_heartbeats) {
    if (is_mine(agent)) continue;
    const auto known = heard_.find(agent);
    Heartbeat& beat = heard[agent];
    beat = known != heard_.end() && known->second.at == at ? known->second
                                                           : Heartbeat{at, at - micros(now)};
    offset = std::max(offset.value_or(beat.offset), beat.offset);
  }
  heard_ = std::move(heard);
  offset_ = offset.value_or(offset_);
}

/// Once all real agents are there, the emulated ones are the last.
void TorchAgents::on_gathering(Time now, RendezvousState state, const StoreValue& token) {
  round_.reset();
  begun_ = false;
  real_.clear();
  for (const auto& [agent, rank] : state.participants) {
    if (!is_mine(agent)) real_.push_back(agent);
  }
  const size_t expected = real_nodes();
  if (real_.size() < expected || leaves_) return;
  if (real_.size() > expected) {
    return fail_with(std::to_string(real_.size()) + " real nodes are in it, the job has " +
                     std::to_string(expected));
  }
  for (const TorchAgent& agent : mine_) state.remove(agent);
  mine_ = emulated_agents(nodes_, real_);
  for (const TorchAgent& agent : mine_) {
    state.participants[agent] = 0;
    state.last_heartbeats[agent] = clock(now);
  }
  state.finish_round();
  write(now, state, token);
}

void TorchAgents::on_complete(Time now, RendezvousState state, const StoreValue& token) {
  const bool in = !mine_.empty() && state.participants.contains(mine_.front());
  if (in && round_ != state.round) return begin_round(now, state);
  if (in && !state.wait_list.empty()) {
    if (leaves_) {
      finished_ = true;
      return;
    }
    // As its other agents do: all leave, and the round is over with the last.
    for (const TorchAgent& agent : mine_) state.remove(agent);
    return write(now, state, token);
  }
  if (in && now >= beat_at_) {
    beat_at_ = now + kHeartbeat;
    for (const TorchAgent& agent : mine_) state.last_heartbeats[agent] = clock(now);
    return write(now, state, token);
  }
  // Of the round that we are in, or have left, nobody asks for us.
  if (in || leaves_ || round_ == state.round) return;
  fail_with("it is complete with " + std::to_string(state.participants.size()) +
            " nodes and without the emulated ones: torchrun is to have --nnodes " +
            std::to_string(nodes_.size()) + " and starts after understudy run has");
}

void TorchAgents::write(Time now, const RendezvousState& state, const StoreValue& token) {
  StoreValue text = store_value(base64_text(write_rendezvous_state(state, form_)));
  access_->ask(now, {StoreCommand::kCompareSet, {state_key()}, {token, std::move(text)}, 0},
               // Ours, or what another agent has written meanwhile.
               [this](Time at, const StoreAnswer& answer) { on_state(at, answer.values.at(0)); });
}

void TorchAgents::begin_round(Time now, const RendezvousState& state) {
  // Nothing binds the state to be what we have written: anybody may have put our names into it.
  real_.clear();
  for (const auto& [agent, rank] : state.participants) {
    if (!is_mine(agent)) real_.push_back(agent);
  }
  if (real_.size() != real_nodes()) {
    return fail_with("it is complete with " + std::to_string(real_.size()) +
                     " real nodes, the job has " + std::to_string(real_nodes()));
  }
  round_ = state.round;
  assigned_at_.reset();
  beat_at_ = now + kHeartbeat;
  std::string places;
  roles_.clear();
  for (size_t i = 0, r = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].real) continue;
    roles_.insert(i);
    places += std::string(places.empty() ? "" : "; ") + "node rank " + std::to_string(i) + " is " +
              real_[r++].text();
  }
  host_.say(name() + ", round " + std::to_string(state.round) + ": " +
            std::to_string(nodes_.size()) + " nodes; " + places);
  look_at_order();
  RendezvousSettings of_keys;
  of_keys.ranks = settings_.ranks;
  of_keys.master = settings_.master;
  const AgentKeys keys = agent_keys(of_keys, prefix());
  for (const AgentKeys::Entry& entry : keys.entries) access_->set(now, entry.key, entry.value);
  access_->add(now, keys.exit_counter, keys.emulated_nodes);
  if (!nodes_.front().real) on_master(now, settings_.master);
}

/// Their order is torchrun's. Where an agent's name is an address (--local-addr), it can be seen
/// whether it is the job's.
void TorchAgents::look_at_order() {
  size_t r = 0;
  for (const AgentNode& node : nodes_) {
    if (!node.real) continue;
    const std::string& host = real_[r++].host;
    const auto address = IpAddress::parse(host);
    if (!address || node.address == IpAddress() || *address == node.address) continue;
    return fail_with("torchrun orders nodes by their names, and takes " + host +
                     " where the job's ranks have " + node.address.text() +
                     ": write ranks in that order");
  }
}

void TorchAgents::look_for_master(Time now) {
  access_->get(now, prefix() + "MASTER_PORT", [this](Time at, const StoreValue& value) {
    const std::string text = text_of(value);
    uint16_t port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc() || end != text.data() + text.size() || port == 0) {
      return fail_with("MASTER_PORT is \"" + text.substr(0, 20) + "\"");
    }
    if (round_ && !begun_) on_master(at, {settings_.master.address, port});
  });
  if (former_ && former_->first == real_.front()) look_for_former(now);
}

/// An agent that serves the workers' store itself publishes its port in its first round only
/// (docs/nccl 6.4). Such an agent assigns ranks after that, so that once they are assigned no port
/// follows.
void TorchAgents::look_for_former(Time now) {
  access_->get(now, prefix() + "torchelastic/assigned_ranks/0", [this](Time at, const StoreValue&) {
    if (!round_ || begun_) return;
    if (!assigned_at_) assigned_at_ = at;
    if (at - *assigned_at_ >= kPortIsLate)
      on_master(at, {settings_.master.address, former_->second});
  });
}

void TorchAgents::on_master(Time now, const SocketAddress& master) {
  begun_ = true;
  if (nodes_.front().real) former_ = {real_.front(), master.port};
  began_(now, {static_cast<uint64_t>(*round_), master});
}

void TorchAgents::look_at_roles(Time now) {
  for (const size_t node : std::set(roles_)) {
    for (const char* form : {"/", ""}) {  // 2.x, 1.x
      access_->get(now, prefix() + "torchelastic/role_info" + form + std::to_string(node),
                   [this, node](Time, const StoreValue& text) { on_role(node, text); });
    }
  }
}

void TorchAgents::on_role(size_t node, const StoreValue& text) {
  if (roles_.erase(node) == 0) return;
  const auto role = nlohmann::json::parse(text, nullptr, false);
  const auto size = role.is_object() ? role.find("local_world_size") : role.end();
  if (!role.is_object() || size == role.end() || !size->is_number_integer()) return;
  const auto ranks = size->get<int64_t>();
  if (ranks == nodes_[node].ranks) return;
  fail_with("node rank " + std::to_string(node) + " has " + std::to_string(ranks) +
            " ranks, the job " + std::to_string(nodes_[node].ranks) +
            " there: torchrun is to have --nproc-per-node " + std::to_string(nodes_[node].ranks));
}

std::vector<std::string> TorchAgents::waiting() const {
  const std::string at = name() + " at " + settings_.endpoint.text();
  if (finished_) return {};
  if (!access_->ready()) return {"emulated agents wait for the store of " + at};
  if (!there_) return {"emulated agents wait for " + at + " to be begun by a real node's torchrun"};
  if (closed_) return {at + " is closed"};
  if (!round_) {
    return {"emulated agents wait in " + at + " for real nodes: " + std::to_string(real_.size()) +
            " are there"};
  }
  if (!begun_) return {"emulated agents wait in " + at + " for MASTER_PORT of node rank 0"};
  return {};
}

}  // namespace understudy
