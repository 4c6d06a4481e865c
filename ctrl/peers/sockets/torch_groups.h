// Communicators of PyTorch beside that of all ranks: process groups of new_group(), which
// job.groups lists, and those of sends and receives between two ranks. Each that has real and
// emulated ranks is joined with an id of its own, from the store or given to it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ctrl/peers/nccl/communicator.h"
#include "ctrl/peers/sockets/nccl_sockets.h"
#include "ctrl/peers/torch_store/rendezvous.h"

namespace understudy {

/// A communicator that the real ranks of a job have made beside its first one.
struct MadeCommunicator {
  uint32_t number = 0;           ///< as connectors have it
  std::vector<uint32_t> ranks;   ///< in its order, by their numbers in the job
  std::vector<uint32_t> called;  ///< the same, as connectors call them
  uint64_t hash = 0;             ///< NCCL's for it; 0: not known
  uint32_t search_channels = 0;  ///< 0: not known yet
};

class TorchGroups {
 public:
  struct Setup {
    NcclVersion nccl;
    uint64_t seed = 1;  ///< of this job
    std::vector<RendezvousSettings::Rank> ranks;
    std::vector<IpAddress> addresses;           ///< of each rank
    std::vector<std::vector<uint32_t>> groups;  ///< in the order of new_group(), named from 1 on
  };
  /// `network` outlives it. Connectors have numbers of communicators that no child of the first one
  /// has, and ranks by their numbers in their own: see job_rank().
  TorchGroups(Setup setup, PeerNetwork& network, NcclSockets::Callbacks callbacks);

  /// Keys of ids that real ranks may publish, and of those that emulated ones would.
  std::vector<UniqueIdKey> awaited() const { return keys(true); }
  std::vector<UniqueIdKey> ours() const { return keys(false); }
  /// Nothing if the first rank is real, or nobody knows who is in it.
  std::optional<NcclUniqueId> provide(Time now, const UniqueIdKey& key);
  void learned(Time now, const UniqueIdKey& key, const NcclUniqueId& id);

  void poll();
  /// All are over; those of the next communicator may have the same names.
  void forget();
  bool on_ended(const EndedConnection& ended);
  bool owns(ConnectionId connection) const;
  /// No real rank is in one of them.
  bool idle() const;
  /// For `understudy status`.
  std::vector<std::string> waiting() const;

  bool has(const NcclConnector& connector) const { return connector.communicator >= kNumbers; }
  /// The number in the job of a rank that the connector names.
  uint32_t job_rank(const NcclConnector& connector, uint32_t rank) const;
  void on_connector(const NcclConnector& connector, const std::string& failure);
  void on_relayed(const NcclConnector& connector, std::span<const uint8_t> bytes) {
    joined(connector).sockets->on_relayed(connector, bytes);
  }
  /// Those of process groups, and what was split off these.
  std::vector<MadeCommunicator> communicators() const;

 private:
  /// Each communicator has so many numbers, for itself and its children.
  static constexpr uint32_t kNumbers = 1u << 16;
  struct Joined {
    std::string name;
    std::vector<uint32_t> members;
    std::unique_ptr<NcclSockets> sockets;
    std::unique_ptr<NcclCommunicator> communicator;
    uint64_t hash = 0;  ///< NCCL's
    bool told = false;  ///< how it ended
    bool over() const { return communicator->finished() || !communicator->failure().empty(); }
  };

  /// Empty: it is not known.
  std::vector<uint32_t> members_of(const UniqueIdKey& key) const;
  bool is_mixed(const std::vector<uint32_t>& members) const;
  std::vector<UniqueIdKey> keys(bool real_first) const;
  void add_pairs(const std::string& group, const std::vector<uint32_t>& members, bool real_first,
                 std::vector<UniqueIdKey>& keys) const;
  void tell_unknown(const UniqueIdKey& key);
  Joined& make(const UniqueIdKey& key, std::vector<uint32_t> members);
  void retire(std::unique_ptr<Joined> one);
  void start(Time now, Joined& joined, const NcclUniqueId& id, std::optional<ListenerId> root);
  Joined& joined(const NcclConnector& connector) const {
    return *joined_[connector.communicator / kNumbers - 1];
  }

  const Setup setup_;
  PeerNetwork& network_;
  const NcclSockets::Callbacks callbacks_;
  std::vector<std::unique_ptr<Joined>> joined_;
  /// Of earlier communicators: sockets that listen do so for ever, and serve the next one of the same
  /// members.
  std::vector<std::unique_ptr<Joined>> retired_;
  uint64_t made_ = 0;  ///< ids: with the same root only their magic tells them apart
  std::map<UniqueIdKey, NcclUniqueId> provided_;
  std::set<UniqueIdKey> known_;  ///< joined, or told of
};

}  // namespace understudy
