// Communicators that real ranks make of a job's: whose they are, and whose operations a plugin tells.
#include "ctrl/jobs/nccl/nccl_job.h"
#include "ctrl/peers/nccl/bootstrap/communicator_hash.h"

namespace understudy {

std::vector<MadeCommunicator> NcclJob::made() const {
  std::vector<MadeCommunicator> all = groups_.communicators();
  for (const NcclCommunicator::Child& child : communicator_->children()) {
    all.push_back({child.number, child.ranks, child.ranks, child.magic, child.search_channels});
  }
  return all;
}

AnsweredReport NcclJob::answered() const {
  AnsweredReport all = answered_;
  for (const auto& [communicator, messages] : links_.unplanned().others) {
    all.communicators += messages > 0 ? 1 : 0;
    all.messages += messages;
  }
  if (const OneSidedLinks* const one_sided = links_.any_one_sided()) {
    one_sided->add_to(all.one_sided);
  }
  return all;
}

void NcclJob::route_feed() {
  if (job_.operations != OperationsMode::kFed) return;
  FedRoutes routes;
  routes.find = [this](uint64_t hash) { return route_of(hash); };
  routes.others = [this] {
    std::vector<FedOperations*> all;
    for (const size_t child : children_.jobs()) {
      if (FedOperations* feed = runner_.feed_of(child)) all.push_back(feed);
    }
    return all;
  };
  runner_.route_feed(number_, std::move(routes));
  for (const size_t child : children_.jobs()) runner_.feed_from(child, number_);
}

FedRoute NcclJob::route_of(uint64_t hash) {
  if (communicator_ == nullptr) return {};
  if (by_hash_.empty()) by_hash_.emplace(communicator_hash(*identity_.id(), job_.nccl), 0);
  if (hash == 0) return {.to = FedRoute::To::kSelf};  // it is not told
  if (!by_hash_.contains(hash)) {
    for (const MadeCommunicator& one : made()) {
      if (one.hash == hash) by_hash_.emplace(hash, one.number);
    }
  }
  const auto found = by_hash_.find(hash);
  if (found == by_hash_.end()) return {};
  if (found->second == 0) return {.to = FedRoute::To::kSelf};
  find_child(found->second);
  const auto job = children_.job_of(found->second);
  return {
      .to = FedRoute::To::kOther, .other = job ? runner_.feed_of(*job) : nullptr, .answered = !job};
}

void NcclJob::find_child(uint32_t communicator) {
  if (communicator == 0 || children_.knows(communicator)) return;
  for (const MadeCommunicator& one : made()) {
    if (one.number != communicator || one.search_channels == 0) continue;
    if (auto found = children_.found(one); !found) end(found.error().text);
    return;
  }
}

}  // namespace understudy
