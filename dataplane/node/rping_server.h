// The server of rping (rdma-core's librdmacm/examples/rping.c): for each ping the client SENDs
// where its text lies, which we READ, and then where it wants it back, which we WRITE; each is
// followed by a SEND of ours that says "done".
#pragma once

#include <span>

#include "dataplane/node/endpoint.h"
#include "dataplane/node/rping_message.h"

namespace understudy {

class RpingServer : public Endpoint {
 public:
  /// `received`: the queue pair's receive buffer, kRpingMessageBytes long. `text`: room for a
  /// ping's text; longer ones are not answered. Both outlive the queue pair.
  RpingServer(std::span<const uint8_t> received, std::span<uint8_t> text)
      : received_(received), text_(text) {}
  void on_received(Time now, Qp& qp, const Received& message) override;
  void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;

 private:
  enum class State : uint8_t { kSource, kReading, kSink, kWriting };

  std::span<const uint8_t> received_;
  std::span<uint8_t> text_;
  State state_ = State::kSource;  ///< what is awaited
  uint32_t text_bytes_ = 0;       ///< of the last ping
};

}  // namespace understudy
