// One of NCCL's network connections out of band: net_ib's exchange over TCP before its data phase
// (docs/nccl 2.2 to 2.4; source: transport/net_ib.cc, ncclIbConnect and ncclIbAccept). As the
// receiver it is an accepted connection, as the sender one that we dialled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/peers/connector.h"
#include "ctrl/peers/nccl/transport/net_ib_layout.h"
#include "ctrl/peers/nccl/transport/net_ib_metadata.h"
#include "ctrl/peers/peer.h"

namespace understudy {

/// What a real rank's connections showed, for those that we begin. Shared by the peers of a
/// communicator.
struct NetIbSeen {
  const NetIbLayout* layout = nullptr;
  std::vector<uint8_t> metadata;  ///< of a connection of its; empty: there was none yet
};

struct NetIbSettings {
  NcclVersion version;
  uint64_t magic = kNetIbMagic;  ///< of the listener's handle
  uint32_t queue_pairs = 1;      ///< NCCL_IB_QPS_PER_CONNECTION of the real rank
  /// NCCL_IB_SPLIT_DATA_ON_QPS of the real rank, if it is set there.
  std::optional<bool> split_data;
  /// GIDs of the emulated rank, one for each device that its NIC is made of. As many of them count
  /// as the release can have.
  std::vector<IpAddress> local;
  uint32_t first_device = 0;  ///< number of the first of these in its node; the others follow
  /// The same of the real rank, in any order.
  std::vector<IpAddress> real_addresses;
  /// Those of all NICs of its node.
  std::vector<IpAddress> real_node;
  uint32_t mtu = 4096;  ///< of the emulated rank's port, bytes
  SenderConfig sender;  ///< of what the emulated rank sends
  /// Of what the emulated rank sends on connections that it begins: else the real rank's own, if
  /// that is known, else `sender`'s.
  std::optional<uint8_t> traffic_class;
  /// NCCL's port failover and recovery, as the configuration says that real ranks have them on.
  bool failover = false, recovery = false;
};

class NetIbObserver {
 public:
  virtual ~NetIbObserver() = default;
  /// Its data phase begins: credits may go out.
  virtual void on_connector_ready(Time now, const NcclConnector& connector) = 0;
  virtual void on_connector_failed(Time now, const NcclConnector& connector,
                                   const std::string& why) = 0;
  /// The real rank has closed a connection that was ready: it is torn down in good order.
  virtual void on_connector_closed(Time now, const NcclConnector& connector) = 0;
};

class NetIbPeer final : public Peer {
 public:
  /// `seen` and `observer` outlive this.
  NetIbPeer(const NcclConnector& connector, NetIbSettings settings, NetIbSeen& seen,
            NetIbObserver& observer);

  void on_bytes(Time now, std::span<const uint8_t> bytes) override;
  void on_endpoint(Time now, const EndpointReady& ready) override;
  void on_closed(Time now) override;
  void on_connected(Time now) override;
  void on_refused(Time now, const std::string& reason) override;

  /// Who dialled us is a real rank's net_ib: the listener is needed no longer. Others (a port
  /// scanner, a rank of another communicator) are closed, and the observer hears nothing of them.
  bool claimed() const { return claimed_; }
  bool ready() const { return step_ == Step::kReady; }
  /// What it waits for, as "metadata (120 of 3648 bytes)"; empty once it is ready.
  std::string waiting() const;

 private:
  enum class Step : uint8_t {
    kConnecting,  ///< to the real rank's listener
    kHello,       ///< magic and type
    kDevices,
    kNumbers,  ///< of our queue pairs, from the dataplane
    kMetadata,
    kQueuePairs,  ///< from the dataplane
    kWord,        ///< the real rank's word that it is ready
    kReady
  };

  bool take(size_t bytes);
  void advance(Time now);
  void hello(Time now);
  void devices(Time now);
  void metadata(Time now);
  std::string why_not(const NetIbEnd& end) const;
  std::string why_other_failover(const NetIbEnd& end) const;
  /// Of an end's further queue pairs, both ends having so many devices.
  NcclLinkRequest::Failover failover_with(size_t theirs) const;
  NcclLinkRequest link_to(const NetIbEnd& end) const;
  void ask(Time now, bool reserve);
  /// Of devices, as far as the release has so many.
  uint32_t own_devices() const;
  void send_devices();
  void send_metadata(const EndpointReady& ours);
  size_t wanted() const;
  uint8_t own_traffic_class() const;
  void fail(Time now, std::string why);

  const NcclConnector connector_;
  const NetIbSettings settings_;
  NetIbSeen& seen_;
  NetIbObserver& observer_;
  const NetIbLayout* layout_;
  Step step_;
  bool claimed_ = false;
  std::vector<uint8_t> in_;  ///< not taken yet
  std::vector<uint8_t> piece_;
  std::vector<uint8_t> theirs_;  ///< metadata of the real rank
  EndpointReady ours_;
  EndpointRequest request_;
};

}  // namespace understudy
