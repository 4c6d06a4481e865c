// The ends of a job's connections between real and emulated ranks: what each side knows of the
// other, and what its queue pairs, memory and congestion control are made from.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/compile/collective.h"
#include "ctrl/config/config.h"
#include "ctrl/peers/peer.h"
#include "ctrl/shards/nccl_failover.h"
#include "ctrl/shards/nccl_queue_pair.h"
#include "dataplane/collective/collective_job.h"
#include "dataplane/engine/state/qp_control.h"
#include "dataplane/nccl/nccl_connection.h"
#include "dataplane/rc/types.h"

namespace understudy {

/// One end of one NCCL connection: its queue pairs and the memory that the other end writes to.
struct LinkNearEnd {
  std::vector<Qpn> qpns;
  uint64_t va = 0;  ///< sender: the credit FIFO; receiver: the data buffer
  Rkey rkey = 0;
  FailoverEnd failover = {};
};

/// The NICs that make up both ends of a connection, NCCL's devices, if they are not the link's.
struct LinkDevices {
  std::vector<uint32_t> near = {}, far = {};  ///< their numbers in the nodes
  std::vector<uint8_t> far_of = {};           ///< the far one of each queue pair, in `far`

  uint32_t near_count() const { return std::max(1u, static_cast<uint32_t>(near.size())); }
  /// Of the end with more of them.
  uint32_t most() const { return static_cast<uint32_t>(std::max(near.size(), far.size())); }
  uint32_t near_nic(size_t qp, uint32_t otherwise) const {
    return near.empty() ? otherwise : near[qp % near.size()];
  }
  uint32_t far_nic(size_t qp, uint32_t otherwise) const {
    return far.empty() ? otherwise : far[far_of[qp]];
  }
  LinkDevices seen_from_far(size_t queue_pairs) const;
};

/// As a link's real end has them. `queue_pairs`: 0: one for each device of the end with more of them.
LinkDevices link_devices(const Config& config, const JobConfig& job, const CollectiveSetup& setup,
                         const CollectiveConnection& link, size_t queue_pairs = 0);

/// What the far end of a connection is, as its owner told us or as we made it.
struct LinkFarEnd {
  std::vector<Qpn> qpns;  ///< as many as ours
  bool split = false;     ///< data of a message go over all of them
  uint32_t parts = 1;     ///< else over so many, which take turns
  LinkDevices devices;
  Psn psn;      ///< it will send from here on
  Psn expects;  ///< it expects this from us
  /// Far sender: where our credits go; else for sizes of several receives, or its records.
  uint64_t fifo_va = 0;
  DeviceRkeys fifo_rkey;        ///< of its devices
  std::optional<uint32_t> tag;  ///< of our credits: else the far rank
  bool checked = false;  ///< far receiver: its credits lie where NCCL's do; what differs is counted
  uint32_t mtu = 4096;
  uint8_t traffic_class = 0;
  FailoverEnd failover = {};  ///< its queue pairs
};

/// The far end at `there`, as its owner told net_ib's peer of ours at `here` (Behaviour::kNccl).
LinkFarEnd told_far_end(const NodeConfig& here, const NodeConfig& there,
                        const EndpointRequest& request);

/// What net_ib's peer is told of our end: of a receiver with port failover its records.
EndpointReady told_near_end(const LinkNearEnd& ours, bool receives);

/// What port failover's queue pairs of an end are made from: of the real rank's, or of the other.
FailoverLink failover_link(const Config& config, const JobConfig& job, const CollectiveSetup& setup,
                           const CollectiveConnection& link, const LinkFarEnd& far, bool of_real,
                           const FailoverSettings& settings);

/// The link between a real rank and one that is played here, if the operations use it. `channel`:
/// of send/recv (index 1) its place among all that NCCL connects for the two.
std::optional<uint32_t> find_link(const CollectiveSetup& setup, const NcclConnector& connector);

/// What the ends of a link need for its messages, as far as that is less than NCCL has. There may
/// be thousands of links with one message each.
struct LinkRoom {
  uint32_t send_queue = QpConfig().send_queue;
  CtsLayout layout;
  uint32_t credits = layout.slots;  ///< of the FIFO, one more than are granted

  uint64_t fifo_bytes() const { return uint64_t{credits} * layout.stride(); }
  uint8_t* new_staging() const { return new uint8_t[size_t{credits} * layout.entry_bytes]; }
};

/// `told`: to all that talk over it what the job's operations are.
LinkRoom room_of(const CollectiveJob& job, uint32_t link, const CtsLayout& layout, bool told);

/// The memory that a link's receiver needs, in bytes.
uint64_t buffer_bytes(const CollectiveConnection& link, uint32_t slots);

/// The node of a rank.
const NodeConfig& node_of(const Config& config, const JobConfig& job, const CollectiveSetup& setup,
                          uint32_t rank);

/// The place among the configuration's ports of the NIC by which a real rank talks.
size_t port_of_rank(const Config& config, const JobConfig& job, const CollectiveSetup& setup,
                    uint32_t rank);

NcclBuffers buffers_of(const CollectiveSetup& setup);

/// A queue pair of the end at `from`; `far` is the other one. `credits`: what it sends are credits.
QpConfig link_queue_pair(const Config& config, NcclVersion version, const NcclNic& from,
                         const NcclNic& to, Qpn qpn, Qpn remote, const LinkFarEnd& far,
                         bool credits);

/// Congestion control of the job's data on a link, whichever end sends them; null without. Credits
/// are not held back. `mtu`: of the path, in bytes.
std::unique_ptr<QpControl> data_control(const Config& config, const JobConfig& job,
                                        const CollectiveSetup& setup,
                                        const CollectiveConnection& link, uint32_t real_nic,
                                        uint32_t far_nic, uint32_t mtu);

/// A queue pair under congestion control, as series name it.
struct ControlledPair {
  std::string name;
  const QpControl* control = nullptr;  ///< the shard's, while it runs
  Qpn qpn = 0;
};

/// Of queue pair number `q` of a link, as "ring w2 -> gpu 0"; the last is the channel.
std::string queue_pair_name(const Config& config, const JobConfig& job,
                            const CollectiveSetup& setup, const CollectiveConnection& link,
                            size_t q);

/// Names of all that a job under congestion control will have, of each link the first.
std::vector<std::string> controlled_names(const Config& config, const JobConfig& job,
                                          const CollectiveSetup& setup);

}  // namespace understudy
