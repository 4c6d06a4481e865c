// PFC storms: NICs that send PAUSE without end, and the watchdog of the switches that hear them.
#include <algorithm>

#include "dataplane/fabric/network.h"

namespace understudy {
namespace {

constexpr uint64_t kQuantumBytes = 64;  // 512 bits

}  // namespace

/// PAUSEs come to the beginning of `link`: the first one now, the next one whenever its quanta have
/// run out, so that no pause lapses; in the end one with zero quanta. They take no time of any
/// wire.
void Network::storm(LinkId link, const PfcStorm& given, Time now) {
  storm_counters_.resize(links_.size());
  if (given.on) {
    uint8_t classes = 0;
    for (unsigned c = 0; c < classes_; ++c) {
      const ClassSettings& settings = settings_.classes[c];
      if (!settings.pfc || (settings.priorities & given.priorities) == 0) continue;
      classes |= static_cast<uint8_t>(1u << c);
      paused(link, c, true, now);
    }
    const Duration refresh =
        std::max(Duration::ps(1), links_[link].own_rate.time_for(given.quanta * kQuantumBytes));
    storms_.push_back({link, classes, now, given.end, refresh});
    return;
  }
  const auto ends = [&](const Storm& s) { return s.link == link && s.end <= now; };
  const auto over = std::find_if(storms_.begin(), storms_.end(), ends);
  if (over == storms_.end()) return;
  const Storm storm = *over;
  storms_.erase(over);
  uint8_t others = 0;  // that still rage
  for (const Storm& s : storms_) others |= s.link == link ? s.classes : uint8_t{0};
  const uint64_t frames = std::max<uint64_t>(storm.frames(now), 1);
  storm_counters_[link].pauses += frames;
  for (unsigned c = 0; c < classes_; ++c) {
    if ((storm.classes >> c & 1) == 0) continue;
    links_[link].counters.pauses += frames - 1;
    if ((others >> c & 1) == 0) paused(link, c, false, now);
  }
}

std::vector<StormCounters> Network::storms_at(Time now) const {
  std::vector<StormCounters> all = storm_counters_;
  for (const Storm& storm : storms_) {
    all[storm.link].pauses += std::max<uint64_t>(storm.frames(now), 1);
  }
  return all;
}

/// For ever, and no watchdog sends its packets all the same.
bool Network::is_stormed(LinkId link) const {
  return std::ranges::any_of(storms_, [&](const Storm& storm) {
    return storm.link == link && storm.end.is_never() &&
           (storm.classes & ~links_[link].ignoring) != 0;
  });
}

/// Only while some queue is paused and has packets: a look that finds none plans no other one.
void Network::arm_poll(Time now) {
  if (!polls_at_.is_never()) return;
  const Duration every = settings_.watchdog->poll;
  polls_at_ = Time::zero() + every * ((now - Time::zero()).ps() / every.ps() + 1);
  calendar_.push(polls_at_, kPoll, 0);
}

void Network::poll(Time now) {
  polls_at_ = Time::never();
  bool again = false;
  for (LinkId link = 0; link < links_.size(); ++link) {
    for (unsigned c = 0; c < classes_; ++c) {
      const Link& l = links_[link];
      Watched& w = watched_[link * classes_ + c];
      if (((l.paused & l.waiting) >> c & 1) == 0 || l.from_nic || w.tripped) {
        w.polls = 0;
        continue;
      }
      const bool all_the_time =
          queues_[link * classes_ + c].paused_at + settings_.watchdog->poll <= now;
      w.polls = all_the_time ? w.polls + 1 : 0;
      if (w.polls >= settings_.watchdog->polls) {
        trip(link, c, now);
      } else {
        again = true;
      }
    }
  }
  if (again) arm_poll(now);
}

/// The queue is stormed.
void Network::trip(LinkId link, unsigned cls, Time now) {
  Link& l = links_[link];
  watched_[link * classes_ + cls].tripped = true;
  storm_counters_.resize(links_.size());
  StormCounters& counters = storm_counters_[link];
  if (counters.found < counters.at.size()) counters.at[counters.found] = now;
  ++counters.found;
  const auto bit = static_cast<uint8_t>(1u << cls);
  if (settings_.watchdog->forward) {
    l.ignoring |= bit;
    return let_go_on(link, cls, now);
  }
  l.dropping |= bit;
  drop_class(link, cls, PacketLoss::kWatchdog, now);
}

/// It may be over, if no PAUSE has come since.
void Network::restore(LinkId link, unsigned cls, Time now) {
  Watched& w = watched_[link * classes_ + cls];
  if (!w.tripped || w.told || w.lifted + settings_.watchdog->restore > now) return;
  w = {};
  const auto others = static_cast<uint8_t>(~(1u << cls));
  links_[link].dropping &= others;
  links_[link].ignoring &= others;
}

}  // namespace understudy
