// Children of a communicator: ncclCommSplit, whose ranks say where they go, and ncclCommShrink,
// whose ranks know who stays (docs/nccl 1.8; NCCL 2.27 and later, init.cc, getParentRanks).
#include <algorithm>

#include "ctrl/peers/nccl/bootstrap/rank_text.h"
#include "ctrl/peers/nccl/group.h"

namespace understudy {
namespace {

constexpr uint32_t kFirstWithShrink = 27;

}  // namespace

uint32_t split_tag(const BootstrapLayout& layout) { return layout.one_header ? 1u << 29 : ~0u - 1; }

std::vector<NcclMember> NcclGroup::members_at(const std::vector<uint32_t>& ranks) const {
  std::vector<NcclMember> members;
  members.reserve(ranks.size());
  for (const uint32_t rank : ranks) members.push_back(members_[rank]);
  return members;
}

void NcclGroup::split_came(SplitRule& split) {
  const auto children = split.children();
  if (!children) return user_.failed(children.error().text + name());
  for (const auto& ranks : *children) {
    user_.child(*this, members_at(ranks), "ncclCommSplit", split.reason());
  }
}

void NcclGroup::child_ring_came(const ChildRing& c) {
  if (user_.child_ring(*this, c.real, c.emulated, c.ring)) return;
  // The last slice of its ncclCommSplit may be on its way yet.
  if (RingGather::Progress progress;
      ring_.under_way(progress) && splits_.contains(progress.gather)) {
    early_.push_back(c);
  } else {
    shrink(c);
  }
}

/// All-gathers that were under way may have been the ncclCommSplit of what came early.
void NcclGroup::sort_early() {
  if (RingGather::Progress progress; early_.empty() || ring_.under_way(progress)) return;
  for (const ChildRing& c : std::exchange(early_, {})) child_ring_came(c);
}

/// No all-gather tells who is left. The real rank's message goes to the rank before it in the
/// child, so those between the two are out.
void NcclGroup::shrink(const ChildRing& c) {
  const auto ranks = static_cast<uint32_t>(members_.size());
  const std::string what = "rank " + std::to_string(c.real) + " begins a communicator" + name() +
                           " with rank " + std::to_string(c.emulated) + " before it";
  if (settings_.version.minor < kFirstWithShrink) {
    return user_.failed(what + ", of which no ncclCommSplit has told");
  }
  std::vector<bool> out(ranks);
  const auto configured = user_.configured_child();
  std::string reason = "as groups of the job says";
  if (configured) {
    std::fill(out.begin(), out.end(), true);
    for (const auto& group : *configured) {
      if (std::find(group.begin(), group.end(), members_[c.real].world) == group.end()) continue;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        out[rank] = std::find(group.begin(), group.end(), members_[rank].world) == group.end();
      }
    }
  } else {
    std::vector<uint32_t> between;
    for (uint32_t rank = (c.emulated + 1) % ranks; rank != c.real; rank = (rank + 1) % ranks) {
      out[rank] = true;
      between.push_back(rank);
    }
    if (between.empty() || segments().size() > 1) {
      return user_.failed(what +
                          ": ncclCommShrink tells nobody which ranks are left; say it with "
                          "groups in the [job]");
    }
    reason = "without " + ranks_text(between) +
             ", as far as the real ranks show: if others are out too, say it with groups in the "
             "[job]";
  }
  std::vector<uint32_t> left;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (!out[rank]) left.push_back(rank);
  }
  user_.child(*this, members_at(left), "ncclCommShrink", reason);
  if (user_.child_ring(*this, c.real, c.emulated, c.ring)) return;
  user_.failed(what + ": the groups of the [job] do not say that of this ncclCommShrink");
}

}  // namespace understudy
