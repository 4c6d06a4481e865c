// How the emulated ranks of a PyTorch job meet the real ones: they count themselves in at the
// store, take part in its barriers and in torchrun's exchanges, and learn NCCL's unique ids, or
// give them to the real ranks. Rank 0 serves the store: it may be real or emulated.
//
// In torchrun's static rendezvous (--nnodes with --node_rank, --master_addr and --master_port)
// emulated agents need no more than to leave their keys. In its c10d rendezvous they take part:
// agents.h; the ranks meet afterwards, in a store whose place the agents agree on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ctrl/config/torch_release.h"
#include "ctrl/peers/nccl/bootstrap/unique_id.h"
#include "ctrl/peers/torch_store/host.h"
#include "ctrl/peers/torch_store/keys.h"
#include "dataplane/base/units.h"

namespace understudy {

struct RendezvousSettings {
  struct Rank {
    bool real = false;
    uint32_t node = 0;  ///< ranks of one node have the same; torchrun's nodes are in ranks' order
    IpAddress address = {};  ///< of its node, if it is known
  };
  std::vector<Rank> ranks;
  SocketAddress master;  ///< MASTER_ADDR and MASTER_PORT
  /// Of the real rank 0's store; nothing: to be found out. Emulated ones take all.
  std::optional<StoreGeneration> generation;
  /// Of the real rank 0's store: ids beside the first communicator's that real ranks may publish,
  /// and those that emulated ones publish, by RendezvousCallbacks::provide.
  std::vector<UniqueIdKey> awaited, ours;
  /// Agents of torchrun's static rendezvous use the same store.
  bool agents = true;
  /// Restarts of torchrun's workers that may have been, at most.
  uint32_t attempts = 0;
  /// Of earlier communicators, which a store may still have.
  std::set<NcclUniqueId> former;
  /// Of a real rank 0's store: it may come again once it has gone.
  bool again = false;
};

struct RendezvousCallbacks {
  /// A rank has published an id: emulated ranks may join that communicator.
  std::function<void(Time, const UniqueIdKey&, const NcclUniqueId&)> learned;
  /// A real rank waits for an id that its group's first rank makes. Nothing: that rank is real, and
  /// publishes it itself. Where rank 0 is real nobody can tell who waits: it is called for `ours`.
  std::function<std::optional<NcclUniqueId>(Time, const UniqueIdKey&)> provide;
};

class Rendezvous {
 public:
  /// `host` outlives it. Where rank 0 is emulated, a listener at `master` stands already, and its
  /// connections come by on_accepted().
  static std::unique_ptr<Rendezvous> make(RendezvousSettings settings, StoreHost& host,
                                          RendezvousCallbacks callbacks);
  virtual ~Rendezvous() = default;

  virtual void start(Time now) = 0;
  virtual void on_accepted(StreamId stream, const SocketAddress& from) = 0;
  virtual void on_connected(Time now, StreamId stream) = 0;
  virtual void on_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes) = 0;
  virtual void on_closed(Time now, StreamId stream) = 0;
  /// For what goes by time; some hundred times a second.
  virtual void poll(Time now) = 0;
  /// The present communicators are over, and others follow.
  virtual void look_for_next() = 0;

  /// Empty while all goes well.
  virtual const std::string& failure() const = 0;
  /// The job has ended: rank 0 has closed its store, or all clients of ours have gone.
  virtual bool finished() const = 0;
  /// For `understudy status`.
  virtual std::vector<std::string> waiting() const = 0;
};

/// A node of torchrun's, which has one agent.
struct AgentNode {
  bool real = false;
  uint32_t first_rank = 0, ranks = 0;
  IpAddress address = {};
};
/// In the order of their first ranks, which is that of torchrun's node ranks.
std::vector<AgentNode> agent_nodes(const std::vector<RendezvousSettings::Rank>& ranks);

/// What torchrun's agents of emulated nodes leave in the store, in the forms of all releases.
struct AgentKeys {
  struct Entry {
    std::string key;
    std::string value;
  };
  std::vector<Entry> entries;
  std::string exit_counter;  ///< of 2.x's barrier at the end, to which each agent adds 1
  uint32_t emulated_nodes = 0;
};
/// `prefix`: of the static rendezvous that of --rdzv_id, whose default is "none".
AgentKeys agent_keys(const RendezvousSettings& settings, const std::string& prefix = "/none/");

}  // namespace understudy
