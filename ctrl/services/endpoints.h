// Queue pairs of services and of clients of ours: what a peer machine asks for, made in the right
// shard, and taken away when its connection ends.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/peers/peer.h"
#include "ctrl/shards/shard_control.h"
#include "ctrl/topology/topology.h"
#include "dataplane/node/message_pipe.h"
#include "dataplane/node/rping_client.h"
#include "dataplane/node/rping_server.h"
#include "dataplane/node/send_burst.h"
#include "dataplane/node/services.h"
#include "dataplane/node/traffic_source.h"

namespace understudy {

class ServiceEndpoints {
 public:
  /// `controls[i]` belongs to port i of the configuration. `topology`: null without switches.
  ServiceEndpoints(const Config& config, std::vector<ShardControl*> controls,
                   const Topology* topology = nullptr)
      : config_(config),
        controls_(std::move(controls)),
        topology_(topology),
        held_(controls_.size()) {}

  /// Makes, or sets aside, what `request` of connection `connection` wants on node `node`. Error: no
  /// queue pair or memory is left, or what is left is kept for the real nodes at other ports.
  Result<EndpointReady> create(NodeId node, uint64_t connection, const EndpointRequest& request);
  /// The client of this queue pair waits for our first message, or our own traffic may begin.
  void start(const EndpointStart& start);
  /// Changes the state of a connection's queue pairs: to RTS when its client is ready, to ERROR
  /// when it has gone.
  void modify(uint64_t connection, QpState state);
  /// Removes everything of a connection.
  void remove(uint64_t connection);

  struct EndedTraffic {
    uint64_t connection = 0;
    TrafficResult result;
  };
  /// Queue pairs whose traffic has ended since the last call.
  std::vector<EndedTraffic> take_ended_traffic();

  /// A message of a client with Behaviour::kMessages, or that its connection has failed.
  struct Heard {
    uint64_t connection = 0;
    std::vector<uint8_t> bytes;
    bool failed = false;
  };
  /// What has come by queue pairs of this shard since the last call.
  std::vector<Heard> take_heard(const ShardControl& control);
  /// Sends such a client a message, of at most MessagePipe::kMostBytes.
  void send(uint64_t connection, std::span<const uint8_t> bytes);
  /// Whether the client has acknowledged all of them.
  bool all_delivered(uint64_t connection) const;

 private:
  struct Made {
    ShardControl* control = nullptr;
    uint32_t port = 0;
    Qpn qpn = 0;
    ExposedRegion region;
    uint64_t region_bytes = 0;
    bool connected = false;              ///< false: the queue pair is only set aside
    std::unique_ptr<Endpoint> endpoint;  ///< null of datagrams
    RemoteBuffer remote;
    std::unique_ptr<TrafficProgress> traffic;
    bool told = false;            ///< that its traffic has ended, or that it has failed
    MessagePipe* pipe = nullptr;  ///< the endpoint, if it is one
    uint64_t sent = 0;            ///< messages, by the pipe
  };

  Result<size_t> port_for(const IpAddress& real) const;
  Result<void> leave_others_their_share(size_t port) const;
  Result<Made*> reserve(NodeId node, uint64_t connection, size_t port,
                        const EndpointRequest& request);
  Made* reserved(uint64_t connection, Qpn qpn);
  void connect(uint64_t connection, Made& made, const QpConfig& config,
               const EndpointRequest& request, std::unique_ptr<QpControl> control);
  DatagramQp datagram_qp(NodeId node, size_t port, Qpn qpn, const EndpointRequest& request) const;
  RoceAddressing addressing(NodeId node, size_t port, Qpn qpn,
                            const EndpointRequest& request) const;
  QpConfig qp_config(NodeId node, size_t port, Qpn qpn, const EndpointRequest& request) const;

  const Config& config_;
  std::vector<ShardControl*> controls_;
  const Topology* topology_;
  std::vector<size_t> held_;                                       ///< by port, connections
  std::unordered_multimap<uint64_t, std::unique_ptr<Made>> made_;  ///< by connection
  /// Those with traffic or a pipe, which are looked at each turn: few of many thousands.
  std::map<std::pair<uint64_t, Qpn>, Made*> watched_;
};

}  // namespace understudy
