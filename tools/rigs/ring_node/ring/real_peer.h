// The peer's side of the out-of-band messages (ctrl/peers/ring/ring_messages.h) where the peer is a real
// rank too: what a rank says to the previous one, which has called it. A machine without sockets:
// bytes in, bytes out. Each real rank calls its next one, and a call is about the links to that one
// only, also in a ring of two.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ctrl/peers/ring/ring_messages.h"
#include "tools/rigs/ring_node/base/oob_machine.h"

namespace understudy {

/// The job of a ring whose ranks are all real, as each of them describes it: `message` is what the
/// rank `client` is told by the rank `peer`.
RingJobMessage real_ring(RingJobMessage message, uint32_t client, uint32_t peer);
/// What a real rank that was told `job` tells the one before it, which is real too.
RingJobMessage passed_back(RingJobMessage job);

class RealPeer final : public OobMachine {
 public:
  /// `job`: what the previous rank is told; client_rank is its rank, peer_rank ours.
  explicit RealPeer(RingJobMessage job) : OobMachine("rank"), job_(std::move(job)) {}

  /// The previous rank knows the job.
  bool described() const { return state_ != State::kHello; }
  /// Its ends of the links, in the order of its connects; one for each channel.
  const std::vector<RingLinkEnd>& asked() const { return asked_; }
  bool all_asked() const { return asked_.size() == job_.channels; }
  /// Our end of the next link that was not answered yet: it is ready to receive.
  void answer(const RingLinkEnd& ours);
  /// All its queue pairs stand; it waits for begin().
  bool client_ready() const { return state_ >= State::kReady; }
  /// Tells a client that is ready that we are.
  void begin();
  /// Its results, and those that it passes on, since the last call; each names its rank.
  std::vector<RingResultMessage> take_results() { return std::exchange(results_, {}); }
  /// It needs nothing of us any more.
  bool done() const { return done_; }

 private:
  enum class State : uint8_t { kHello, kConnect, kReady, kRunning };

  void handle(const RingOobMessage& message) override;
  bool is_over() const override { return done_; }
  void hello(const RingHelloMessage& message);
  void connect(const RingLinkEnd& end);

  RingJobMessage job_;
  State state_ = State::kHello;
  IpAddress client_;  ///< its GID, as its hello says
  std::vector<RingLinkEnd> asked_;
  size_t answered_ = 0;
  std::vector<RingResultMessage> results_;
  bool done_ = false;
};

}  // namespace understudy
