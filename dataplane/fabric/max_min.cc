#include "dataplane/fabric/max_min.h"

#include <algorithm>
#include <functional>

namespace understudy {

MaxMin::MaxMin(size_t links) : links_(links) {}

uint32_t MaxMin::add(std::span<const LinkId> path) {
  Sender& sender = senders_.emplace_back();
  sender.first = static_cast<uint32_t>(hops_.size());
  sender.hops = static_cast<uint32_t>(path.size());
  hops_.insert(hops_.end(), path.begin(), path.end());
  places_.resize(hops_.size());
  return static_cast<uint32_t>(senders_.size() - 1);
}

MaxMin::Share MaxMin::largest(const Link& link) const {
  Share most = 0;
  for (const auto& [sender, hop] : link.senders) most = std::max(most, senders_[sender].rate);
  return most;
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

void MaxMin::bind(uint32_t sender, LinkId bottleneck) {
  LinkId& old = senders_[sender].bottleneck;
  if (old != kNoLink) --links_[old].bound;
  old = bottleneck;
  if (old != kNoLink) ++links_[old].bound;
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
  if (s.place != kIdle) leave(sender);
}

void MaxMin::enter(uint32_t sender) {
  Sender& s = senders_[sender];
  for (uint32_t i = s.first; i < s.first + s.hops; ++i) {
    Link& link = links_[hops_[i]];
    places_[i] = static_cast<uint32_t>(link.senders.size());
    link.senders.emplace_back(sender, i);
  }
  s.place = static_cast<uint32_t>(active_.size());
  active_.push_back(sender);
}

void MaxMin::leave(uint32_t sender) {
  Sender& s = senders_[sender];
  bind(sender, kNoLink);
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
  active_[s.place] = active_.back();
  senders_[active_.back()].place = s.place;
  active_.pop_back();
  s.place = kIdle;
}

/// Gives a new sender what its links have left, if nobody need yield for it.
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
  // A link that is down gives nothing to anyone.
  if (spare == 0 && links_[tightest].capacity != 0) return false;
  for (const auto& [other, hop] : links_[tightest].senders) {
    if (senders_[other].rate > spare + kSlack) return false;
  }
  s.rate = spare;
  for (const LinkId hop : path(sender)) links_[hop].used += spare;
  bind(sender, tightest);
  return true;
}

/// Whether some link of the sender's is full and gives nobody more; it is its bottleneck then.
bool MaxMin::rebind(uint32_t sender) {
  for (const LinkId hop : path(sender)) {
    const Link& link = links_[hop];
    if (!full(link) || link.used > link.capacity) continue;
    if (largest(link) > senders_[sender].rate + kSlack) continue;
    bind(sender, hop);
    return true;
  }
  return false;
}

void MaxMin::include(uint32_t sender) {
  Sender& s = senders_[sender];
  if (s.in_set == set_) return;
  s.in_set = set_;
  in_set_.push_back(sender);
}

/// Includes those whose bottleneck is none any more, of all that cross a touched link.
void MaxMin::check_touched() {
  for (size_t i = 0; i < touched_.size(); ++i) {
    Link& link = links_[touched_[i]];
    link.touched = false;
    if (link.used > link.capacity) {  // it has become slower
      for (const auto& [sender, hop] : link.senders) include(sender);
      continue;
    }
    if (link.bound == 0) continue;
    const bool is_full = full(link);
    const Share most = largest(link);
    for (const auto& [sender, hop] : link.senders) {
      const Sender& s = senders_[sender];
      if (s.bottleneck != touched_[i] || s.in_set == set_) continue;
      if (is_full && most <= s.rate + kSlack) continue;
      if (!rebind(sender)) include(sender);
    }
  }
  touched_.clear();
}

/// Includes those outside the set who get more, at the bottleneck of one in the set, than he does.
void MaxMin::check_set() {
  const size_t filled = in_set_.size();
  for (size_t i = 0; i < filled; ++i) {
    const Sender& s = senders_[in_set_[i]];
    for (const auto& [other, hop] : links_[s.bottleneck].senders) {
      if (senders_[other].rate > s.rate + kSlack) include(other);
    }
  }
}

void MaxMin::freeze(LinkId link, Share share) {
  for (const auto& [sender, hop] : links_[link].senders) {
    Sender& s = senders_[sender];
    if (s.in_set != set_ || s.frozen) continue;
    s.frozen = true;
    if (s.rate != share) note(sender);
    s.rate = share;
    bind(sender, link);
    for (const LinkId other : path(sender)) {
      links_[other].left -= share;
      --links_[other].open;
      links_[other].used += share;
    }
  }
}

/// Progressive filling of those in the set; all others keep what they have.
void MaxMin::fill() {
  ++fill_;
  filled_ += in_set_.size();
  fill_links_.clear();
  for (const uint32_t sender : in_set_) {
    Sender& s = senders_[sender];
    s.frozen = false;
    for (const LinkId hop : path(sender)) {
      Link& link = links_[hop];
      if (link.in_fill != fill_) {
        link.in_fill = fill_;
        link.open = 0;
        fill_links_.push_back(hop);
      }
      ++link.open;
      link.used -= s.rate;
    }
  }
  heap_.clear();
  for (const LinkId id : fill_links_) {
    Link& link = links_[id];
    link.left = link.capacity > link.used ? link.capacity - link.used : 0;
    heap_.emplace_back(link.left / link.open, id);
    touch(id);
  }
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto [share, id] = heap_.back();
    Link& link = links_[id];
    if (link.open == 0) {
      heap_.pop_back();
      continue;
    }
    // Shares only grow while others are frozen below them, so an old one is a lower bound.
    const Share now = link.left / link.open;
    if (now != share) {
      heap_.back().first = now;
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
      continue;
    }
    heap_.pop_back();
    freeze(id, share);
  }
}

void MaxMin::update() {
  for (const uint32_t sender : changed_) senders_[sender].noted = false;
  changed_.clear();
  ++set_;
  in_set_.clear();
  for (const uint32_t sender : starting_) {
    if (!senders_[sender].starting) continue;  // stopped, or named twice
    senders_[sender].starting = false;
    const bool spare = take_spare(sender);
    enter(sender);
    note(sender);
    if (!spare) include(sender);
  }
  starting_.clear();
  check_touched();
  constexpr int kPatience = 6;
  size_t filled = 0;
  for (int round = 0; in_set_.size() > filled; ++round) {
    if (round >= kPatience || in_set_.size() > active_.size() / 2) {
      for (const uint32_t sender : active_) include(sender);
    }
    filled = in_set_.size();
    fill();
    check_set();
    check_touched();
  }
}

}  // namespace understudy
