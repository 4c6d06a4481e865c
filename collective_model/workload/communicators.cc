#include "collective_model/workload/communicators.h"

#include <algorithm>
#include <utility>

#include "dataplane/base/assert.h"

namespace understudy {

struct WorkloadCommunicators::GroupListener final : WorkloadListener {
  GroupListener(WorkloadCommunicators& all, uint32_t number) : owner(all), group(number) {}
  void may_enter(uint32_t operation, uint32_t rank, Time at) override {
    owner.enter(group, operation, rank, at);
  }
  WorkloadCommunicators& owner;
  uint32_t group;
};

namespace {

uint32_t communicators_of(const Workload& workload, const CommunicatorFamily& family) {
  const uint32_t ranks = workload.ranks(family.groups.front());
  switch (family.layout) {
    case CommunicatorFamily::Layout::kPairs:
      return family.width * ranks;
    case CommunicatorFamily::Layout::kParts:
      ASSERT_INVARIANT(family.groups.size() == 1);
      ASSERT_INVARIANT(ranks % (family.stride * family.members) == 0);
      return family.width * (ranks / family.members);
    case CommunicatorFamily::Layout::kAcross:
      break;
  }
  return family.width;
}

}  // namespace

size_t CommunicatorFamily::number_of(uint32_t group, uint32_t operation) const {
  size_t role = 0;
  while (groups[role] != group) ++role;
  const std::vector<uint32_t>& own = operations[role];
  return static_cast<size_t>(std::ranges::lower_bound(own, operation) - own.begin());
}

WorkloadCommunicators::WorkloadCommunicators(const Workload& workload,
                                             std::vector<CommunicatorFamily> families,
                                             std::vector<CommunicatorCarrier*> carriers)
    : workload_(workload),
      families_(std::move(families)),
      carriers_(std::move(carriers)),
      executor_(workload) {
  ASSERT_INVARIANT(carriers_.size() == families_.size());
  for (uint32_t group = 0; group < workload.groups(); ++group) {
    places_.emplace_back(workload.operations(group).size());
    parts_.emplace_back(places_.back().size() * workload.ranks(group));
  }
  size_t known = 0;
  for (uint32_t f = 0; f < families_.size(); ++f) {
    const CommunicatorFamily& family = families_[f];
    ASSERT_INVARIANT(family.groups.size() == family.operations.size() && family.width > 0);
    const uint32_t end = family.first + communicators_of(workload, family);
    if (family_of_.size() < end) family_of_.resize(end, ~uint32_t{0});
    std::fill(family_of_.begin() + family.first, family_of_.begin() + end, f);
    for (uint32_t role = 0; role < family.groups.size(); ++role) {
      const uint32_t group = family.groups[role];
      for (uint32_t number = 0; number < family.operations[role].size(); ++number) {
        const uint32_t operation = family.operations[role][number];
        places_[group][operation] = {f, role, number};
        const uint32_t ranks = workload.ranks(group);
        for (uint32_t rank = 0; rank < ranks; ++rank) {
          parts_[group][size_t{operation} * ranks + rank].left = family.width;
        }
        known += ranks;
      }
    }
  }
  for (const std::vector<Part>& parts : parts_) left_ += parts.size();
  all_ = left_;
  ASSERT_INVARIANT(known == left_);
}

WorkloadCommunicators::~WorkloadCommunicators() = default;

void WorkloadCommunicators::begin() {
  for (uint32_t group = 0; group < workload_.groups(); ++group) {
    listeners_.push_back(std::make_unique<GroupListener>(*this, group));
    for (uint32_t rank = 0; rank < workload_.ranks(group); ++rank) {
      executor_.listen(group, rank, *listeners_.back());
    }
  }
  for (uint32_t group = 0; group < workload_.groups(); ++group) {
    for (uint32_t rank = 0; rank < workload_.ranks(group); ++rank) {
      executor_.begin(group, rank, Time::zero());
    }
  }
}

void WorkloadCommunicators::enter(uint32_t group, uint32_t operation, uint32_t rank, Time at) {
  const Place& place = places_[group][operation];
  const CommunicatorFamily& family = families_[place.family];
  uint32_t member = place.role, first = family.first;
  switch (family.layout) {
    case CommunicatorFamily::Layout::kPairs:
      first += rank * family.width;
      break;
    case CommunicatorFamily::Layout::kParts:
      member = family.member_of(rank);
      first += family.part_of(rank) * family.width;
      break;
    case CommunicatorFamily::Layout::kAcross:
      member = rank;
      for (uint32_t role = 0; role < place.role; ++role) {
        member += workload_.ranks(family.groups[role]);
      }
      break;
  }
  for (uint32_t i = 0; i < family.width; ++i) {
    carriers_[place.family]->enter(first + i, place.number, member, at);
  }
}

void WorkloadCommunicators::done(uint32_t communicator, uint32_t operation, uint32_t member,
                                 Time at) {
  const CommunicatorFamily& family = families_[family_of_[communicator]];
  uint32_t role = member, rank = (communicator - family.first) / family.width;
  if (family.layout == CommunicatorFamily::Layout::kAcross) {
    role = 0;
    rank = member;
    while (rank >= workload_.ranks(family.groups[role])) {
      rank -= workload_.ranks(family.groups[role++]);
    }
  } else if (family.layout == CommunicatorFamily::Layout::kParts) {
    role = 0;
    rank = family.rank_of(rank, member);
  }
  const uint32_t group = family.groups[role];
  const uint32_t own = family.operations[role][operation];
  Part& part = parts_[group][size_t{own} * workload_.ranks(group) + rank];
  ASSERT_INVARIANT(part.left > 0);
  part.end = std::max(part.end, at);
  if (--part.left > 0) return;
  --left_;
  executor_.done(group, own, rank, part.end);
}

}  // namespace understudy
