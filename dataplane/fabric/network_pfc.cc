// PFC among switches: frames between the ends of a link, and what they stop.
#include <algorithm>

#include "dataplane/fabric/network.h"

namespace understudy {
namespace {

constexpr uint8_t kPauseBit = 0x80;

}  // namespace

void Network::send_pfc(LinkId ingress, unsigned cls, bool pause, Time now) {
  const LinkId out = reverse(ingress);
  links_[out].pfc.push_back(static_cast<uint8_t>(cls | (pause ? kPauseBit : 0)));
  serve_or_wait(out, now);
}

void Network::transmit_pfc(LinkId link, Time now) {
  Link& l = links_[link];
  const uint8_t frame = l.pfc.front();
  l.pfc.erase(l.pfc.begin());
  l.send(now, now, time_on(link, settings_.pfc_frame_bytes));
  l.last_bytes = 0;
  const bool pause = (frame & kPauseBit) != 0;
  if (l.tells) {
    calendar_.push(l.exit().head, pause ? kPauseLeaves : kResumeLeaves,
                   link << kClassShift | (frame & 7));
  }
  calendar_.push(l.exit().tail, pause ? kPause : kResume,
                 reverse(link) << kClassShift | (frame & 7));
  await_free(link);
}

/// A PFC frame has come to the sender of `link`.
void Network::paused(LinkId link, unsigned cls, bool pause, Time now) {
  Link& l = links_[link];
  const auto bit = static_cast<uint8_t>(1u << cls);
  Queue& q = queues_[link * classes_ + cls];
  if (!watched_.empty()) {
    Watched& w = watched_[link * classes_ + cls];
    if (w.tripped && w.told && !pause) {
      w.lifted = now;
      calendar_.push(now + settings_.watchdog->restore, kRestore, link << kClassShift | cls);
    }
    w.told = pause;
  }
  if (pause) {
    ++l.counters.pauses;
    l.counters.first_pause = std::min(l.counters.first_pause, now);
    if (((l.paused | l.ignoring) & bit) != 0) return;
    l.paused |= bit;
    q.paused_at = now;
    ++paused_now_;
    if (!watched_.empty() && (l.waiting & bit) != 0) arm_poll(now);
    return;
  }
  ++l.counters.resumes;
  let_go_on(link, cls, now);
}

void Network::let_go_on(LinkId link, unsigned cls, Time now) {
  Link& l = links_[link];
  const auto bit = static_cast<uint8_t>(1u << cls);
  if ((l.paused & bit) == 0) return;
  l.paused &= static_cast<uint8_t>(~bit);
  l.counters.paused += now - queues_[link * classes_ + cls].paused_at;
  --paused_now_;
  serve_or_wait(link, now);
}

void Network::pause_from_outside(LinkId link, unsigned cls, bool pause, bool frame, Time now) {
  Link& l = links_[link];
  const Time at = std::max(now + l.latency(), frame ? l.exit().tail : l.heard);
  l.heard = std::max(l.heard, at);
  if (at <= now) return paused(reverse(link), cls, pause, now);
  calendar_.push(at, pause ? kPause : kResume, reverse(link) << kClassShift | cls);
}

}  // namespace understudy
