#include "tools/rigs/ring_node/oob.h"

#include <algorithm>

namespace understudy {

RingClient::RingClient(std::string job, IpAddress address) {
  RingHelloMessage hello;
  hello.job = std::move(job);
  hello.address = address;
  append_ring_oob(hello, output_);
}

void RingClient::on_bytes(std::span<const uint8_t> bytes) {
  reader_.push(bytes);
  while (failure_.empty()) {
    auto message = reader_.next();
    if (!message) {
      failure_ = message.error().text;
    } else if (*message) {
      handle(**message);
    } else {
      return;
    }
  }
}

void RingClient::on_closed() {
  if (failure_.empty() && !done_) failure_ = "the peer closed the connection";
}

void RingClient::handle(const RingOobMessage& message) {
  if (const auto* error = std::get_if<RingErrorMessage>(&message)) {
    failure_ = "the peer gave up: " + error->text;
  } else if (const auto* job = std::get_if<RingJobMessage>(&message); job && !job_) {
    check_job(*job);
    job_ = *job;
  } else if (const auto* end = std::get_if<RingConnectedMessage>(&message);
             end && !all_connected()) {
    check_connected(*end);
    theirs_.push_back(*end);
  } else if (std::holds_alternative<RingReadyMessage>(message) && job_ && all_connected() &&
             !peer_ready_) {
    peer_ready_ = true;
  } else {
    failure_ = std::string("message \"") + ring_oob_name(message) + "\" out of order";
  }
}

void RingClient::check_job(const RingJobMessage& job) {
  if (job.operations.empty()) failure_ = "the job has no operations";
  if (std::ranges::count(job.real_ranks, job.client_rank) == 0) {
    failure_ = "the job does not count our rank among the real ones";
  }
  const bool neighbours = (job.client_rank + 1) % job.ranks == job.peer_rank ||
                          (job.peer_rank + 1) % job.ranks == job.client_rank;
  if (!neighbours) {
    failure_ = "ranks " + std::to_string(job.client_rank) + " and " +
               std::to_string(job.peer_rank) + " of " + std::to_string(job.ranks) +
               " are no neighbours";
  }
}

std::vector<RingDirection> RingClient::directions() const {
  std::vector<RingDirection> out;
  if ((job_->client_rank + 1) % job_->ranks == job_->peer_rank) {
    out.push_back(RingDirection::kClientSends);
  }
  if ((job_->peer_rank + 1) % job_->ranks == job_->client_rank) {
    out.push_back(RingDirection::kPeerSends);
  }
  return out;
}

void RingClient::connect(const RingLinkEnd& ours) {
  ours_.push_back(ours);
  append_ring_oob(RingConnectMessage{ours}, output_);
}

void RingClient::check_connected(const RingLinkEnd& theirs) {
  const RingLinkEnd& ours = ours_[theirs_.size()];
  const std::string where = "connected (channel " + std::to_string(ours.channel) + "): ";
  if (theirs.channel != ours.channel || theirs.direction != ours.direction) {
    failure_ = where + "answers another link";
  } else if (theirs.mtu > ours.mtu) {
    failure_ = where + "path MTU " + std::to_string(theirs.mtu) + " is larger than our port's " +
               std::to_string(ours.mtu);
  } else if (theirs.direction == RingDirection::kPeerSends &&
             (theirs.fifo_address == 0 || theirs.fifo_rkey == 0)) {
    failure_ = where + "the sender gave no memory for credits";
  }
}

void RingClient::send_done() {
  done_ = true;
  append_ring_oob(RingDoneMessage{}, output_);
}

std::string job_difference(RingJobMessage a, const RingJobMessage& b) {
  if (a.name != b.name) return "its name (\"" + a.name + "\", \"" + b.name + "\")";
  if (a.ranks != b.ranks || a.client_rank != b.client_rank) return "the ring or our rank";
  if (a.operations != b.operations) return "its operations";
  a.peer_rank = b.peer_rank;
  return a == b ? "" : "its settings";
}

}  // namespace understudy
