#include "tools/rigs/ring_node/ring/real_peer.h"

#include <algorithm>
#include <numeric>

namespace understudy {

RingJobMessage real_ring(RingJobMessage message, uint32_t client, uint32_t peer) {
  message.client_rank = client;
  message.peer_rank = peer;
  message.real_ranks.resize(message.ranks);
  std::iota(message.real_ranks.begin(), message.real_ranks.end(), 0u);
  message.exact = true;
  return message;
}

RingJobMessage passed_back(RingJobMessage job) {
  job.peer_rank = job.client_rank;
  job.client_rank = (job.client_rank + job.ranks - 1) % job.ranks;
  return job;
}

void RealPeer::handle(const RingOobMessage& message) {
  if (state_ == State::kHello) {
    if (const auto* m = std::get_if<RingHelloMessage>(&message)) return hello(*m);
  } else if (state_ == State::kConnect) {
    if (const auto* m = std::get_if<RingConnectMessage>(&message)) return connect(*m);
    if (std::holds_alternative<RingReadyMessage>(message) && all_asked() &&
        answered_ == asked_.size()) {
      state_ = State::kReady;
      return;
    }
  } else if (state_ == State::kRunning && !done_) {
    if (const auto* m = std::get_if<RingResultMessage>(&message)) {
      results_.push_back(*m);
      results_.back().rank = m->rank.value_or(job_.client_rank);
      return;
    }
    if (std::holds_alternative<RingDoneMessage>(message)) {
      done_ = true;
      return;
    }
  }
  out_of_order(message);
}

void RealPeer::begin() {
  send(RingReadyMessage{});
  state_ = State::kRunning;
}

void RealPeer::hello(const RingHelloMessage& message) {
  if (message.version != kRingOobVersion) {
    return fail_with("the rank speaks version " + std::to_string(message.version) +
                     ", this is version " + std::to_string(kRingOobVersion));
  }
  if (message.whole_node) {
    return fail_with("job \"" + job_.name +
                     "\" is a ring all-reduce, whose rank calls both of its neighbours");
  }
  if (!message.job.empty() && message.job != job_.name) {
    return fail_with("the rank asks for job \"" + message.job + "\", this is \"" + job_.name +
                     "\"");
  }
  client_ = message.address;
  send(job_);
  state_ = State::kConnect;
}

void RealPeer::connect(const RingLinkEnd& end) {
  const std::string where = "connect (channel " + std::to_string(end.channel) + "): ";
  if (end.direction != RingDirection::kClientSends) {
    return fail_with(where + "a real rank asks its next one for links in that direction only");
  }
  if (end.channel >= job_.channels) {
    return fail_with(where + "the job has " + std::to_string(job_.channels) + " channels");
  }
  if (std::ranges::count(asked_, end.channel, &RingLinkEnd::channel) != 0) {
    return fail_with(where + "is connected already");
  }
  if (end.gid != client_) {
    return fail_with(where + "GID " + end.gid.text() + " is not the one of the hello, " +
                     client_.text());
  }
  if (end.mtu == 0 || end.fifo_address == 0 || end.fifo_rkey == 0) {
    return fail_with(where + "the sender gave no path MTU or no memory for credits");
  }
  asked_.push_back(end);
}

void RealPeer::answer(const RingLinkEnd& ours) {
  RingLinkEnd end = ours;
  const RingLinkEnd& asked = asked_[answered_++];
  end.channel = asked.channel;
  end.direction = asked.direction;
  send(RingConnectedMessage{end});
}

}  // namespace understudy
