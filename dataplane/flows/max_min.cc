#include "dataplane/flows/max_min.h"

#include <algorithm>
#include <functional>

namespace understudy {

MaxMin::MaxMin(size_t links) : links_(links) {}

uint32_t MaxMin::add(std::span<const LinkId> path) {
  senders_.emplace_back();
  const auto number = static_cast<uint32_t>(senders_.size() - 1);
  move(number, path);
  return number;
}

void MaxMin::move(uint32_t number, std::span<const LinkId> path) {
  Sender& sender = senders_[number];
  sender.hops = static_cast<uint32_t>(path.size());
  if (sender.hops > sender.room) {
    sender.room = sender.hops;
    sender.first = static_cast<uint32_t>(hops_.size());
    hops_.resize(hops_.size() + path.size());
    places_.resize(hops_.size());
  }
  std::ranges::copy(path, hops_.begin() + sender.first);
}

void MaxMin::touch(LinkId link) {
  if (links_[link].touched) return;
  links_[link].touched = true;
  touched_.push_back(link);
}

void MaxMin::note(uint32_t sender) {
  if (senders_[sender].noted) return;
  senders_[sender].noted = true;
  changed_.push_back(sender);
}

void MaxMin::set_capacity(LinkId link, Share capacity) {
  links_[link].capacity = capacity;
  touch(link);
}

void MaxMin::start(uint32_t sender) {
  senders_[sender].starting = true;
  starting_.push_back(sender);
}

void MaxMin::stop(uint32_t sender) {
  Sender& s = senders_[sender];
  s.starting = false;
  if (s.active) leave(sender);
}

void MaxMin::enter(uint32_t sender) {
  Sender& s = senders_[sender];
  for (uint32_t i = s.first; i < s.first + s.hops; ++i) {
    Link& link = links_[hops_[i]];
    places_[i] = static_cast<uint32_t>(link.senders.size());
    link.senders.emplace_back(sender, i);
  }
  s.active = true;
}

void MaxMin::leave(uint32_t sender) {
  Sender& s = senders_[sender];
  --links_[s.bottleneck].bound;
  for (uint32_t i = s.first; i < s.first + s.hops; ++i) {
    Link& link = links_[hops_[i]];
    const auto last = link.senders.back();
    link.senders[places_[i]] = last;
    places_[last.second] = places_[i];
    link.senders.pop_back();
    link.used -= s.rate;
    // Others can only gain from it if this link is what holds them back.
    if (link.bound != 0) touch(hops_[i]);
  }
  s.rate = 0;
  s.bottleneck = kNoLink;
  s.active = false;
}

/// Gives a new sender what its links have left, if nobody need yield for it: a short cut.
bool MaxMin::take_spare(uint32_t sender) {
  Sender& s = senders_[sender];
  Share spare = UINT64_MAX;
  LinkId tightest = kNoLink;
  for (const LinkId hop : path(sender)) {
    const Link& link = links_[hop];
    const Share left = link.capacity > link.used ? link.capacity - link.used : 0;
    if (left >= spare) continue;
    spare = left;
    tightest = hop;
  }
  Link& link = links_[tightest];
  if (link.bound != 0) return false;
  for (const auto& [other, hop] : link.senders) {
    if (senders_[other].rate > spare) return false;
  }
  s.rate = spare;
  for (const LinkId hop : path(sender)) links_[hop].used += spare;
  s.bottleneck = tightest;
  link.level = spare;
  link.bound = 1;
  return true;
}

/// Before the first change of this update to it.
void MaxMin::prepare(Link& link) {
  if (link.round == round_) return;
  link.round = round_;
  link.open = link.bound;
  link.left = static_cast<int64_t>(link.capacity) - static_cast<int64_t>(link.used) +
              static_cast<int64_t>(link.level * link.bound);
  link.queued = link.done = false;
}

void MaxMin::push(LinkId link, Share key, bool closes) {
  links_[link].key = key;
  links_[link].queued = true;
  turns_.push_back({key, closes, link});
  std::push_heap(turns_.begin(), turns_.end(), std::greater<>());
}

/// Gives it a turn at the lowest rate at which it may concern somebody. While others get their
/// rates, its share only grows, so an old turn may be too early and never too late.
void MaxMin::queue(LinkId id) {
  Link& link = links_[id];
  link.done = false;
  if (link.open == 0 && link.left >= 0) return;
  const Share most = share(link);
  const bool rises = link.bound != 0 && most > link.level;
  const Share key = rises ? link.level : most;
  if (!link.queued || key < link.key) push(id, key, !rises);
}

/// Its rate counts no more: it gets one at the first of its links that is full.
void MaxMin::open(uint32_t sender) {
  Sender& s = senders_[sender];
  const LinkId before = s.bottleneck;
  s.round = round_;
  s.state = State::kOpen;
  s.bottleneck = kNoLink;
  for (const LinkId hop : path(sender)) {
    Link& link = links_[hop];
    prepare(link);
    if (hop == before) {
      --link.bound;  // there it counts among the open ones already
    } else {
      link.left += static_cast<int64_t>(s.rate);
      ++link.open;
    }
    if (link.listed) continue;
    link.listed = true;
    opened_.push_back(hop);
  }
}

void MaxMin::queue_opened() {
  for (const LinkId id : opened_) {
    links_[id].listed = false;
    queue(id);
  }
  opened_.clear();
}

void MaxMin::give(uint32_t sender, Share rate, LinkId bottleneck) {
  Sender& s = senders_[sender];
  s.state = State::kGiven;
  s.bottleneck = bottleneck;
  ++links_[bottleneck].bound;
  ++filled_;
  if (s.rate != rate) note(sender);
  for (const LinkId hop : path(sender)) {
    Link& link = links_[hop];
    link.left -= static_cast<int64_t>(rate);
    --link.open;
    link.used += rate - s.rate;
  }
  s.rate = rate;
}

void MaxMin::set_free(LinkId id) {
  for (const auto& [sender, hop] : links_[id].senders) {
    if (senders_[sender].bottleneck == id) open(sender);
  }
  queue_opened();
}

/// The share of those who are open if others that have more than it come to them.
MaxMin::Share MaxMin::level_with_captured(LinkId id, Share share) {
  const Link& link = links_[id];
  more_.clear();
  auto left = link.left;
  for (const auto& [sender, hop] : link.senders) {
    const Sender& s = senders_[sender];
    if (s.rate <= share || s.bottleneck == id || state(s) != State::kKept) continue;
    more_.push_back(s.rate);
    left += static_cast<int64_t>(s.rate);
  }
  while (!more_.empty()) {
    share = static_cast<Share>(std::max<int64_t>(left, 0)) / (link.open + more_.size());
    const auto kept =
        std::partition(more_.begin(), more_.end(), [share](Share rate) { return rate > share; });
    if (kept == more_.end()) break;
    for (auto rate = kept; rate != more_.end(); ++rate) left -= static_cast<int64_t>(*rate);
    more_.erase(kept, more_.end());
    if (more_.empty() && link.open != 0)
      share = static_cast<Share>(std::max<int64_t>(left, 0)) / link.open;
  }
  return share;
}

/// The link is full at this level: those who are open here get it, and who has more.
void MaxMin::close(LinkId id, Share level) {
  Link& link = links_[id];
  for (const auto& [sender, hop] : link.senders) {
    const Sender& s = senders_[sender];
    const State now = state(s);
    if (now == State::kGiven) continue;
    if (now == State::kKept) {
      if (s.bottleneck == id ? s.rate == level : s.rate <= level) continue;
      open(sender);
    }
    give(sender, level, id);
  }
  link.level = level;
  link.queued = false;
  link.done = true;
  queue_opened();
}

void MaxMin::turn(LinkId id, Share key) {
  Link& link = links_[id];
  link.queued = false;
  if (link.open == 0 && link.left >= 0) return;
  Share level = share(link);
  if (link.bound != 0 && level > link.level) {
    if (link.level != key) return queue(id);
    return set_free(id);
  }
  level = level_with_captured(id, level);
  const Turn own{level, true, id};
  if (level > key && !turns_.empty() && turns_.front() < own) return push(id, level, true);
  close(id, level);
}

void MaxMin::update() {
  for (const uint32_t sender : changed_) senders_[sender].noted = false;
  changed_.clear();
  ++round_;
  size_t waiting = 0;
  for (const uint32_t sender : starting_) {
    if (!senders_[sender].starting) continue;  // stopped, or named twice
    senders_[sender].starting = false;
    const bool spare = take_spare(sender);
    enter(sender);
    note(sender);
    if (!spare) starting_[waiting++] = sender;
  }
  starting_.resize(waiting);
  for (const uint32_t sender : starting_) open(sender);
  starting_.clear();
  queue_opened();
  for (const LinkId id : touched_) {
    Link& link = links_[id];
    link.touched = false;
    if (link.bound == 0 && link.used <= link.capacity) continue;
    prepare(link);
    queue(id);
  }
  touched_.clear();
  while (!turns_.empty()) {
    std::pop_heap(turns_.begin(), turns_.end(), std::greater<>());
    const Turn next = turns_.back();
    turns_.pop_back();
    const Link& link = links_[next.link];
    if (link.queued && !link.done && link.key == next.key) turn(next.link, next.key);
  }
}

}  // namespace understudy
