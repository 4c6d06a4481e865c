// All emulated ranks of one NCCL communicator, and of those that are split off it, out of band:
// check-in, ring, all-gathers, messages between two ranks, set-up of transports (docs/nccl 1, 2.1).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collective_model/nccl/operation.h"
#include "ctrl/peers/nccl/bootstrap/host.h"
#include "ctrl/peers/nccl/bootstrap/split_rule.h"
#include "ctrl/peers/nccl/bootstrap/unique_id.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"

namespace understudy {

struct NcclCommunicatorSettings {
  NcclVersion version;  ///< of the real ranks' NCCL
  NcclUniqueId id;
  /// The root is ours: its listener, of the emulated rank `root_rank`, stands already. Otherwise a
  /// real rank has it and the emulated ones check in there.
  bool emulated_root = false;
  uint32_t root_rank = 0;
  ListenerId root_listener = 0;
  struct Rank {
    bool real = false;
    uint32_t node = 0;  ///< ranks of one node have the same
  };
  std::vector<Rank> ranks;
  /// Its number as connectors have it; children have the numbers after it.
  uint32_t number = 0;
  /// What the user says of its children, in the order in which they are begun.
  std::vector<RankPartition> groups;
  bool groups_expected = false;  ///< where one does not fit, it is of another child
  uint64_t seed = 1;             ///< of the values that NCCL draws at random
};

class NcclCommunicator {
 public:
  /// `host` outlives this.
  NcclCommunicator(NcclCommunicatorSettings settings, NcclHost& host);
  ~NcclCommunicator();

  void start(Time now);
  void on_accepted(Time now, ListenerId listener, StreamId stream, const SocketAddress& from);
  void on_connected(Time now, StreamId stream);
  void on_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes);
  /// The other side has closed it, or never took it (`why`).
  void on_closed(Time now, StreamId stream, const std::string& why);
  void on_connector_ready(Time now, const NcclConnector& connector);
  void on_connector_failed(Time now, const NcclConnector& connector, const std::string& why);

  /// A message of a real rank on a connection for one-sided operations (NcclHost::relay()).
  void on_relayed(Time now, const NcclConnector& connector, std::span<const uint8_t> bytes);

  /// Of the communicator and its children, empty while all goes well.
  const std::string& failure() const;
  /// A real rank may have come: none has if the root is ours and nobody has checked in there.
  bool begun() const;
  /// The root is ours, and all real ranks have checked in there.
  bool all_checked_in() const;
  /// All real ranks have closed their connections in good order.
  bool finished() const;
  /// Real ranks that have closed a connection of its ring, in order.
  std::vector<uint32_t> left() const;
  /// For `understudy status`: lines on what the emulated ranks wait for; ranks that wait for the
  /// same share one.
  std::vector<std::string> waiting() const;
  /// A communicator that a real rank has begun to make of this one, or of one that was made of it.
  struct Child {
    uint32_t number = 0;           ///< as connectors have it
    std::vector<uint32_t> ranks;   ///< in its order, by their numbers in the first one
    uint64_t magic = 0;            ///< 0: not known yet
    uint32_t search_channels = 0;  ///< as search_channels()
    bool over = false;             ///< its real ranks have left it
  };
  /// In the order in which real and emulated ranks agreed on them. Those with real ranks only, or
  /// emulated ones, are not known here.
  std::vector<Child> children() const;
  /// Channels that NCCL's search found for the first communicator; known when its transports are
  /// set up, 0 before.
  uint32_t search_channels() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace understudy
