// A ring's channel on a real RDMA device: its connection to the next rank and that from the
// previous one.
#pragma once

#include <cstdint>
#include <memory>

#include "ctrl/peers/ring/ring_messages.h"
#include "tools/rigs/ring_node/ring/channel.h"
#include "tools/rigs/ring_node/verbs/verbs_link.h"

namespace understudy {

class VerbsLinks : public ChannelLinks {
 public:
  /// Queue pairs in INIT, memory registered; work requests are numbered by the channel. The device
  /// must outlive the links.
  static Result<std::unique_ptr<VerbsLinks>> make(const VerbsDevice& device,
                                                  const RingJobMessage& job, uint32_t channel);

  /// Our end of a link, for the neighbour.
  RingLinkEnd end(RingDirection direction) const;
  /// Takes the neighbour's end: the queue pair is ready to receive and to send afterwards.
  Result<void> connect(const RingLinkEnd& theirs);

  Result<void> grant(uint64_t k) override { return from_previous_->grant(k, capacity()); }
  const CreditEntry* credit(uint64_t k) override { return to_next_->credit(k); }
  Result<void> send(uint64_t k, const CreditEntry& credit, uint32_t bytes) override {
    return to_next_->send(k, credit, bytes);
  }
  const float* receive_slot(uint64_t k) override {
    return reinterpret_cast<const float*>(from_previous_->slot(k));
  }
  float* send_slot(uint64_t k) override { return reinterpret_cast<float*>(to_next_->slot(k)); }

 private:
  VerbsLinks(const RingJobMessage& job, uint32_t channel) : job_(job), channel_(channel) {}
  VerbsLink& link(RingDirection direction) const {
    return direction == RingDirection::kClientSends ? *to_next_ : *from_previous_;
  }
  uint32_t capacity() const { return job_.cutting.step_bytes * job_.cutting.slice_steps; }

  RingJobMessage job_;
  uint32_t channel_;
  std::unique_ptr<VerbsLink> to_next_, from_previous_;
};

}  // namespace understudy
