// OnlineEmulatedRanks: what an operation waits for that does not go on.
#include <algorithm>

#include "dataplane/collective/online_emulated_ranks.h"

namespace understudy {

/// Of the oldest operation that is not finished. A guess may be another operation, which waits for
/// something else, and once every credit is answered at once nothing of ours is waited for.
void OnlineEmulatedRanks::look() {
  progress_.standing.begin(static_cast<uint32_t>(finished_));
  if (finished_ < known_ && !given_up_) {
    const OnlineOperation& op = *at(finished_);
    for (uint32_t l = 0; l < links_.size() && op.began && op.over; ++l) {
      if (const auto wait = wait_of(op, l)) progress_.standing.add(*wait);
    }
  }
  progress_.has_standing.store(true, std::memory_order_release);
}

/// What is missing of the operation, if something is.
std::optional<LinkWait> OnlineEmulatedRanks::wait_of(const OnlineOperation& op,
                                                     uint32_t link) const {
  using enum LinkWait::What;
  const Link& l = links_[link];
  const uint64_t messages = op.shape->uses[link].messages, first = op.base[link];
  if (messages == 0 || job_.links[link].among_real()) return std::nullopt;
  const auto of = [&](uint64_t message) { return std::max(message, first) - first; };
  if (hears(link)) {
    const bool granted = l.received < connections_.receiver(link).granted();
    if (of(l.received) >= messages || !granted) return std::nullopt;
    return LinkWait{kData, link, of(l.received), messages};
  }
  if (of(l.sent) >= messages) {
    if (of(l.acknowledged) >= messages) return std::nullopt;
    return LinkWait{kAcknowledgement, link, of(l.acknowledged), messages};
  }
  const bool may = l.sent < l.due && connections_.joined(link);
  if (!may || connections_.has_credit(link, l.sent)) return std::nullopt;
  return LinkWait{kCredit, link, of(l.sent), messages};
}

}  // namespace understudy
