#include "tools/rigs/ring_node/whole_node/node_client.h"

#include <algorithm>
#include <utility>

namespace understudy {

namespace {

std::string gid_fault(const RingLinkEnd& theirs, const std::vector<IpAddress>& told) {
  const std::string where = "connected (channel " + std::to_string(theirs.channel) + "): ";
  if (theirs.more.size() + 1 != told.size()) {
    return where + std::to_string(theirs.more.size() + 1) + " queue pairs, the job has " +
           std::to_string(told.size());
  }
  for (size_t q = 0; q < told.size(); ++q) {
    const IpAddress& gid = q == 0 ? theirs.gid : theirs.more[q - 1].gid;
    if (gid == told[q]) continue;
    return where + "GID " + gid.text() + " is not the one that the job names, " + told[q].text();
  }
  return "";
}

}  // namespace

NodeClient::NodeClient(std::string job, IpAddress address)
    : OobClient({.job = std::move(job), .address = address, .whole_node = true}) {}

void NodeClient::handle(const RingOobMessage& message) {
  if (const auto* job = std::get_if<NodeJobMessage>(&message); job && !job_) {
    job_ = *job;
    ours_.resize(job->links.size());
    theirs_.resize(job->links.size());
  } else if (const auto* end = std::get_if<RingConnectedMessage>(&message); end && job_) {
    take(*end);
  } else if (!job_ || !all_connected() || !takes_ready(message)) {
    out_of_order(message);
  }
}

void NodeClient::connect(uint32_t link, RingLinkEnd ours) {
  const NodeJobMessage::Link& l = job_->links[link];
  ours.channel = l.channel;
  ours.direction = l.client_sends ? RingDirection::kClientSends : RingDirection::kPeerSends;
  ours.of = RingLinkEnd::Ranks{l.rank, l.peer_rank, l.index};
  ours_[link] = ours;
  send(RingConnectMessage{ours});
}

void NodeClient::take(const RingLinkEnd& theirs) {
  const auto is_it = [&](const std::optional<RingLinkEnd>& ours) {
    return ours && ours->channel == theirs.channel && ours->direction == theirs.direction &&
           ours->of == theirs.of;
  };
  const auto found = std::ranges::find_if(ours_, is_it);
  const auto link = static_cast<size_t>(found - ours_.begin());
  if (found == ours_.end() || theirs_[link]) {
    return fail_with("connected (channel " + std::to_string(theirs.channel) +
                     "): answers a link that was not asked for");
  }
  auto fault = connected_fault(**found, theirs);
  if (fault.empty()) fault = gid_fault(theirs, job_->links[link].remote);
  if (!fault.empty()) return fail_with(std::move(fault));
  theirs_[link] = theirs;
  ++connected_;
}

}  // namespace understudy
