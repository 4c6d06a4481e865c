// One channel of one real rank: the ring all-reduce as NCCL's Simple protocol executes it, on two
// connections (to the next rank, from the previous one), without knowing verbs. Order, credits and
// windows: docs/nccl 3.1-3.4, 3.8, 3.10.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "dataplane/base/result.h"
#include "tools/rigs/ring_node/base/message_link.h"
#include "tools/rigs/ring_node/ring/cutting.h"

namespace understudy {

/// What a channel needs of its two queue pairs. Messages are numbered from 0 over all operations.
class ChannelLinks {
 public:
  virtual ~ChannelLinks() = default;
  /// Lets the previous rank send message `k`: a receive work request, then the credit.
  virtual Result<void> grant(uint64_t k) = 0;
  /// The next rank's credit for message `k`, null while it has not come.
  virtual const CreditEntry* credit(uint64_t k) = 0;
  /// Writes `bytes` of send_slot(k) to where the credit says, the size as immediate.
  virtual Result<void> send(uint64_t k, const CreditEntry& credit, uint32_t bytes) = 0;
  virtual const float* receive_slot(uint64_t k) = 0;
  virtual float* send_slot(uint64_t k) = 0;
};

class RankChannel {
 public:
  /// `links` must outlive the channel.
  RankChannel(const RingJobMessage& job, uint32_t channel, ChannelLinks& links);

  /// Begins an operation. Buffers are those of the whole operation, not of the channel's part.
  /// Messages of the one before may still wait for their acknowledgements.
  void start(const ElementRange& part, const float* input, float* output);
  /// Does all that can be done now. True if anything was.
  Result<bool> progress();
  /// A message has arrived; `size` is its immediate.
  Result<void> on_received(uint32_t size);
  /// The oldest message of ours was acknowledged.
  void on_sent() { ++acknowledged_; }
  /// The operation's work is done and its last messages are posted. As with NCCL, credits of the
  /// next operation leave now, not when the last message is acknowledged.
  bool done() const { return stage_loop_ == loops_ && posted_ == filled_; }
  /// All messages of all operations were acknowledged.
  bool idle() const { return done() && acknowledged_ == filled_; }
  /// What it waits for, for the text of a time-out.
  std::string waiting_for() const;

 private:
  /// Runs the current step on the current slice if its message and its send slot are there.
  bool step();
  /// An error if the credit does not admit the message.
  Result<void> check(const CreditEntry& credit, uint64_t bytes) const;
  /// Slice that the previous rank's message `m` of this operation carries.
  ElementRange incoming(uint64_t m) const;
  Result<bool> post();

  RankCutting cutting_;
  ChannelLinks& links_;
  const uint32_t ranks_;
  const uint32_t rank_;
  const uint32_t channel_;
  const unsigned slices_;
  const uint64_t window_;  ///< messages in flight, each direction: 8 steps

  // Of the current operation, but for what is sent. A message is received when it arrived and
  // consumed when its slice was used; it is filled when its slice was made and posted when it was
  // given to the queue pair.
  ElementRange part_;
  const float* input_ = nullptr;
  float* output_ = nullptr;
  uint64_t base_ = 0;  ///< messages of earlier operations
  uint64_t messages_ = 0;
  uint64_t loops_ = 0;
  uint64_t granted_ = 0, received_ = 0, consumed_ = 0;
  uint64_t filled_ = 0, posted_ = 0, acknowledged_ = 0;  ///< of all operations
  std::array<uint32_t, kRingSteps> filled_bytes_{};      ///< of what is in the send slots
  uint64_t stage_loop_ = 0;  ///< where the rank's strictly ordered work stands:
  uint32_t stage_step_ = 0;  ///< 0 sends only, 2n-2 receives only, the others do both
  unsigned stage_slice_ = 0;
};

}  // namespace understudy
