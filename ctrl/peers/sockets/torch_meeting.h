// Where the ranks of a PyTorch job meet, with all its sockets: at a store whose address is known, or
// at one whose address torchrun's agents agree on in their c10d rendezvous, anew in each round.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ctrl/peers/sockets/store_sockets.h"
#include "ctrl/peers/torch_store/agents.h"

namespace understudy {

class TorchMeeting {
 public:
  /// `from`: of an emulated rank, who calls real nodes' stores.
  TorchMeeting(PeerNetwork& network, const IpAddress& from,
               const std::function<void(const std::string&)>& say)
      : say_(say), agents_(network, from, say), workers_(network, from, say) {}

  /// At settings.master. Once, as the other start().
  Result<void> start(RendezvousSettings settings, RendezvousCallbacks callbacks);
  /// `workers`: all but their store's address.
  Result<void> start(TorchAgentsSettings agents, RendezvousSettings workers,
                     RendezvousCallbacks callbacks);

  /// Control's turn.
  void poll();
  /// A connection of the network has ended; false if it is none of ours.
  bool on_ended(const EndedConnection& ended) {
    return agents_.on_ended(ended) || workers_.on_ended(ended);
  }

  /// The present communicators are over, and others follow.
  void look_for_next();
  /// No others follow: once the real nodes' agents have ended their rendezvous it is finished.
  void leave();
  /// Agents have begun a round since look_for_next(): the workers of earlier ones are gone.
  bool restarted() const { return rounds_ > 1; }

  bool finished() const;
  std::string failure() const;
  std::vector<std::string> waiting() const;

 private:
  void on_round(Time now, const TorchRound& round);
  TorchAgents& agents() { return static_cast<TorchAgents&>(agents_.machine()); }

  const std::function<void(const std::string&)> say_;
  StoreSockets agents_, workers_;
  RendezvousSettings settings_;
  RendezvousCallbacks callbacks_;
  std::set<NcclUniqueId> learned_;  ///< of all rounds
  uint32_t rounds_ = 0;             ///< since the last look_for_next()
};

}  // namespace understudy
