// What ring_node says as a whole node to the one emulated node that it has called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/peers/ring/ring_messages.h"
#include "tools/rigs/ring_node/base/oob_machine.h"

namespace understudy {

class NodeClient final : public OobClient {
 public:
  /// Starts with hello. `job` may be empty; `address` is one of the node's.
  NodeClient(std::string job, IpAddress address);

  const std::optional<NodeJobMessage>& job() const { return job_; }
  /// Tells our end of link number `link` of the job.
  void connect(uint32_t link, RingLinkEnd ours);
  /// By link: their ends, as far as they have come.
  const std::vector<std::optional<RingLinkEnd>>& connected() const { return theirs_; }
  bool all_connected() const { return connected_ == theirs_.size(); }

 private:
  void handle(const RingOobMessage& message) override;
  void take(const RingLinkEnd& theirs);

  std::optional<NodeJobMessage> job_;
  std::vector<std::optional<RingLinkEnd>> ours_, theirs_;  ///< by link
  size_t connected_ = 0;
};

}  // namespace understudy
