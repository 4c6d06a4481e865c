// ring_node's side of the out-of-band messages (ctrl/peers/ring/ring_messages.h) as a machine without
// sockets: bytes in, bytes out, one machine for each connection to a neighbour.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ctrl/peers/ring/ring_messages.h"

namespace understudy {

class RingClient {
 public:
  /// Starts with hello. `job` may be empty; `address` is the GID of the data phase.
  RingClient(std::string job, IpAddress address);

  void on_bytes(std::span<const uint8_t> bytes);
  void on_closed();
  /// Bytes to send to the peer, taken once.
  std::vector<uint8_t> take_output() { return std::exchange(output_, {}); }
  /// Why the connection is of no more use; empty while it is. The peer's own words if it gave up.
  const std::string& failure() const { return failure_; }

  const std::optional<RingJobMessage>& job() const { return job_; }
  /// Which links the peer shares with us; needs the job. Two with a ring of two.
  std::vector<RingDirection> directions() const;

  /// Asks for a link; its answer stands in connected() at the same position as the call.
  void connect(const RingLinkEnd& ours);
  const std::vector<RingLinkEnd>& connected() const { return theirs_; }
  bool all_connected() const { return theirs_.size() == ours_.size(); }

  void send_ready() { append_ring_oob(RingReadyMessage{}, output_); }
  bool peer_ready() const { return peer_ready_; }

  void send_result(const RingResultMessage& result) { append_ring_oob(result, output_); }
  void send_done();
  void send_error(std::string text) { append_ring_oob(RingErrorMessage{std::move(text)}, output_); }

 private:
  void handle(const RingOobMessage& message);
  void check_job(const RingJobMessage& job);
  void check_connected(const RingLinkEnd& theirs);

  RingOobReader reader_;
  std::vector<uint8_t> output_;
  std::string failure_;
  std::optional<RingJobMessage> job_;
  std::vector<RingLinkEnd> ours_;
  std::vector<RingLinkEnd> theirs_;
  bool peer_ready_ = false;
  bool done_ = false;
};

/// What two neighbours' descriptions of one job disagree about, empty if nothing.
std::string job_difference(RingJobMessage a, const RingJobMessage& b);

}  // namespace understudy
