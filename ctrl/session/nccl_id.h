// How the emulated ranks of a job learn the unique id of its communicator, or give it to the real
// ranks: by NCCL_COMM_ID, a file, or PyTorch's store (job.join).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/peers/nccl/unique_id_file.h"
#include "ctrl/peers/tcp_store/rendezvous.h"
#include "ctrl/session/nccl_sockets.h"

namespace understudy {

class NcclId final : public StreamUser {
 public:
  struct Setup {
    const JobConfig* job = nullptr;
    uint32_t number = 0;  ///< of the job in the configuration
    uint64_t seed = 1;
    std::vector<RendezvousSettings::Rank> ranks;
    std::vector<IpAddress> addresses;  ///< of each rank
  };
  /// `root`: where the communicator's sockets are, with the root if that is ours. `sockets`: of the
  /// store's own connections.
  NcclId(Setup setup, NcclSockets& root, SocketAdapter& adapter, NcclSockets::Callbacks callbacks);
  ~NcclId() override;

  /// What has to stand before a real rank comes.
  Result<void> open();
  /// Control's turn.
  void poll(Time now);

  /// Once it is known.
  const std::optional<NcclUniqueId>& id() const { return id_; }
  bool emulated_root() const { return !setup_.ranks.front().real; }
  ListenerId root_listener() const { return root_listener_; }
  const std::string& failure() const { return failure_; }
  /// For `understudy status`.
  std::vector<std::string> waiting() const;

  bool owns(ConnectionId connection) const { return sockets_.owns(connection); }
  bool on_ended(const EndedConnection& ended) { return sockets_.on_ended(ended); }

  void on_accepted(Time now, ListenerId listener, StreamId stream,
                   const SocketAddress& from) override;
  void on_connected(Time now, StreamId stream) override;
  void on_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes) override;
  void on_closed(Time now, StreamId stream, const std::string& why) override;
  void on_connector(Time, const NcclConnector&, const std::string&) override {}

 private:
  class Store;

  uint32_t first_emulated() const;
  SocketAddress join_address() const { return {setup_.job->join->address, setup_.job->join->port}; }
  Result<void> make_root();
  Result<void> open_store();
  void learned(const UniqueIdKey& key, const NcclUniqueId& id);

  const Setup setup_;
  NcclSockets& root_;
  NcclSockets sockets_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Rendezvous> rendezvous_;
  bool started_ = false;
  std::optional<UniqueIdFile> file_;
  std::optional<NcclUniqueId> id_;
  ListenerId root_listener_ = 0;
  std::string failure_;
};

}  // namespace understudy
