// One direction of one channel on a real RDMA device: a queue pair, the memory of messages and of
// credits, set up as NCCL sets up its own (docs/nccl 2.4).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ctrl/peers/ring/ring_messages.h"
#include "tools/rigs/ring_node/base/message_link.h"
#include "tools/rigs/ring_node/verbs/verbs_queue_pair.h"

namespace understudy {

class VerbsLink final : public MessageLink {
 public:
  struct Settings {
    uint32_t number = 0;  ///< in the ids of work requests
    bool sends = false;   ///< data; else credits
    uint32_t slots = 1, slot_bytes = 1;
    uint32_t sender_rank = 0;  ///< in credits
  };
  /// What a completion is about; the work request id is (number << 2 | kind).
  enum Kind : uint64_t { kData = 0, kReceive = 1, kCredit = 2 };
  static uint64_t work_id(uint32_t number, Kind kind) { return uint64_t{number} << 2 | kind; }

  /// A queue pair in INIT, memory registered. The device must outlive the link.
  static Result<std::unique_ptr<VerbsLink>> make(const VerbsDevice& device,
                                                 const Settings& settings);

  /// Of our end what the device decides, for the other one.
  void describe(RingLinkEnd& end) const;
  /// Takes the other end: the queue pair is ready to receive and to send afterwards.
  Result<void> connect(const RingLinkEnd& theirs, uint8_t traffic_class);

  Result<void> grant(uint64_t k, uint32_t capacity) override;
  const CreditEntry* credit(uint64_t k) override;
  Result<void> send(uint64_t k, const CreditEntry& credit, uint32_t bytes) override;
  /// Of message `k`, in the memory that it is sent from or comes to.
  std::byte* slot(uint64_t k) const { return buffer_.data() + slot_offset(k); }

 private:
  VerbsLink(const VerbsDevice& device, const Settings& settings)
      : device_(device), settings_(settings) {}
  uint64_t slot_offset(uint64_t k) const { return k % settings_.slots * settings_.slot_bytes; }

  const VerbsDevice& device_;
  Settings settings_;
  RegisteredMemory buffer_;   ///< of messages: the other end writes here, or we send from it
  RegisteredMemory credits_;  ///< that come, or ours before they are written
  VerbsQueuePair qp_;
  uint64_t fifo_address_ = 0;  ///< the sender's memory for our credits
  Rkey fifo_rkey_ = 0;
};

/// Of a completion that is no success; `event`: a fatal one of its device, or empty.
std::string completion_fault(const ibv_wc& completion, const std::string& event);

}  // namespace understudy
