// torchrun's agents of emulated nodes in a c10d rendezvous (docs/nccl 6.4). They act as one: once the
// agents of all real nodes are there, all of them join at once and complete the round; then they
// leave their keys, send heartbeats, and begin a further round when a real agent asks for one.
//
// Emulated agents have no clock of their own: theirs is that of the real agents' heartbeats. What
// the state looks like in the release at hand is seen in what a real agent has written.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ctrl/peers/torch_store/rendezvous.h"
#include "ctrl/peers/torch_store/rendezvous_state.h"
#include "ctrl/peers/torch_store/store_access.h"

namespace understudy {

struct TorchAgentsSettings {
  SocketAddress endpoint;  ///< --rdzv-endpoint
  bool serves = false;     ///< it is an emulated node's: the store is ours
  std::string run_id;      ///< --rdzv-id
  std::vector<RendezvousSettings::Rank> ranks;
  /// Of the workers' store, where rank 0's node has it. The port only if that node is emulated.
  SocketAddress master;
  /// Of a real node's store; nothing: to be found out.
  std::optional<StoreGeneration> generation;
};

/// A round of the rendezvous that is complete, for the workers.
struct TorchRound {
  uint64_t number = 0;   ///< 0, 1, ...
  SocketAddress master;  ///< MASTER_ADDR and MASTER_PORT
};

class TorchAgents final : public Rendezvous {
 public:
  using Began = std::function<void(Time, const TorchRound&)>;

  /// `host` outlives it. Where the store is ours, a listener at `endpoint` stands already.
  TorchAgents(TorchAgentsSettings settings, StoreHost& host, Began began);

  void start(Time now) override { access_->start(now); }
  void on_accepted(StreamId stream, const SocketAddress& from) override {
    access_->on_accepted(stream, from);
  }
  void on_connected(Time now, StreamId stream) override;
  void on_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes) override;
  void on_closed(Time now, StreamId stream) override { access_->on_closed(now, stream); }
  void poll(Time now) override;
  void look_for_next() override {}
  const std::string& failure() const override { return failure_; }
  bool finished() const override { return finished_; }
  std::vector<std::string> waiting() const override;

  /// Nobody joins a further round: with the last real agent it is finished.
  void leave() { leaves_ = true; }

 private:
  struct Heartbeat {
    int64_t at = 0;
    int64_t offset = 0;  ///< that of the clock, were it fresh when it was seen first
  };

  void begin_anew();
  void look(Time now);
  void look_for_id(Time now);
  void on_state(Time now, const StoreValue& text);
  void learn_clock(Time now, const RendezvousState& state);
  int64_t clock(Time now) const;
  void on_gathering(Time now, RendezvousState state, const StoreValue& token);
  void on_complete(Time now, RendezvousState state, const StoreValue& token);
  void write(Time now, const RendezvousState& state, const StoreValue& token);
  void begin_round(Time now, const RendezvousState& state);
  void look_for_master(Time now);
  void on_master(Time now, const SocketAddress& master);
  void look_for_former(Time now);
  void look_at_roles(Time now);
  void on_role(size_t node, const StoreValue& text);
  void look_at_order();
  void fail_with(const std::string& why);
  void say_once(const std::string& line);
  bool is_mine(const TorchAgent& agent) const;
  size_t real_nodes() const;  ///< of the job
  std::string name() const { return "torchrun's rendezvous \"" + settings_.run_id + "\""; }
  std::string state_key() const { return "/torch.rendezvous." + settings_.run_id; }
  /// Of the present round.
  std::string prefix() const;

  const TorchAgentsSettings settings_;
  StoreHost& host_;
  const Began began_;
  const std::vector<AgentNode> nodes_;
  std::optional<StoreAccess> access_;
  Time look_at_, beat_at_;
  std::optional<Time> ready_since_;
  bool there_ = false, closed_ = false, leaves_ = false, finished_ = false;
  StoreValue seen_;  ///< the state's text, as it was seen last
  RendezvousForm form_;
  std::map<TorchAgent, Heartbeat> heard_;  ///< of real agents
  int64_t offset_ = 0;                     ///< of 1970 to Time::zero(), in microseconds
  std::vector<TorchAgent> real_, mine_;    ///< of the present round, in the order of their ranks
  std::optional<int64_t> round_;           ///< that we are in
  bool begun_ = false;                     ///< its workers' store is known
  /// A real node rank 0 and the port of the last workers' store there.
  std::optional<std::pair<TorchAgent, uint16_t>> former_;
  std::optional<Time> assigned_at_;  ///< when ranks were seen to be assigned in this round
  std::set<size_t> roles_;           ///< real nodes whose number of workers is not known
  std::set<std::string> said_;
  std::string failure_;
};

/// Agents of the emulated ones of `nodes`, so that the order of all agents is that of the nodes:
/// before and behind the real ones `real`, which are in their order.
std::vector<TorchAgent> emulated_agents(const std::vector<AgentNode>& nodes,
                                        const std::vector<TorchAgent>& real);

}  // namespace understudy
