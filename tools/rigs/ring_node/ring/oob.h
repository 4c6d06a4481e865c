// What ring_node says to a neighbour that it has called: one machine for each connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/peers/ring/ring_messages.h"
#include "tools/rigs/ring_node/base/oob_machine.h"

namespace understudy {

class RingClient final : public OobClient {
 public:
  /// Starts with hello. `job` may be empty; `address` is the GID of the data phase.
  RingClient(std::string job, IpAddress address);

  const std::optional<RingJobMessage>& job() const { return job_; }
  /// Which links the peer shares with us; needs the job. Two with a ring of two.
  std::vector<RingDirection> directions() const;

  /// Asks for a link; its answer stands in connected() at the same position as the call.
  void connect(const RingLinkEnd& ours);
  const std::vector<RingLinkEnd>& connected() const { return theirs_; }
  bool all_connected() const { return theirs_.size() == ours_.size(); }

 private:
  void handle(const RingOobMessage& message) override;
  void check_job(const RingJobMessage& job);
  void check_connected(const RingLinkEnd& theirs);

  std::optional<RingJobMessage> job_;
  std::vector<RingLinkEnd> ours_;
  std::vector<RingLinkEnd> theirs_;
};

/// What two neighbours' descriptions of one job disagree about, empty if nothing.
std::string job_difference(RingJobMessage a, const RingJobMessage& b);

}  // namespace understudy
