// One direction of one channel on real RDMA devices: a queue pair, or one for each of the NICs that
// are merged at one of its ends; the memory of messages and of credits, set up as NCCL sets up its
// own (docs/nccl 2.4, 3.2).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ctrl/peers/ring/ring_messages.h"
#include "dataplane/nccl/message_parts.h"
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
    uint32_t far_devices = 1;  ///< queue pair q leads to number q % far_devices of the other end's
    CreditForm form = CreditForm();
  };
  /// What a completion is about.
  enum Kind : uint64_t { kData = 0, kReceive = 1, kCredit = 2 };
  static uint64_t work_id(uint32_t number, uint32_t queue_pair, Kind kind) {
    return uint64_t{number} << 6 | queue_pair << 2 | kind;
  }
  static uint32_t number_of(uint64_t id) { return static_cast<uint32_t>(id >> 6); }
  static Kind kind_of(uint64_t id) { return static_cast<Kind>(id & 3); }

  /// Queue pairs in INIT, memory registered. `devices`: of each queue pair; they must outlive the
  /// link.
  static Result<std::unique_ptr<VerbsLink>> make(std::vector<const VerbsDevice*> devices,
                                                 const Settings& settings);

  /// Of our end what the devices decide, for the other one.
  void describe(RingLinkEnd& end) const;
  /// Takes the other end: the queue pairs are ready to receive and to send afterwards.
  Result<void> connect(const RingLinkEnd& theirs, uint8_t traffic_class);

  Result<void> grant(uint64_t k, uint32_t capacity) override;
  const CreditEntry* credit(uint64_t k) override;
  Result<void> send(uint64_t k, const CreditEntry& credit, uint32_t bytes) override;
  std::byte* slot(uint64_t k) override { return buffer_.data() + slot_offset(k); }

  /// Of a completion of data, or of a receive: whether it is the last part of a message that was
  /// missing. Messages are whole in their order.
  bool makes_whole(uint64_t id);

 private:
  /// One of the queue pairs, and the memory of the other end by its device.
  struct Way {
    const VerbsDevice* device = nullptr;
    VerbsQueuePair qp;
    Rkey fifo_rkey = 0;
    uint64_t parts = 0;  ///< of messages that were acknowledged, or came
  };

  VerbsLink(std::vector<const VerbsDevice*> devices, const Settings& settings);
  uint64_t slot_offset(uint64_t k) const { return k % settings_.slots * settings_.slot_bytes; }
  Result<RegisteredMemory> memory(size_t bytes) const;

  Settings settings_;
  uint32_t near_devices_ = 1;  ///< ours; way q is on number q % near_devices_
  RegisteredMemory buffer_;    ///< of messages: the other end writes here, or we send from it
  RegisteredMemory credits_;   ///< that come, or ours before they are written
  std::vector<Way> ways_;
  WholeMessages whole_;
  uint64_t fifo_address_ = 0;  ///< the sender's memory for our credits
  CreditEntry read_ = {};      ///< the credit that was asked for last
};

/// Of a completion that is no success; `event`: a fatal one of its device, or empty.
std::string completion_fault(const ibv_wc& completion, const std::string& event);

}  // namespace understudy
