// EmulatedRanks: what an operation waits for that does not go on.
#include "dataplane/collective/emulated_ranks.h"

namespace understudy {

/// Of the oldest operation that is not finished. One that no real rank is known to have begun waits
/// for nothing.
void EmulatedRanks::look() {
  progress_.standing.begin(static_cast<uint32_t>(first_));
  if (first_ < progress_.entered.load(std::memory_order_relaxed)) {
    for (uint32_t l = 0; l < links_.size(); ++l) {
      if (const auto wait = wait_of(l)) progress_.standing.add(*wait);
    }
  }
  progress_.has_standing.store(true, std::memory_order_release);
}

/// What is missing of operation `first_`, if something is.
std::optional<LinkWait> EmulatedRanks::wait_of(uint32_t link) const {
  using enum LinkWait::What;
  const Link& l = links_[link];
  const uint64_t messages = job_.messages(first_, link);
  if (messages == 0 || job_.links[link].among_real()) return std::nullopt;
  const CollectivePlace place =
      job_.links[link].real_sends ? l.receiving.place() : l.sending.place();
  if (place.operation > first_ || place.message == messages) {
    uint64_t later = place.operation > first_ ? place.message : 0;
    for (size_t o = first_ + 1; o < place.operation; ++o) later += job_.messages(o, link);
    if (job_.links[link].real_sends || l.sent - l.acknowledged <= later) return std::nullopt;
    return LinkWait{kAcknowledgement, link, messages - (l.sent - l.acknowledged - later), messages};
  }
  const uint64_t message = place.operation < first_ ? 0 : place.message;
  if (job_.links[link].real_sends) {
    if (l.received >= connections_.receiver(link).granted()) return std::nullopt;
    return LinkWait{kData, link, message, messages};
  }
  if (l.sent >= l.due || !connections_.joined(link)) return std::nullopt;
  return LinkWait{kCredit, link, message, messages};
}

}  // namespace understudy
