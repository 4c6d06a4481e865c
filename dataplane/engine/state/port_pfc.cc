#include "dataplane/engine/state/port_pfc.h"

#include <algorithm>

namespace understudy {
namespace {

/// Of the modelled switch's port.
constexpr MacAddress kSwitchMac{{0x02, 0x75, 0xff, 0x00, 0x00, 0x02}};

}  // namespace

PortPfc::PortPfc(const PortPfcSettings& settings, const std::vector<ClassSettings>& classes)
    : settings_(settings), longest_(pfc_time(kMostPfcQuanta, settings.rate)) {
  for (size_t c = 0; c < classes.size() && c < kMostClasses; ++c) {
    if (classes[c].pfc) members_[c] = classes[c].priorities;
  }
}

void PortPfc::tell(unsigned cls, bool pause, Time due) {
  Said& said = said_[cls];
  const bool was = said.pausing != 0;
  said.pausing = pause ? said.pausing + 1 : said.pausing - std::min(said.pausing, 1u);
  if ((said.pausing != 0) == was) return;
  if (said.waiting < Said::kMostWaiting) {
    said.due[said.waiting++] = due;
  } else {
    --said.waiting;
  }
}

Time PortPfc::due(const Said& said) const {
  if (said.waiting != 0) return said.due[0];
  return said.paused ? said.since + longest_ / 2 : Time::never();
}

Time PortPfc::next_frame() const {
  Time next = Time::never();
  if (!on()) return next;
  for (const Said& said : said_) next = std::min(next, due(said));
  return next;
}

PfcFrame PortPfc::take_frame(Time now) {
  PfcFrame frame;
  frame.source = kSwitchMac;
  for (unsigned c = 0; c < kMostClasses; ++c) {
    Said& said = said_[c];
    if (due(said) > now) continue;
    counters_.late = std::max(counters_.late, now - due(said));
    if (said.paused) counters_.told += now - said.since;
    if (said.waiting != 0) {
      said.paused = !said.paused;
      std::copy(said.due.begin() + 1, said.due.begin() + said.waiting, said.due.begin());
      --said.waiting;
    }
    said.since = now;
    frame.priorities |= members_[c];
    for (unsigned p = 0; p < kPfcPriorities; ++p) {
      if ((members_[c] >> p & 1) != 0) frame.quanta[p] = said.paused ? kMostPfcQuanta : uint16_t{0};
    }
  }
  ++counters_.sent;
  return frame;
}

uint8_t PortPfc::hear(const PfcFrame& frame, Time now) {
  uint8_t classes = 0;
  for (unsigned c = 0; c < kMostClasses; ++c) {
    if ((frame.priorities & members_[c]) != 0) classes |= static_cast<uint8_t>(1u << c);
  }
  for (unsigned p = 0; p < kPfcPriorities; ++p) {
    if ((frame.priorities >> p & 1) == 0) continue;
    until_[p] = now + pfc_time(frame.quanta[p], settings_.rate);
  }
  return classes;
}

Time PortPfc::pause_ends(unsigned cls) const {
  Time ends;
  for (unsigned p = 0; p < kPfcPriorities; ++p) {
    if ((members_[cls] >> p & 1) != 0) ends = std::max(ends, until_[p]);
  }
  return ends;
}

bool PortPfc::look(unsigned cls, Time now) {
  const bool paused = pause_ends(cls) > now;
  if (paused == is_paused(cls)) return false;
  paused_ ^= static_cast<uint8_t>(1u << cls);
  if (paused) {
    since_[cls] = now;
  } else {
    counters_.heard += now - since_[cls];
  }
  return true;
}

PortPfcCounters PortPfc::counters_at(Time now) const {
  PortPfcCounters counters = counters_;
  for (unsigned c = 0; c < kMostClasses; ++c) {
    if (said_[c].paused) counters.told += now - said_[c].since;
    if (is_paused(c)) counters.heard += now - since_[c];
  }
  return counters;
}

}  // namespace understudy
