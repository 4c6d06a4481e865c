// A channel's two queue pairs on a real RDMA device, set up as NCCL sets up its own
// (docs/nccl 2.4).
#pragma once

#include <cstdint>
#include <memory>

#include "ctrl/peers/ring/ring_messages.h"
#include "tools/rigs/ring_node/channel.h"
#include "tools/rigs/ring_node/verbs_queue_pair.h"

namespace understudy {

class VerbsLinks : public ChannelLinks {
 public:
  /// What a completion is about; the work request id is (channel << 2 | kind).
  enum Kind : uint64_t { kData = 0, kReceive = 1, kCredit = 2 };
  static uint64_t work_id(uint32_t channel, Kind kind) { return uint64_t{channel} << 2 | kind; }

  /// Queue pairs in INIT, memory registered. The device must outlive the links.
  static Result<std::unique_ptr<VerbsLinks>> make(const VerbsDevice& device,
                                                  const RingJobMessage& job, uint32_t channel);

  /// Our end of a link, for the neighbour.
  RingLinkEnd end(RingDirection direction) const;
  /// Takes the neighbour's end: the queue pair is ready to receive and to send afterwards.
  Result<void> connect(const RingLinkEnd& theirs);

  Result<void> grant(uint64_t k) override;
  const CreditEntry* credit(uint64_t k) override;
  Result<void> send(uint64_t k, const CreditEntry& credit, uint32_t bytes) override;
  const float* receive_slot(uint64_t k) override;
  float* send_slot(uint64_t k) override;

 private:
  VerbsLinks(const VerbsDevice& device, const RingJobMessage& job, uint32_t channel)
      : device_(device), job_(job), channel_(channel) {}
  Result<void> allocate();
  size_t slot_offset(uint64_t k) const;

  const VerbsDevice& device_;
  RingJobMessage job_;
  uint32_t channel_;
  RegisteredMemory receive_buffer_;  ///< the previous rank writes here
  RegisteredMemory send_buffer_;
  RegisteredMemory credits_in_;   ///< the next rank writes here
  RegisteredMemory credits_out_;  ///< our credits, before they are written
  VerbsQueuePair to_next_;
  VerbsQueuePair from_previous_;
  uint64_t fifo_address_ = 0;  ///< the previous rank's memory for our credits
  Rkey fifo_rkey_ = 0;
};

}  // namespace understudy
