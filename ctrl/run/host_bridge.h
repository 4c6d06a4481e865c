// Carries frames between the shards and the exception namespace's TAP, in control's thread.
#pragma once

#include <unordered_map>
#include <vector>

#include "ctrl/host_namespace/host_namespace.h"
#include "dataplane/engine/shard.h"

namespace understudy {

class HostBridge {
 public:
  HostBridge(const HostNamespace& host, std::vector<Shard*> shards);

  /// Moves what waits in either direction, up to some hundred frames.
  void poll();

 private:
  const HostNamespace& host_;
  std::vector<Shard*> shards_;
  std::unordered_map<IpAddress, Shard*> by_real_address_;
  std::vector<uint8_t> buffer_;
};

}  // namespace understudy
