// Connections for one-sided operations, in one shard (docs/nccl 3.16): queue pairs of their rings and
// meshes, and the memory that emulated ranks register.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/host.h"
#include "ctrl/peers/peer.h"
#include "ctrl/report/run_report.h"
#include "ctrl/shards/nccl_queue_pair.h"
#include "ctrl/shards/shard_control.h"
#include "ctrl/topology/topology.h"
#include "dataplane/nccl/one_sided_rank.h"
#include "dataplane/nccl/relayed_connection.h"

namespace understudy {

class OneSidedLinks {
 public:
  struct Settings {
    NcclVersion version;
    CtsLayout layout;
    const Topology* topology = nullptr;  ///< null without switches
    bool exact = false;                  ///< windows' contents are kept
  };
  OneSidedLinks(const Config& config, ShardControl& control, const Settings& settings)
      : config_(config), control_(control), settings_(settings) {}
  ~OneSidedLinks();
  OneSidedLinks(const OneSidedLinks&) = delete;

  /// Makes, or sets aside, what a connection of `emulated` to `real` wants.
  Result<EndpointReady> create(const NodeConfig& emulated, const NodeConfig& real,
                               const EndpointRequest& request);
  /// Its sender has said that it is ready.
  void join(const NcclConnector& connector);
  void remove(const NcclConnector& connector);

  void relay(const NcclConnector& connector, std::span<const uint8_t> bytes);
  /// Messages of real ranks that came: take(connector, bytes).
  void take(const std::function<void(const NcclConnector&, std::span<const uint8_t>)>& take);

  Result<NcclHost::MemoryKey> expose(NodeId node, NcclHost::OneSidedMemory memory);
  void exposed(const NcclHost::OneSidedMemory& memory, const NcclHost::MemoryKey& real);

  /// What went over them.
  void add_to(OneSidedReport& report) const;
  /// For `understudy status`: what went over them.
  std::string text() const;

 private:
  /// An emulated rank's end of a mesh: its two queue pairs, or one yet.
  struct Mesh {
    explicit Mesh(std::shared_ptr<OneSidedTraffic> of) : traffic(std::move(of)), rank(*traffic) {}
    const std::shared_ptr<OneSidedTraffic> traffic;
    OneSidedRank rank;
  };
  /// What lives as long as the shard has the queue pair.
  struct Link {
    EndpointReady end;
    ExposedRegion region;
    std::unique_ptr<uint8_t[]> staging;
    std::shared_ptr<RelayedConnection> relayed;  ///< of a ring
    std::shared_ptr<Mesh> mesh;                  ///< else
    bool made = false;
  };
  using Rank = std::pair<uint32_t, uint32_t>;  ///< communicator, its number in the first one
  struct Registered {
    NcclHost::OneSidedMemory memory;
    ExposedRegion region;
    NcclHost::MemoryKey real;
    bool known = false;   ///< the real rank's is
    bool shares = false;  ///< the region, with an earlier one
  };
  using Links = std::map<NcclConnector, std::shared_ptr<Link>>;
  struct LinksOfRank {
    Links::const_iterator first, last;
    auto begin() const { return first; }
    auto end() const { return last; }
  };
  /// They stand together.
  LinksOfRank links_of(const Rank& rank) const;
  Result<std::shared_ptr<Link>> reserve(NodeId node, const EndpointRequest& request);
  void connect(const std::shared_ptr<Link>& link, const NodeConfig& emulated,
               const NodeConfig& real, const EndpointRequest& request);
  void prepare(Link& link, const EndpointRequest& request, Qp& qp);
  std::shared_ptr<Mesh> mesh_of(const NcclConnector& connector);
  void tell(Mesh& mesh, const Registered& registered);
  static bool reaches(const NcclConnector& connector, const Registered& registered) {
    return (connector.channel & 0xff) == registered.memory.ring;
  }
  void fill(const Registered& registered) const;
  const PortConfig& port_to(const NcclNic& real) const;

  const Config& config_;
  ShardControl& control_;
  const Settings settings_;
  std::shared_ptr<OneSidedTraffic> traffic_ = std::make_shared<OneSidedTraffic>();
  Links links_;
  std::map<std::pair<Rank, uint32_t>, std::weak_ptr<Mesh>> meshes_;  ///< by rank and channel
  std::map<Rank, std::vector<Registered>> registered_;
  uint64_t windows_ = 0;
  uint64_t kept_bytes_ = 0;  ///< of windows with contents
};

}  // namespace understudy
