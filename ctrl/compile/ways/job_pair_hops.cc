#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ctrl/compile/ways/job_hops.h"
#include "ctrl/compile/ways/nic_ways.h"
#include "ctrl/config/merged_nics.h"

namespace understudy {
namespace {

/// Connections that send at the same time, as far as they are counted: by channel a batch of them.
class Batches {
 public:
  explicit Batches(uint32_t channels) : count_(channels) {}
  void add(uint32_t channel) {
    if (count_[channel] == kP2pBatch) return;
    ++count_[channel];
    ++all_;
  }
  bool full(uint32_t channel) const { return count_[channel] == kP2pBatch; }
  uint32_t number() const { return std::max(all_, 1u); }

 private:
  std::vector<uint32_t> count_;
  uint32_t all_ = 0;
};

class JobPairHops : public PairHops {
 public:
  JobPairHops(const Config& config, const JobConfig& job, const AllToAll& all,
              const Topology* topology)
      : nodes_(all.communicator().nodes), nic_of_(all.ranks()), gpus_(all.communicator().gpus) {
    const Communicator& communicator = all.communicator();
    std::map<JobNic, uint32_t> numbers;
    for (uint32_t rank = 0; rank < all.ranks(); ++rank) {
      const JobNic nic{job.ranks[communicator.node_of(rank)], communicator.nic_of(rank)};
      const auto [it, fresh] = numbers.try_emplace(nic, static_cast<uint32_t>(nics_.size()));
      if (fresh) {
        nics_.push_back(nic);
        limits_.push_back(nic_limits(config, job, nic));
        ranks_.emplace_back();
      }
      nic_of_[rank] = it->second;
      ranks_[it->second].push_back(rank);
    }
    count_ends(all);
    count_pairs(all);
    if (topology == nullptr) {
      for (const auto& [node, nic] : nics_) {
        const NodeConfig& own = config.nodes[node];
        links_.push_back({merged_rate(job, own, nic), own.nics[nic].link_latency});
      }
    } else {
      add_paths(config, job, topology);
    }
  }

  Hop hop(uint32_t from, uint32_t to) const override {
    const uint32_t a = nic_of_[from], b = nic_of_[to];
    const uint32_t pairs = together_[pair_class(from, to)];
    if (kinds_.empty()) {
      const Hop &first = links_[a], &last = links_[b];
      const NicWay way{first.rate, last.rate, slower(first.rate, last.rate),
                       first.latency + last.latency};
      return shared_hop(way, pairs, out_[a], in_[b], limits_[a], limits_[b]);
    }
    const NicWay& way = kinds_[kind_of_[size_t{a} * nics_.size() + b]];
    return shared_hop(way, pairs, out_[a], in_[b], limits_[a], limits_[b]);
  }

 private:
  /// How many connections of two NICs go together depends on this.
  size_t pair_class(uint32_t from, uint32_t to) const {
    if (together_.size() == 1) return 0;
    if (!regular_) return size_t{nic_of_[from]} * nics_.size() + nic_of_[to];
    const uint32_t a = from / gpus_, b = to / gpus_;
    const uint32_t distance = a <= b ? b - a : b + nodes_ - a;
    return (size_t{distance} * gpus_ + from % gpus_) * gpus_ + to % gpus_;
  }

  /// Of each NIC, all that it sends and that comes to it.
  void count_ends(const AllToAll& all) {
    for (const std::vector<uint32_t>& ranks : ranks_) {
      Batches out(all.channels()), in(all.channels());
      for (const uint32_t rank : ranks) {
        for (uint32_t channel = 0; channel < all.channels(); ++channel) {
          for (const AllToAll::Step& step : all.steps(channel)) {
            if (out.full(channel) && in.full(channel)) break;
            const auto [to, from] = all.peers(rank, step);
            if (to == rank) continue;
            if (!all.local(rank, to) && all.part(rank, to, step.part).messages != 0) {
              out.add(channel);
            }
            if (!all.local(from, rank) && all.part(from, rank, step.part).messages != 0) {
              in.add(channel);
            }
          }
        }
      }
      out_.push_back(out.number());
      in_.push_back(in.number());
    }
  }

  uint16_t count_pair(const AllToAll& all, uint32_t a, uint32_t b) const {
    Batches batches(all.channels());
    for (const uint32_t from : ranks_[a]) {
      for (const uint32_t to : ranks_[b]) {
        for (uint32_t part = 0; part < all.parts() && !all.local(from, to); ++part) {
          if (all.part(from, to, part).messages != 0) batches.add(all.channel(from, to, part));
        }
      }
    }
    return static_cast<uint16_t>(batches.number());
  }

  void count_pairs(const AllToAll& all) {
    const size_t nics = nics_.size();
    regular_ = all.even();
    if (all.even() && nics == all.ranks()) {  // parts of a pair are on channels of their own
      together_ = {count_pair(all, 0, static_cast<uint32_t>(nics) - 1)};
      return;
    }
    if (regular_) {  // rounds go by the distance of nodes
      for (uint32_t distance = 0; distance < nodes_; ++distance) {
        for (uint32_t a = 0; a < gpus_; ++a) {
          for (uint32_t b = 0; b < gpus_; ++b) {
            together_.push_back(distance == 0
                                    ? uint16_t{1}
                                    : count_pair(all, nic_of_[a], nic_of_[distance * gpus_ + b]));
          }
        }
      }
      return;
    }
    for (uint32_t a = 0; a < nics; ++a) {
      for (uint32_t b = 0; b < nics; ++b) together_.push_back(count_pair(all, a, b));
    }
  }

  void add_paths(const Config& config, const JobConfig& job, const Topology* topology) {
    NicWays ways(config, job, topology);
    std::map<NicWay, uint32_t> known;
    for (const JobNic& from : nics_) {
      for (const JobNic& to : nics_) {
        const NicWay way = from == to ? NicWay() : ways.between(from, to);
        const auto [it, fresh] = known.try_emplace(way, static_cast<uint32_t>(kinds_.size()));
        if (fresh) kinds_.push_back(way);
        kind_of_.push_back(it->second);
      }
    }
  }

  const uint32_t nodes_;
  std::vector<uint32_t> nic_of_;  ///< by rank
  const uint32_t gpus_;
  std::vector<JobNic> nics_;
  std::vector<NicLimits> limits_;             ///< by NIC
  std::vector<std::vector<uint32_t>> ranks_;  ///< by NIC
  std::vector<uint32_t> out_, in_;            ///< by NIC: connections that go together
  std::vector<uint16_t> together_;            ///< by pair_class(): the same of two NICs
  bool regular_ = false;
  std::vector<Hop> links_;  ///< by NIC, without a topology
  // With one: ways, and which of them each pair of NICs has.
  std::vector<NicWay> kinds_;
  std::vector<uint32_t> kind_of_;
};

/// Of ranks with a node each.
class JobSymmetricHops : public PairHops {
 public:
  JobSymmetricHops(const Config& config, const JobConfig& job, const SymmetricRanks& all,
                   const Topology* topology)
      : ranks_(all.ranks()), nic_(all.first().connections().front().nic) {
    std::map<uint32_t, std::set<uint32_t>> channels;  // that go together, by distance
    std::set<uint32_t> together;
    for (const Connection& c : all.first().connections()) {
      if (c.direction != Direction::kSend || c.messages == 0) continue;
      channels[c.to].insert(c.channel);
      together.insert(c.channel);
    }
    together_ = std::max<size_t>(together.size(), 1);
    NicWays ways(config, job, topology);
    for (const auto& [distance, own] : channels) {
      distances_.push_back({distance, own.size()});
      for (uint32_t from = 0; topology != nullptr && from < ranks_; ++from) {
        const uint32_t to = (from + distance) % ranks_;
        paths_.push_back(ways.between({job.ranks[from], nic_}, {job.ranks[to], nic_}));
      }
    }
    for (const NodeId node : job.ranks) {
      const NodeConfig& own = config.nodes[node];
      links_.push_back({merged_rate(job, own, nic_), own.nics[nic_].link_latency});
      limits_.push_back(nic_limits(config, job, {node, nic_}));
    }
  }

  Hop hop(uint32_t from, uint32_t to) const override {
    const uint32_t distance = from <= to ? to - from : to + ranks_ - from;
    size_t d = 0;
    while (d < distances_.size() && distances_[d].first != distance) ++d;
    if (d == distances_.size()) return {};  // nothing is sent
    NicWay way;
    if (paths_.empty()) {
      const Hop &first = links_[from], &last = links_[to];
      way = {first.rate, last.rate, slower(first.rate, last.rate), first.latency + last.latency};
    } else {
      way = paths_[d * ranks_ + from];
    }
    return shared_hop(way, distances_[d].second, together_, together_, limits_[from], limits_[to]);
  }

 private:
  const uint32_t ranks_, nic_;
  size_t together_ = 1;  ///< connections of a NIC, either way, that go together
  std::vector<std::pair<uint32_t, size_t>> distances_;  ///< and those of a pair
  std::vector<Hop> links_;                              ///< by rank
  std::vector<NicLimits> limits_;                       ///< the same
  std::vector<NicWay> paths_;                           ///< with a topology: by distance and sender
};

}  // namespace

std::shared_ptr<const PairHops> job_pair_hops(const Config& config, const JobConfig& job,
                                              const SymmetricRanks& all, const Topology* topology) {
  return std::make_shared<const JobSymmetricHops>(config, job, all, topology);
}

std::shared_ptr<const PairHops> job_pair_hops(const Config& config, const JobConfig& job,
                                              const AllToAll& all, const Topology* topology) {
  return std::make_shared<const JobPairHops>(config, job, all, topology);
}

}  // namespace understudy
