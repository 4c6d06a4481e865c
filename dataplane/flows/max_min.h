// Max-min fair rates of senders over directed links: nobody can have more without taking from one
// that has no more than he has himself (Bertsekas and Gallager, Data Networks, 6.5.2). What flows
// get as rates, without packets.
//
// Rates are integers in units of 2^-12 bit/s, shares are rounded down, so the sum on a link never
// exceeds its capacity. All whose bottleneck a link is have one rate, its level; nobody gets more
// there.
//
// A change is worked in where it matters only, from low rates to high ones: who has less than the
// level at which something changes is not concerned. A link whose level can rise sets those free
// that it holds back when their rate comes; a link that is full at some level holds all of them and
// all who would have more.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "dataplane/base/units.h"
#include "dataplane/fabric/graph.h"

namespace understudy {

class MaxMin {
 public:
  using Share = uint64_t;  ///< in units of 2^-12 bit/s
  static constexpr unsigned kFractionBits = 12;
  static constexpr Share share_of(Rate rate) { return rate.bps() << kFractionBits; }

  /// A number of links without capacity.
  explicit MaxMin(size_t links);

  /// A sender over these links (at least one), which sends nothing yet. Gives its number: 0, 1 ...
  uint32_t add(std::span<const LinkId> path);
  /// One that sends nothing goes over these links from now on.
  void move(uint32_t sender, std::span<const LinkId> path);

  // What changes; rates are those of before until update().
  void set_capacity(LinkId link, Share capacity);  ///< below 2^62
  void start(uint32_t sender);
  void stop(uint32_t sender);

  /// Works all changes in. All whose rate is another now stand in changed(), in an order that
  /// depends on the history only; those that stopped do not.
  void update();
  std::span<const uint32_t> changed() const { return changed_; }

  /// Zero for those that send nothing.
  Share rate(uint32_t sender) const { return senders_[sender].rate; }
  Share used(LinkId link) const { return links_[link].used; }
  /// How many send over it.
  size_t senders(LinkId link) const { return links_[link].senders.size(); }
  std::span<const LinkId> path(uint32_t sender) const {
    return {hops_.data() + senders_[sender].first, senders_[sender].hops};
  }
  /// Rates that were worked out anew, in all: what updates cost.
  uint64_t filled() const { return filled_; }

 private:
  enum class State : uint8_t {
    kKept,   ///< has its rate of before
    kOpen,   ///< will get another one
    kGiven,  ///< has got it
  };
  struct Sender {
    Share rate = 0;
    uint32_t first = 0, hops = 0;
    uint32_t room = 0;  ///< for hops, from the first one on
    LinkId bottleneck = kNoLink;
    uint32_t round = 0;  ///< of `state`; of an earlier round: kKept
    State state = State::kKept;
    bool active = false, starting = false, noted = false;
  };
  struct Link {
    Share capacity = 0, used = 0;
    Share level = 0;     ///< rate of those whose bottleneck it is
    uint32_t bound = 0;  ///< how many these are
    // In an update that concerns it:
    uint32_t round = 0;
    uint32_t open = 0;  ///< those who are open, and those whose bottleneck it is
    int64_t left = 0;   ///< capacity that all others leave; below zero after a cut
    Share key = 0;      ///< its turn is not before this rate, while it is queued
    bool queued = false, done = false;
    bool touched = false;                                ///< waits for the next update
    bool listed = false;                                 ///< in opened_
    std::vector<std::pair<uint32_t, uint32_t>> senders;  ///< and at which hop of theirs this is
  };
  struct Turn {
    Share key;
    bool closes;  ///< those who set others free come first
    LinkId link;
    auto operator<=>(const Turn&) const = default;
  };

  State state(const Sender& s) const { return s.round == round_ ? s.state : State::kKept; }
  static Share share(const Link& link) {
    return link.open == 0 || link.left <= 0 ? 0 : static_cast<Share>(link.left) / link.open;
  }
  void touch(LinkId link);
  void note(uint32_t sender);
  void enter(uint32_t sender);
  void leave(uint32_t sender);
  bool take_spare(uint32_t sender);
  void prepare(Link& link);
  void queue(LinkId link);
  void queue_opened();
  void push(LinkId link, Share key, bool closes);
  void open(uint32_t sender);
  void give(uint32_t sender, Share rate, LinkId bottleneck);
  void turn(LinkId link, Share key);
  void set_free(LinkId link);
  Share level_with_captured(LinkId link, Share share);
  void close(LinkId link, Share level);

  std::vector<Link> links_;
  std::vector<Sender> senders_;
  std::vector<LinkId> hops_;      ///< all paths
  std::vector<uint32_t> places_;  ///< beside hops_: position in the link's list of senders
  std::vector<uint32_t> starting_, changed_;
  std::vector<LinkId> touched_;
  std::vector<LinkId> opened_;  ///< links of those who have just been opened
  std::vector<Turn> turns_;     ///< a heap
  std::vector<Share> more_;     ///< scratch of level_with_captured()
  uint32_t round_ = 0;
  uint64_t filled_ = 0;
};

}  // namespace understudy
