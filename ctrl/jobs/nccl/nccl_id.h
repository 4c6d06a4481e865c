// How the emulated ranks of a job learn the unique id of its communicator, or give it to the real
// ranks: by NCCL_COMM_ID, a file, or PyTorch's store (job.join).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/peers/nccl/bootstrap/unique_id_file.h"
#include "ctrl/peers/sockets/nccl_sockets.h"
#include "ctrl/peers/sockets/torch_groups.h"
#include "ctrl/peers/sockets/torch_meeting.h"

namespace understudy {

/// What jobs know of each other that join at one place, where a real rank 0 has a root for each of
/// their communicators.
struct NcclPlace {
  std::set<NcclUniqueId> taken;     ///< those of a file
  std::optional<uint32_t> calling;  ///< the job whose ranks call the root of an address
};

class NcclId {
 public:
  struct Setup {
    const JobConfig* job = nullptr;
    uint32_t number = 0;  ///< of the job in the configuration
    uint64_t seed = 1;
    std::vector<RendezvousSettings::Rank> ranks;
    IpAddress from;                 ///< of an emulated rank: it calls a real one's store
    TorchGroups* groups = nullptr;  ///< outlives it
    std::shared_ptr<NcclPlace> place = std::make_shared<NcclPlace>();
  };
  /// `sockets`: of the communicator, with the root if that is ours.
  NcclId(Setup setup, NcclSockets& sockets, PeerNetwork& network,
         std::function<void(const std::string&)> say);

  /// What has to stand before a real rank comes.
  Result<void> open();
  /// Control's turn.
  void poll(Time now);

  /// Once it is known.
  const std::optional<NcclUniqueId>& id() const { return id_; }
  /// A further communicator has an id: its program wrote one to the file.
  bool has_next() const;
  /// Its ranks may call the root: those of no other job do. From then on until called().
  bool may_call();
  void called();
  /// The present communicator is over: waits for the next one's, which may be the same.
  void look_for_next();
  /// torchrun has begun a further round: the workers of the present communicator are gone.
  bool restarted() const { return meeting_.restarted(); }
  /// No further communicator follows.
  void leave() { meeting_.leave(); }
  /// After leave(): agents of torchrun still end their rendezvous.
  bool lingers() const { return way() == NcclJoinConfig::Way::kRendezvous && !meeting_.finished(); }
  bool emulated_root() const { return !setup_.ranks.front().real; }
  ListenerId root_listener() const { return root_listener_; }
  const std::string& failure() const { return failure_; }
  /// For `understudy status`.
  std::vector<std::string> waiting() const;

  /// A connection of the network has ended; false if it is none of the store's.
  bool on_ended(const EndedConnection& ended) { return meeting_.on_ended(ended); }

 private:
  SocketAddress join_address() const { return {setup_.job->join->address, setup_.job->join->port}; }
  NcclJoinConfig::Way way() const { return setup_.job->join->way; }
  bool has_store() const { return setup_.job->join->has_store(); }
  Result<void> make_root();
  void poll_file(Time now);
  Result<void> open_store();
  TorchAgentsSettings agents() const;
  void learned(Time now, const UniqueIdKey& key, const NcclUniqueId& id);

  const Setup setup_;
  NcclSockets& sockets_;
  TorchMeeting meeting_;
  const std::function<void(const std::string&)> say_;
  std::optional<UniqueIdFile> file_;
  std::optional<NcclUniqueId> id_, next_;
  Time now_, next_since_;
  Time look_;  ///< when the file is looked at for the next one
  ListenerId root_listener_ = 0;
  std::string failure_;
};

}  // namespace understudy
