#include "dataplane/collective/rank_entries.h"

#include <algorithm>
#include <utility>

namespace understudy {

RankEntries::RankEntries(const CollectiveJob& job)
    : job_(job),
      links_(job.links.size()),
      links_of_(job.real.size()),
      entered_(job.real.size()),
      clocks_(job.ranks()) {
  for (uint32_t l = 0; l < links_.size(); ++l) {
    const CollectiveConnection& link = job.links[l];
    one_node_ = one_node_ && link.real_node == job.links.front().real_node;
    if (link.among_real()) continue;
    links_of_[job.real_index[link.real]].push_back(l);
    if (link.real_sends) links_[l].heard.resize(link.slots + 1);
  }
}

void RankEntries::start(Time now) { std::ranges::fill(entered_, now); }

/// The acknowledgement took the way of a credit.
void RankEntries::acknowledged(uint32_t link, Time now) {
  const CollectiveConnection& l = job_.links[link];
  if (links_[link].outstanding > 0) --links_[link].outstanding;
  links_[link].read = now - l.latency - (l.ack_notice - l.notice);
}

void RankEntries::received(uint32_t link, Time now) {
  Link& l = links_[link];
  l.heard[l.received++ % l.heard.size()] = l.last = now;
}

/// A credit that left behind data has waited for it.
bool RankEntries::has_waited(uint32_t link, Time entry) const {
  const CollectiveConnection& of = job_.links[link];
  for (uint32_t l = 0; l < links_.size(); ++l) {
    const CollectiveConnection& beside = job_.links[l];
    if (!beside.real_sends || links_[l].received == 0 || !beside.shares_nic(of)) continue;
    if (links_[l].last - beside.latency + of.credit_time >= entry) return true;
  }
  return false;
}

/// All that the rank receives in it comes from emulated ranks. Sends and receives hold no ranks
/// together: the end of one says nothing of the others'.
bool RankEntries::is_heard(uint32_t real, const CollectiveShape& former) const {
  const std::vector<Connection>& all = former.real[job_.real_index[real]]->connections();
  for (uint32_t c = 0; c < all.size(); ++c) {
    if (all[c].messages == 0) continue;
    if (all[c].index != 0) return false;
    if (all[c].direction != Direction::kReceive) continue;
    const uint32_t link = former.links[real].at(c);
    if (link == RankLinks::kNone || job_.links[link].among_real()) return false;
  }
  return true;
}

/// A rank is done when it has used what came last, and when the buffers of its last messages are
/// free: those that a window before had are acknowledged.
RankEntries::Shown RankEntries::shown(uint32_t link, Time entry, const CollectiveShape* former,
                                      bool busy) {
  Shown out;
  out.real = job_.links[link].real;
  out.entry = entry;
  out.heard = former == nullptr || (one_node_ && is_heard(out.real, *former));
  out.sure = !busy && !has_waited(link, entry);
  out.end = out.earliest = std::exchange(entered_[job_.real_index[out.real]], entry);
  for (const uint32_t l : links_of_[job_.real_index[out.real]]) {
    const Link& of = links_[l];
    if (!job_.links[l].real_sends) {
      out.sure = out.sure && of.outstanding == 0;
      out.end = std::max(out.end, of.read + job_.step_cost);
      if (of.left == Time()) continue;
      const Time soonest = std::min(of.left + job_.links[l].latency, of.read);
      out.earliest = std::max(out.earliest, soonest + job_.step_cost);
    } else if (of.received >= of.heard.size()) {
      const Time oldest = of.heard[of.received % of.heard.size()];
      out.end = std::max(out.end, oldest + job_.links[l].latency);
      out.earliest = std::max(out.earliest, oldest + job_.links[l].latency);
    }
  }
  out.end = std::min(out.end, entry);
  out.earliest = std::min(out.earliest, out.end);
  return out;
}

void RankEntries::Shown::compare(Time entry_said) {
  const Duration least = entry - entry_said, most = least + (end - earliest);
  later = most < Duration() ? most : sure ? std::max(least, Duration()) : Duration();
}

void RankEntries::compare(Shown& shown, const EntryStep& step) {
  EntryClock& clock = clocks_[shown.real];
  shown.own = step.own();
  const Time said = clock.enter(step, shown.end);
  shown.compare(said);
  clock.shift(shown.later);
}

Time RankEntries::enter(uint32_t rank, const EntryStep& step, Time free, const Shown& shown) {
  EntryClock& clock = clocks_[rank];
  const Time alone = clock.enter(step, free);
  const Time soonest = job_.by_program ? free : std::max(free, shown.entry);
  const Time at = shown.heard ? std::max(soonest, alone + shown.later)
                              : with_it(step.own(), step.delay, free, shown);
  clock.shift(at - alone);
  return at;
}

Time RankEntries::with_it(Duration own, Duration delay, Time free, const Shown& shown) {
  const Duration more = own - shown.own;
  return std::max(free + std::max(delay, more), shown.entry + more);
}

}  // namespace understudy
