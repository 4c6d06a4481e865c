#include "tools/rigs/ring_node/ring/oob.h"

#include <algorithm>

namespace understudy {

RingClient::RingClient(std::string job, IpAddress address)
    : OobClient({.job = std::move(job), .address = address}) {}

void RingClient::handle(const RingOobMessage& message) {
  if (const auto* job = std::get_if<RingJobMessage>(&message); job && !job_) {
    check_job(*job);
    job_ = *job;
  } else if (const auto* end = std::get_if<RingConnectedMessage>(&message);
             end && !all_connected()) {
    check_connected(*end);
    theirs_.push_back(*end);
  } else if (!job_ || !all_connected() || !takes_ready(message)) {
    out_of_order(message);
  }
}

void RingClient::check_job(const RingJobMessage& job) {
  if (job.operations.empty()) fail_with("the job has no operations");
  if (std::ranges::count(job.real_ranks, job.client_rank) == 0) {
    fail_with("the job does not count our rank among the real ones");
  }
  const bool neighbours = (job.client_rank + 1) % job.ranks == job.peer_rank ||
                          (job.peer_rank + 1) % job.ranks == job.client_rank;
  if (!neighbours) {
    fail_with("ranks " + std::to_string(job.client_rank) + " and " + std::to_string(job.peer_rank) +
              " of " + std::to_string(job.ranks) + " are no neighbours");
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
  send(RingConnectMessage{ours});
}

void RingClient::check_connected(const RingLinkEnd& theirs) {
  const RingLinkEnd& ours = ours_[theirs_.size()];
  if (theirs.channel != ours.channel || theirs.direction != ours.direction) {
    return fail_with("connected (channel " + std::to_string(ours.channel) +
                     "): answers another link");
  }
  if (auto fault = connected_fault(ours, theirs); !fault.empty()) fail_with(std::move(fault));
}

std::string job_difference(RingJobMessage a, const RingJobMessage& b) {
  if (a.name != b.name) return "its name (\"" + a.name + "\", \"" + b.name + "\")";
  if (a.ranks != b.ranks || a.client_rank != b.client_rank) return "the ring or our rank";
  if (a.operations != b.operations) return "its operations";
  a.peer_rank = b.peer_rank;
  return a == b ? "" : "its settings";
}

}  // namespace understudy
