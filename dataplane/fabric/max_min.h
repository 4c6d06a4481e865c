// Max-min fair rates of senders over directed links: nobody can have more without taking from one
// that has no more than he has himself (Bertsekas and Gallager, Data Networks, 6.5.2). What flows
// get as rates, without packets.
//
// Rates are integers in units of 2^-12 bit/s, so their sum on a link never exceeds its capacity.
// Shares are rounded down, and what differs by no more than 1 bit/s counts as equal.
//
// A change is worked in where it matters only: rates are a solution if each sender has a link that
// is full and where nobody gets more than he does. Senders for whom this no longer holds are filled
// anew, progressively, with all others as they are, and more of them until it holds for all.
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

  /// A sender over these links, which sends nothing yet. Gives its number: 0, 1, 2 ...
  uint32_t add(std::span<const LinkId> path);

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
  std::span<const LinkId> path(uint32_t sender) const {
    return {hops_.data() + senders_[sender].first, senders_[sender].hops};
  }
  /// Senders that were filled anew, in all: what updates cost.
  uint64_t filled() const { return filled_; }

 private:
  static constexpr uint32_t kIdle = 0xffffffff;
  static constexpr Share kSlack = Share{1} << kFractionBits;

  struct Sender {
    Share rate = 0;
    uint32_t first = 0, hops = 0;
    LinkId bottleneck = kNoLink;
    uint32_t in_set = 0;     ///< == set_: to be filled anew
    uint32_t place = kIdle;  ///< in active_
    bool starting = false, noted = false, frozen = false;
  };
  struct Link {
    Share capacity = 0, used = 0;
    uint32_t bound = 0;  ///< senders whose bottleneck it is
    // While filling: what is left for those in the set, and how many of them are not frozen.
    Share left = 0;
    uint32_t open = 0;
    uint32_t in_fill = 0;  ///< == fill_: the two above are meant
    bool touched = false;
    std::vector<std::pair<uint32_t, uint32_t>> senders;  ///< and at which hop of theirs this is
  };

  bool full(const Link& link) const {
    return link.used + kSlack + link.senders.size() >= link.capacity;
  }
  Share largest(const Link& link) const;
  void touch(LinkId link);
  void note(uint32_t sender);
  void bind(uint32_t sender, LinkId bottleneck);
  void enter(uint32_t sender);
  void leave(uint32_t sender);
  bool take_spare(uint32_t sender);
  bool rebind(uint32_t sender);
  void include(uint32_t sender);
  void check_touched();
  void check_set();
  void fill();
  void freeze(LinkId link, Share share);

  std::vector<Link> links_;
  std::vector<Sender> senders_;
  std::vector<LinkId> hops_;      ///< all paths
  std::vector<uint32_t> places_;  ///< beside hops_: position in the link's list of senders
  std::vector<uint32_t> active_, starting_, changed_;
  std::vector<LinkId> touched_, fill_links_;
  std::vector<uint32_t> in_set_;  ///< senders to be filled anew
  uint32_t set_ = 0, fill_ = 0;
  uint64_t filled_ = 0;
  std::vector<std::pair<Share, LinkId>> heap_;
};

}  // namespace understudy
