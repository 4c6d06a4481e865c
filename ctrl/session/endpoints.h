// Queue pairs of services: what a peer machine asks for, made in the right shard, and taken away
// when its connection ends.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/peers/peer.h"
#include "ctrl/session/shard_control.h"
#include "dataplane/node/services.h"

namespace understudy {

class ServiceEndpoints {
 public:
  /// `controls[i]` belongs to port i of the configuration.
  ServiceEndpoints(const Config& config, std::vector<ShardControl*> controls)
      : config_(config), controls_(std::move(controls)) {}

  /// Makes the queue pair that `request` of connection `connection` wants on node `node`.
  Result<EndpointReady> create(NodeId node, uint64_t connection, const EndpointRequest& request);
  /// The client of this queue pair waits for our first message.
  void start(const EndpointStart& start);
  /// Removes everything of a connection.
  void remove(uint64_t connection);

 private:
  struct Made {
    ShardControl* control = nullptr;
    Qpn qpn = 0;
    uint32_t region = 0;
    std::unique_ptr<Endpoint> endpoint;
    RemoteBuffer start;
  };

  Result<size_t> port_for(const IpAddress& real) const;

  const Config& config_;
  std::vector<ShardControl*> controls_;
  std::unordered_multimap<uint64_t, std::unique_ptr<Made>> made_;  ///< by connection
};

}  // namespace understudy
