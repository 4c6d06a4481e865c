#include "ctrl/jobs/operations/inferred_operations.h"

#include <algorithm>

#include "ctrl/compile/ways/nic_ways.h"
#include "ctrl/report/text.h"
#include "ctrl/schedule/job_schedule.h"

namespace understudy {
namespace {

/// What four messages of each connection take on the job's slowest NIC.
Duration messages_under_way(const Config& config, const JobConfig& job, const CollectiveJob& told) {
  Rate slowest;
  for (const NodeId node : job.ranks) {
    for (const NicConfig& nic : config.nodes[node].nics) slowest = slower(slowest, nic.link_rate);
  }
  uint64_t round = 0;
  for (const CollectiveConnection& link : told.links) round += link.slot_bytes;
  return slowest.time_for(4 * round);
}

/// What the job names; nothing where that cannot be said.
std::vector<Operation> named(const Config& config, const JobConfig& job) {
  std::vector<Operation> all;
  const auto schedules = job_schedules(config, job);
  if (!schedules) return all;
  for (const JobSchedule& schedule : *schedules) all.push_back(schedule.operation);
  return all;
}

}  // namespace

InferredOperations::InferredOperations(const Config& config, const JobConfig& job,
                                       const Topology* topology, const CollectiveJob& told)
    : OperationSource(config, job, topology, told, true),
      inference_(maker_.communicator(), told.real),
      beliefs_(maker_.communicator().ranks(), named(config, job)),
      connections_(told.links.size(), kNone),
      received_(told.links.size()),
      base_(told.links.size()),
      granted_(told.links.size()),
      sent_(told.links.size()),
      give_up_after_(patience() + messages_under_way(config, job, told)) {
  const std::vector<BorderConnection>& all = inference_.connections();
  for (uint32_t l = 0; l < connections_.size(); ++l) {
    const CollectiveConnection& link = told.links[l];
    const BorderConnection border{link.channel, link.real_sends ? link.real : link.far,
                                  link.real_sends ? link.far : link.real, !link.real_sends};
    const auto at = std::ranges::find(all, border);
    if (link.index == 0 && at != all.end()) {
      connections_[l] = static_cast<uint32_t>(at - all.begin());
    }
  }
}

void InferredOperations::handle(Time now, const OnlineNotice& notice) {
  const uint32_t connection = connections_[notice.link];
  switch (notice.kind) {
    case OnlineNotice::Kind::kCredit:
      last_ = now;
      ++granted_[notice.link];
      remind(now);
      if (connection == kNone) return lose(now, "a credit on a connection that no collective uses");
      inference_.on_credit(connection, notice.bytes);
      return reconsider(now);
    case OnlineNotice::Kind::kData:
      last_ = now;
      if (connection == kNone) {
        return lose(now, "a message on a connection that no collective uses");
      }
      ++received_[notice.link];
      inference_.on_data(connection, notice.bytes);
      return reconsider(now);
    case OnlineNotice::Kind::kSent:
      last_ = now;
      ++sent_[notice.link];
      if (connection != kNone) inference_.on_sent(connection);
      return;
    case OnlineNotice::Kind::kWaited:
      if (notice.number != concluded() || guess_) return;
      waited_ = true;
      return reconsider(now);
    case OnlineNotice::Kind::kReminder:
      reminded_ = false;
      return look(now);
    default:
      return;
  }
}

/// What comes is taken for what explains it, and the plan of that drives the emulated ranks.
void InferredOperations::reconsider(Time now) {
  for (InferredOperation said; !lost() && inference_.next(said);) conclude_as(now, said);
  if (lost()) return;
  if (inference_.lost()) return lose(now, *inference_.lost());
  if (guess_ && inference_.may_be(*guess_)) return;
  const auto taken = inference_.current(before_);
  if (!taken || (!guess_ && !decided(*taken))) return;
  guess(now, taken->operation);
}

/// Waiting for more would only cost time: the operation is expected, or the real ranks have sent on
/// every channel, or what they send depends on us.
bool InferredOperations::decided(const Inference::Taken& taken) const {
  if (taken.expected || waited_) return true;
  for (uint32_t c = 0; c < taken.operation.channels; ++c) {
    bool sent = false;
    for (uint32_t l = 0; l < received_.size(); ++l) {
      sent |= told_.links[l].channel == c && told_.links[l].real_sends && received_[l] > base_[l];
    }
    if (!sent) return false;
  }
  return true;
}

bool InferredOperations::guess(Time now, const Operation& operation) {
  guess_ = operation;
  if (auto installed = install(now, {operation}, false); installed) return true;
  lose(now, "no plan for " + text_of(operation));
  return false;
}

Operation InferredOperations::best_of(const InferredOperation& said) const {
  const InferredOperation::Candidate& best = said.candidates.front();
  Operation o;
  o.collective = best.collective;
  o.algorithm = best.algorithm;
  o.protocol = best.protocol;
  o.type = (best.elements & 4) != 0 ? DataType::kFloat32 : DataType::kInt8;
  o.count = best.bytes.most() / element_bytes(o.type);
  o.root = best.roots.empty() ? 0 : best.roots.front();
  o.channels = said.channels;
  for (const Operation& before : before_) {
    if (Inference::fits(said, before)) o = before;
  }
  return o;
}

/// An operation is over, and so is known as well as it ever will be.
void InferredOperations::conclude_as(Time now, const InferredOperation& said) {
  if (said.candidates.empty()) return lose(now, "parts that no operation has");
  if (!guess_ || !Inference::fits(said, *guess_)) {
    const Operation o = best_of(said);
    if (!check_operation(maker_.communicator(), o)) {
      return lose(now, "parts that no operation has");
    }
    if (!guess(now, o)) return;
  }
  before_.push_back(*guess_);
  guess_.reset();
  waited_ = false;
  for (uint32_t l = 0; l < base_.size(); ++l) base_[l] += messages_of_last(l);
  conclude(beliefs_.judge(said, before_.back()));
  command(now, {.kind = OnlineCommand::Kind::kOver});
}

/// Looks at the real ranks' credits once nothing has happened for long.
void InferredOperations::remind(Time now) {
  if (reminded_ || lost()) return;
  reminded_ = true;
  command(now, {.kind = OnlineCommand::Kind::kRemind, .time = last_ + give_up_after_});
}

/// An operation that was taken for another one may leave them waiting: what was seen may not be
/// enough to tell, and more does not come.
void InferredOperations::look(Time now) {
  if (lost()) return;
  const Duration quiet = now - last_;
  if (quiet < give_up_after_) return remind(now);
  for (uint32_t l = 0; l < granted_.size(); ++l) {
    if (granted_[l] <= sent_[l]) continue;
    return lose(now, "rank " + std::to_string(told_.links[l].real) + " has waited for " +
                         duration_text(quiet) + " for what no operation explains");
  }
}

void InferredOperations::end() {
  inference_.finish();
  for (InferredOperation said; !lost() && inference_.next(said);) conclude_as(last_, said);
}

}  // namespace understudy
