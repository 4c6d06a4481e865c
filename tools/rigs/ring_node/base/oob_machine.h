// One side of an out-of-band connection (ctrl/peers/ring/ring_messages.h) as a machine without
// sockets: bytes in, bytes out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ctrl/peers/ring/ring_messages.h"

namespace understudy {

class OobMachine {
 public:
  virtual ~OobMachine() = default;
  void on_bytes(std::span<const uint8_t> bytes);
  void on_closed();
  /// Bytes to send to the other side, taken once.
  std::vector<uint8_t> take_output() { return std::exchange(output_, {}); }
  /// Why the connection is of no more use; empty while it is. The other side's own words if it gave
  /// up.
  const std::string& failure() const { return failure_; }
  void send_error(std::string text) { send(RingErrorMessage{std::move(text)}); }

 protected:
  /// `other`: what the other side is called.
  explicit OobMachine(std::string other) : other_(std::move(other)) {}
  OobMachine(const OobMachine&) = default;
  OobMachine(OobMachine&&) = default;
  OobMachine& operator=(const OobMachine&) = default;
  OobMachine& operator=(OobMachine&&) = default;
  /// A message that is no error.
  virtual void handle(const RingOobMessage& message) = 0;
  /// Nothing more is expected.
  virtual bool is_over() const = 0;
  void send(const RingOobMessage& message) { append_ring_oob(message, output_); }
  void fail_with(std::string why) { failure_ = std::move(why); }
  void out_of_order(const RingOobMessage& message) {
    fail_with(std::string("message \"") + ring_oob_name(message) + "\" out of order");
  }

 private:
  std::string other_;
  RingOobReader reader_;
  std::vector<uint8_t> output_;
  std::string failure_;
};

/// The side that calls and is told the job.
class OobClient : public OobMachine {
 public:
  void send_ready() { send(RingReadyMessage{}); }
  bool peer_ready() const { return peer_ready_; }
  void send_result(const RingResultMessage& result) { send(result); }
  void send_done();

 protected:
  /// Says hello.
  explicit OobClient(RingHelloMessage hello);
  /// Takes the sign that the peer is ready, which comes once.
  bool takes_ready(const RingOobMessage& message);

 private:
  bool is_over() const override { return done_; }

  bool peer_ready_ = false;
  bool done_ = false;
};

/// What is wrong with the end that answers `ours`; empty if nothing. It answers that link.
std::string connected_fault(const RingLinkEnd& ours, const RingLinkEnd& theirs);

}  // namespace understudy
