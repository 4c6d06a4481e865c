// SENDs between a client and control: what arrives goes to control by a ring, what control has to
// say goes out in order. For exchanges that a program carries over its connection instead of TCP.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "dataplane/base/spsc_ring.h"
#include "dataplane/node/endpoint.h"

namespace understudy {

class MessagePipe : public Endpoint {
 public:
  static constexpr uint32_t kMostBytes = 512;
  static constexpr uint32_t kSlots = 8;  ///< messages under way, each direction
  struct Message {
    uint32_t length = 0;
    std::array<uint8_t, kMostBytes> bytes{};
  };

  /// `received`: the queue pair's receive buffer, kMostBytes long; outlives the queue pair.
  explicit MessagePipe(std::span<const uint8_t> received)
      : received_(received), from_client_(kSlots), to_client_(kSlots) {}
  void set_qp(Qp& qp) { qp_ = &qp; }  ///< before the first wake

  // Control's side.
  SpscRing<Message>& from_client() { return from_client_; }
  /// False when the client has not taken kSlots messages yet. To be followed by a wake.
  bool send(const Message& message) { return to_client_.push(message); }
  /// Messages of ours that the client has acknowledged.
  uint64_t acknowledged() const { return acknowledged_.load(std::memory_order_acquire); }
  /// The connection failed, or the client sent faster than control took its messages.
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  /// Any cookie: control has something to say.
  void on_wake(Time now, uint64_t cookie) override;
  void on_received(Time now, Qp& qp, const Received& message) override;
  void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;

 private:
  std::span<const uint8_t> received_;
  Qp* qp_ = nullptr;
  SpscRing<Message> from_client_, to_client_;
  std::array<Message, kSlots> slots_;  ///< under way, by number modulo kSlots
  uint64_t posted_ = 0;
  std::atomic<uint64_t> acknowledged_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace understudy
