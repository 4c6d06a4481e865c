// Max-min fair rates against an independent solver in exact fractions, over random links, senders
// and histories of changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "dataplane/flows/max_min.h"

namespace understudy {
namespace {

/// Exact.
struct Fraction {
  __int128 top = 0, bottom = 1;
  Fraction reduced() const {
    __int128 a = top < 0 ? -top : top, b = bottom;
    while (b != 0) std::swap(a %= b, b);
    EXPECT_LT(bottom, __int128{1} << 60);  // products stay in range
    return a == 0 ? Fraction{0, 1} : Fraction{top / a, bottom / a};
  }
  Fraction minus(const Fraction& o) const {
    return Fraction{top * o.bottom - o.top * bottom, bottom * o.bottom}.reduced();
  }
  Fraction over(int n) const { return Fraction{top, bottom * n}.reduced(); }
  bool operator<(const Fraction& o) const { return top * o.bottom < o.top * bottom; }
  double value() const { return static_cast<double>(top) / static_cast<double>(bottom); }
};

using Paths = std::vector<std::vector<LinkId>>;

/// The textbook's way: find the link with the smallest share, give it to all its senders, take
/// them out, begin anew.
std::vector<double> solve(const std::vector<int>& capacity, const Paths& paths,
                          const std::vector<bool>& active) {
  std::vector<Fraction> left;
  for (const int c : capacity) left.push_back({c, 1});
  std::vector<double> rates(paths.size());
  std::vector<bool> done(paths.size());
  for (size_t i = 0; i < paths.size(); ++i) done[i] = !active[i];
  while (true) {
    LinkId tightest = kNoLink;
    Fraction smallest;
    for (LinkId link = 0; link < capacity.size(); ++link) {
      int senders = 0;
      for (size_t i = 0; i < paths.size(); ++i) {
        senders += !done[i] && std::count(paths[i].begin(), paths[i].end(), link) != 0 ? 1 : 0;
      }
      if (senders == 0) continue;
      const Fraction share = left[link].over(senders);
      if (tightest != kNoLink && !(share < smallest)) continue;
      tightest = link;
      smallest = share;
    }
    if (tightest == kNoLink) return rates;
    for (size_t i = 0; i < paths.size(); ++i) {
      if (done[i] || std::count(paths[i].begin(), paths[i].end(), tightest) == 0) continue;
      done[i] = true;
      rates[i] = smallest.value();
      for (const LinkId link : paths[i]) left[link] = left[link].minus(smallest);
    }
  }
}

/// Links of some Mbit/s, and senders.
class Rig {
 public:
  Rig(std::vector<int> capacity, Paths paths)
      : capacity_(std::move(capacity)),
        paths_(std::move(paths)),
        active_(paths_.size()),
        rates_(capacity_.size()) {
    for (LinkId link = 0; link < capacity_.size(); ++link) set(link, capacity_[link]);
    for (const auto& path : paths_) rates_.add(path);
  }
  void set(LinkId link, int megabits) {
    capacity_[link] = megabits;
    rates_.set_capacity(link, share(megabits));
  }
  void toggle(size_t sender) {
    active_[sender] = !active_[sender];
    if (active_[sender]) {
      rates_.start(static_cast<uint32_t>(sender));
    } else {
      rates_.stop(static_cast<uint32_t>(sender));
    }
  }
  static MaxMin::Share share(int megabits) {
    return MaxMin::share_of(Rate::bits_per_second(static_cast<uint64_t>(megabits) * 1'000'000));
  }
  double megabits(uint32_t sender) const {
    return static_cast<double>(rates_.rate(sender)) / static_cast<double>(share(1));
  }

  /// Works the changes in and compares with the solver.
  void check() {
    std::vector<MaxMin::Share> before;
    for (uint32_t i = 0; i < paths_.size(); ++i) before.push_back(rates_.rate(i));
    rates_.update();
    const std::vector<double> exact = solve(capacity_, paths_, active_);
    std::vector<MaxMin::Share> used(capacity_.size());
    for (uint32_t i = 0; i < paths_.size(); ++i) {
      // Shares are rounded to 2^-12 bit/s on every link of a chain of bottlenecks.
      EXPECT_NEAR(megabits(i), exact[i], 1e-8) << "sender " << i;
      for (const LinkId link : paths_[i]) used[link] += rates_.rate(i);
      const auto& changed = rates_.changed();
      if (rates_.rate(i) != before[i]) {
        EXPECT_TRUE(std::find(changed.begin(), changed.end(), i) != changed.end()) << i;
      }
    }
    for (LinkId link = 0; link < capacity_.size(); ++link) {
      EXPECT_EQ(used[link], rates_.used(link));
      EXPECT_LE(used[link], share(capacity_[link]));
    }
  }
  const MaxMin& rates() const { return rates_; }

 private:
  std::vector<int> capacity_;
  Paths paths_;
  std::vector<bool> active_;
  MaxMin rates_;
};

TEST(FabricMaxMin, TextbookExample) {
  // Bertsekas and Gallager, figure 6.11: three on one link, one of which meets a fourth on another.
  Rig rig({10, 10}, {{0}, {0}, {0, 1}, {1}});
  for (size_t i = 0; i < 4; ++i) rig.toggle(i);
  rig.check();
  EXPECT_NEAR(rig.megabits(0), 10.0 / 3, 1e-6);
  EXPECT_NEAR(rig.megabits(2), 10.0 / 3, 1e-6);
  EXPECT_NEAR(rig.megabits(3), 20.0 / 3, 1e-6);
}

TEST(FabricMaxMin, ALinkThatIsDownAndUpAgain) {
  Rig rig({10, 0}, {{0}, {0, 1}});
  rig.toggle(0);
  rig.toggle(1);
  rig.check();
  EXPECT_EQ(rig.rates().rate(1), 0u);
  EXPECT_EQ(rig.rates().rate(0), Rig::share(10));
  rig.set(1, 4);
  rig.check();
  EXPECT_EQ(rig.rates().rate(1), Rig::share(4));
  EXPECT_EQ(rig.rates().rate(0), Rig::share(6));
  rig.set(0, 3);
  rig.check();
  rig.set(0, 0);
  rig.check();
}

TEST(FabricMaxMin, WhoStartsAloneDisturbsNobody) {
  // A ring: every sender has links of its own. Nobody is filled anew, whoever comes and goes.
  constexpr uint32_t kSenders = 64;
  Paths paths;
  for (LinkId i = 0; i < kSenders; ++i) paths.push_back({2 * i, (2 * i + 3) % (2 * kSenders)});
  Rig rig(std::vector<int>(2 * kSenders, 100), paths);
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    rig.toggle(random() % kSenders);
    rig.check();
  }
  EXPECT_EQ(rig.rates().filled(), 0u);
}

TEST(FabricMaxMin, WhoHasLessIsNotConcerned) {
  // Sender i shares link i with sender i + 1: levels rise along the chain. What happens at its fast
  // end is worked out there.
  constexpr int kSenders = 24;
  std::vector<int> capacity;
  Paths paths;
  for (int i = 0; i < kSenders; ++i) {
    capacity.push_back(10 << i);
    paths.push_back({static_cast<LinkId>(i)});
    if (i > 0) paths.back().push_back(static_cast<LinkId>(i - 1));
  }
  Rig rig(capacity, paths);
  for (size_t i = 0; i < kSenders; ++i) rig.toggle(i);
  rig.check();
  const uint64_t before = rig.rates().filled();
  rig.toggle(20);
  rig.check();
  rig.toggle(20);
  rig.check();
  EXPECT_LT(rig.rates().filled() - before, 12u);
}

TEST(FabricMaxMin, RandomHistories) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<uint32_t>(random() % n); };
    const bool large = seed % 10 == 0;  // most senders are left as they are then
    std::vector<int> capacity(large ? 40 : 1 + below(14));
    // Few different capacities: equal shares and ties are where mistakes are.
    for (int& c : capacity) c = static_cast<int>(1 + below(seed % 3 == 0 ? 97 : 4)) * 10;
    Paths paths(large ? 50 : 1 + below(16));
    for (auto& path : paths) {
      std::vector<LinkId> all(capacity.size());
      std::iota(all.begin(), all.end(), 0u);
      std::shuffle(all.begin(), all.end(), random);
      path.assign(all.begin(),
                  all.begin() + 1 + below(std::min<size_t>(large ? 2 : 5, all.size())));
    }
    Rig rig(capacity, paths);
    for (int step = 0; step < 60; ++step) {
      for (size_t changes = 1 + below(3); changes > 0; --changes) {
        if (below(8) == 0) {
          rig.set(below(capacity.size()), static_cast<int>(below(6)) * 10);
        } else {
          rig.toggle(below(paths.size()));
        }
      }
      rig.check();
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace understudy
