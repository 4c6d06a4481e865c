#include "ctrl/traffic/poisson.h"

#include <algorithm>
#include <cmath>
#include <queue>

#include "dataplane/base/pattern.h"

namespace understudy {
namespace {

enum class Drawn : uint64_t { kPause, kSize, kReceiver, kKinds };

/// In (0, 1): the middle of one of 2^53 parts.
double unit(uint64_t word) { return (static_cast<double>(word >> 11) + 0.5) * 0x1p-53; }

/// One of 0 .. n-1, all as likely.
uint64_t below(uint64_t word, uint64_t n) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(word) * n) >> 64);
}

/// A sender's process.
class Sender {
 public:
  Sender(const TrafficConfig& traffic, NodeId node, Rate link, uint64_t key)
      : traffic_(traffic),
        node_(node),
        key_(splitmix64(key + node)),
        pause_(1 / poisson_rate(traffic, link)) {
    own_ = static_cast<size_t>(std::ranges::find(traffic.to, node) - traffic.to.begin());
    wait();
  }

  /// When its next flow starts: seconds after the table's first moment.
  double next() const { return next_; }

  Arrival take() {
    Arrival arrival;
    constexpr double kPsPerSecond = 1e12;
    arrival.at = traffic_.at + Duration::ps(std::llround(next_ * kPsPerSecond));
    arrival.from = node_;
    const size_t choices = traffic_.to.size() - (own_ < traffic_.to.size() ? 1 : 0);
    const uint64_t choice = below(draw(Drawn::kReceiver), choices);
    arrival.to = traffic_.to[choice + (choice >= own_ ? 1 : 0)];
    arrival.bytes = traffic_.sizes.at(unit(draw(Drawn::kSize)));
    ++number_;
    wait();
    return arrival;
  }

 private:
  uint64_t draw(Drawn what) const {
    constexpr auto kKinds = static_cast<uint64_t>(Drawn::kKinds);
    return splitmix64(key_ + number_ * kKinds + static_cast<uint64_t>(what));
  }
  void wait() { next_ -= pause_ * std::log(unit(draw(Drawn::kPause))); }

  const TrafficConfig& traffic_;
  NodeId node_;
  uint64_t key_;
  double pause_;    ///< seconds on average
  size_t own_ = 0;  ///< its place among the receivers; beyond them: it is none
  uint64_t number_ = 0;
  double next_ = 0;
};

struct Turn {
  double at;
  size_t sender;
  bool operator>(const Turn& o) const { return at != o.at ? at > o.at : sender > o.sender; }
};

}  // namespace

std::vector<Arrival> poisson_arrivals(const Config& config, const TrafficConfig& traffic,
                                      uint64_t stream) {
  const uint64_t key = splitmix64(splitmix64(config.seed) ^ stream);
  std::vector<Sender> senders;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns;
  for (const NodeId node : traffic.from) {
    senders.emplace_back(traffic, node, config.nodes[node].nics[traffic.nic].link_rate, key);
    turns.push({senders.back().next(), senders.size() - 1});
  }
  std::vector<Arrival> arrivals;
  while (traffic.until || arrivals.size() < traffic.count) {
    const Turn turn = turns.top();
    const Arrival arrival = senders[turn.sender].take();
    if (traffic.until && arrival.at >= *traffic.until) break;
    arrivals.push_back(arrival);
    turns.pop();
    turns.push({senders[turn.sender].next(), turn.sender});
  }
  return arrivals;
}

}  // namespace understudy
