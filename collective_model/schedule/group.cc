#include "collective_model/schedule/group.h"

#include <algorithm>
#include <map>
#include <utility>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

bool alike(const Connection& a, const Connection& b) {
  return a.channel == b.channel && a.from == b.from && a.to == b.to && a.index == b.index &&
         a.direction == b.direction && use_of(a) == use_of(b);
}

}  // namespace

GroupRankSchedule::GroupRankSchedule(std::vector<std::unique_ptr<RankSchedule>> operations,
                                     std::vector<uint64_t> results)
    : operations_(std::move(operations)), results_(std::move(results)) {
  std::map<uint32_t, std::vector<Wait>> last;  // messages of each channel's operation before
  uint32_t joints = 0;
  for (uint32_t o = 0; o < operations_.size(); ++o) {
    const std::vector<Connection>& own = operations_[o]->connections();
    std::vector<uint32_t>& place = place_.emplace_back();
    std::vector<uint64_t>& first = first_.emplace_back();
    std::map<uint32_t, uint32_t> joint;  // of the group, by that of the operation
    std::map<uint32_t, std::vector<Wait>> done;
    for (uint32_t c = 0; c < own.size(); ++c) {
      uint32_t at = 0;
      while (at < connections_.size() && !alike(connections_[at], own[c])) ++at;
      if (at == connections_.size()) {
        connections_.push_back(own[c]);
        connections_.back().messages = 0;
        parts_.emplace_back();
        if (own[c].joint != 0) {
          const auto [known, fresh] = joint.try_emplace(own[c].joint, joints + 1);
          if (fresh) ++joints;
          connections_.back().joint = known->second;
        }
      } else if (own[c].joint != 0) {
        joint.try_emplace(own[c].joint, connections_[at].joint);  // a channel has one tree
      }
      Connection& connection = connections_[at];
      place.push_back(at);
      first.push_back(connection.messages);
      if (own[c].messages == 0) continue;
      parts_[at].push_back({connection.messages, o, c, last[own[c].channel]});
      connection.messages += own[c].messages;
      done[own[c].channel].push_back({Wait::Moment::kDone, at, connection.messages - 1});
    }
    for (auto& [channel, waits] : done) last[channel] = std::move(waits);
  }
}

const GroupRankSchedule::Part& GroupRankSchedule::part(uint32_t connection, uint64_t k) const {
  const std::vector<Part>& parts = parts_[connection];
  size_t i = parts.size() - 1;
  while (parts[i].first > k) --i;
  return parts[i];
}

Message GroupRankSchedule::message(uint32_t connection, uint64_t k) const {
  const Part& p = part(connection, k);
  return operations_[p.operation]->message(p.connection, k - p.first);
}

bool GroupRankSchedule::names_old_messages() const {
  return std::ranges::any_of(operations_,
                             [](const auto& part) { return part->names_old_messages(); });
}

Waits GroupRankSchedule::waits(uint32_t connection, uint64_t k) const {
  const Part& p = part(connection, k);
  Waits out;
  for (const Wait& wait : operations_[p.operation]->waits(p.connection, k - p.first)) {
    out.add(wait.moment, place_[p.operation][wait.connection],
            first_[p.operation][wait.connection] + wait.message);
  }
  if (k != p.first) return out;
  for (const Wait& wait : p.before) out.add(wait.moment, wait.connection, wait.message);
  return out;
}

/// A part of the group, of one of its operation.
ValuePart GroupRankSchedule::in_group(const Part& p, ValuePart part) const {
  for (uint32_t i = 0; i < part.size(); ++i) {
    ValuePart::Source& source = part[i];
    source.message += first_[p.operation][source.connection];
    source.connection = place_[p.operation][source.connection];
  }
  if (!results_.empty()) part.to += results_[p.operation];
  return part;
}

uint32_t GroupRankSchedule::value_parts(uint32_t connection, uint64_t k) const {
  const Part& p = part(connection, k);
  return operations_[p.operation]->value_parts(p.connection, k - p.first);
}

ValuePart GroupRankSchedule::value_part(uint32_t connection, uint64_t k, uint32_t i) const {
  const Part& p = part(connection, k);
  return in_group(p, operations_[p.operation]->value_part(p.connection, k - p.first, i));
}

uint32_t GroupRankSchedule::result_parts(uint32_t connection, uint64_t k) const {
  const Part& p = part(connection, k);
  return operations_[p.operation]->result_parts(p.connection, k - p.first);
}

ValuePart GroupRankSchedule::result_part(uint32_t connection, uint64_t k, uint32_t i) const {
  const Part& p = part(connection, k);
  return in_group(p, operations_[p.operation]->result_part(p.connection, k - p.first, i));
}

Result<std::vector<std::shared_ptr<const RankSchedule>>> kernel_schedules(
    const Communicator& communicator, std::span<const Operation> operations) {
  for (const Operation& operation : operations) {
    TRY(check_operation(communicator, operation));
    if (operations.size() > 1 && is_p2p(operation.collective)) {
      return fail("group: " + std::string(name_of(kCollectiveNames, operation.collective)) +
                  ": only collectives share channels in a group");
    }
  }
  if (is_p2p(operations.front().collective)) {
    return rank_schedules(communicator, operations.front(), {});
  }
  const auto cuts = TRY(cut_group(communicator, operations));
  if (operations.size() == 1) {
    return rank_schedules(communicator, operations.front(), cuts.front());
  }
  std::vector<std::shared_ptr<const RankSchedule>> all;
  for (uint32_t rank = 0; rank < communicator.ranks(); ++rank) {
    std::vector<std::unique_ptr<RankSchedule>> parts;
    for (size_t i = 0; i < operations.size(); ++i) {
      parts.push_back(rank_schedule(communicator, operations[i], cuts[i], rank));
    }
    all.push_back(std::make_shared<const GroupRankSchedule>(std::move(parts)));
  }
  return all;
}

}  // namespace understudy
