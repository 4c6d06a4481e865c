#include "ctrl/predict/ring_network.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "ctrl/config/merged_nics.h"
#include "ctrl/schedule/job_schedule.h"
#include "ctrl/traffic/traffic.h"

namespace understudy {
namespace {

/// That packets of a flow are spread over, at most.
constexpr size_t kMostPaths = 64;

double bytes_per_us(Rate rate) { return static_cast<double>(rate.bps()) / 8e6; }

/// A channel's connection from one node to the next; of merged NICs one of its parts.
struct Crossing {
  uint32_t rank = 0, channel = 0;
  uint32_t node = 0, next = 0;        ///< positions among the job's nodes
  uint32_t from_nic = 0, to_nic = 0;  ///< of these nodes
  uint32_t part = 0, parts = 1, out = 1, in = 1;
};

class RingLinks {
 public:
  RingLinks(const Config& config, const JobConfig& job, uint32_t channels, const Topology* topology,
            uint64_t seed)
      : config_(config),
        job_(job),
        topology_(topology),
        communicator_(job_communicator(config, job)),
        channels_(channels),
        seed_(seed),
        full_(config.fabric.mtu + PacketLimits::kHeaders) {}

  RingNetwork count();

 private:
  void find_crossings();
  const NicConfig& nic(uint32_t node, uint32_t number) const {
    return config_.nodes[job_.ranks[node]].nics[number];
  }
  void judge_direct(RingNetwork& out);
  void judge_paths(RingNetwork& out);
  std::vector<std::vector<LinkId>> ways(Routes& routes, size_t crossing) const;
  bool is_nic(VertexId v) const {
    return topology_->graph.vertices()[v].kind != VertexKind::kSwitch;
  }
  uint64_t number(size_t crossing, uint32_t queue_pair) const;

  const Config& config_;
  const JobConfig& job_;
  const Topology* topology_;
  const Communicator communicator_;
  const uint32_t channels_;
  const uint64_t seed_;
  const uint64_t full_;                                       ///< wire bytes of a full packet
  std::vector<Crossing> crossings_;                           ///< by rank and channel
  uint32_t credits_ = 0;                                      ///< connections of credits
  std::map<std::pair<uint32_t, uint32_t>, double> out_, in_;  ///< connections by node and NIC
};

void RingLinks::find_crossings() {
  const Communicator& c = communicator_;
  for (uint32_t node = 0; node < c.nodes; ++node) {
    for (uint32_t gpu = 0; gpu < c.gpus; ++gpu) {
      for (uint32_t channel = 0; channel < channels_; ++channel) {
        if (c.gpu_at(channel, c.gpus - 1) != gpu) continue;
        Crossing crossing;
        crossing.rank = node * c.gpus + gpu;
        crossing.channel = channel;
        crossing.node = node;
        crossing.next = (node + 1) % c.nodes;
        const uint32_t from = c.nic_of(crossing.rank);
        const uint32_t to = c.nic_of(crossing.next * c.gpus + c.gpu_at(channel, 0));
        crossing.out = merged_nics(job_, config_.nodes[job_.ranks[node]], from);
        crossing.in = merged_nics(job_, config_.nodes[job_.ranks[crossing.next]], to);
        crossing.parts = std::max(crossing.out, crossing.in);
        credits_ += crossing.in;
        for (crossing.part = 0; crossing.part < crossing.parts; ++crossing.part) {
          crossing.from_nic = from + crossing.part % crossing.out;
          crossing.to_nic = to + crossing.part % crossing.in;
          crossings_.push_back(crossing);
          out_[{node, crossing.from_nic}] += 1;
          in_[{crossing.next, crossing.to_nic}] += 1;
        }
      }
    }
  }
}

/// As packets are told apart by switches.
uint64_t RingLinks::number(size_t crossing, uint32_t queue_pair) const {
  const Crossing& c = crossings_[crossing];
  const auto first = static_cast<uint32_t>(crossing) - c.part;  // of its connection
  return hash_number(credits_ + first * job_.queue_pairs + c.part + queue_pair * c.parts);
}

void RingLinks::judge_direct(RingNetwork& out) {
  double sum = 0;
  for (const Crossing& c : crossings_) {
    const NicConfig &from = nic(c.node, c.from_nic), &to = nic(c.next, c.to_nic);
    const double latency =
        (from.limits.lead + from.link_latency + to.link_latency + to.limits.tail).microseconds();
    sum += latency;
    out.farthest = std::max(out.farthest, latency);
    for (const auto& [end, load] :
         {std::pair{&from, out_[{c.node, c.from_nic}]}, std::pair{&to, in_[{c.next, c.to_nic}]}}) {
      if (end->link_rate.is_unlimited()) continue;
      const double whole = bytes_per_us(limited_rate(end->link_rate, end->limits.packets, full_)),
                   rate = whole / load * c.parts;
      out.rate = out.rate > 0 ? std::min(out.rate, rate) : rate;
      out.slowest = out.slowest > 0 ? std::min(out.slowest, whole) : whole;
    }
  }
  out.latency = sum / static_cast<double>(crossings_.size());
}

/// One for each queue pair, or, of packets that are sprayed, as many as they are spread over.
std::vector<std::vector<LinkId>> RingLinks::ways(Routes& routes, size_t crossing) const {
  const Crossing& c = crossings_[crossing];
  const VertexId a = topology_->nics[job_.ranks[c.node]][c.from_nic];
  const VertexId b = topology_->nics[job_.ranks[c.next]][c.to_nic];
  if (routes.choice() == RouteChoice::kSpray) return routes.paths(a, b, kMostPaths);
  std::vector<std::vector<LinkId>> all;
  for (uint32_t q = 0; q < job_.queue_pairs; ++q) {
    all.push_back(routes.path(a, b, flow_hash(a, b, number(crossing, q))));
  }
  return all;
}

void RingLinks::judge_paths(RingNetwork& out) {
  Routes routes = topology_->routes(seed_);
  const Graph& graph = topology_->graph;
  std::vector<double> load(graph.links().size());           // connections
  std::vector<std::vector<LinkId>> paths;                   // all ways of a connection together
  std::map<uint32_t, std::pair<double, uint32_t>> latency;  // by channel: sum and number
  for (size_t i = 0; i < crossings_.size(); ++i) {
    const auto all = ways(routes, i);
    std::vector<LinkId>& links = paths.emplace_back();
    Duration longest;
    const Crossing& c = crossings_[i];
    const Duration nics = nic(c.node, c.from_nic).limits.lead + nic(c.next, c.to_nic).limits.tail;
    for (const std::vector<LinkId>& way : all) {
      Duration sum = nics;
      for (const LinkId link : way) {
        sum += graph.link(link).latency;
        load[link] += 1.0 / static_cast<double>(all.size());
        if (std::ranges::find(links, link) == links.end()) links.push_back(link);
      }
      longest = std::max(longest, sum);
    }
    auto& [sum, count] = latency[crossings_[i].channel];
    sum += longest.microseconds();
    ++count;
    out.farthest = std::max(out.farthest, longest.microseconds());
  }
  for (const auto& [channel, ways] : latency) {
    out.latency = std::max(out.latency, ways.first / ways.second);
  }
  double ends = 0,
         all = 0;  // us per byte of the slowest connection, by NICs alone and by all links
  LinkId slowest = kNoLink;
  for (size_t i = 0; i < paths.size(); ++i) {
    for (const LinkId link : paths[i]) {
      const GraphLink& l = graph.link(link);
      const double speed = bytes_per_us(l.rate_for(full_));
      // What a connection sends over this link, of all that it sends.
      const double time = load[link] / speed / crossings_[i].parts;
      if (is_nic(l.from) || is_nic(l.to)) ends = std::max(ends, time);
      if (time > all * (1 + 1e-9)) {
        all = time;
        slowest = link;
      }
      out.slowest = out.slowest > 0 ? std::min(out.slowest, speed) : speed;
    }
  }
  if (all > 0) out.rate = 1 / all;
  if (all <= ends * (1 + 1e-9)) return;
  out.share = ends / all;
  out.collision = graph.link_name(slowest);
  out.colliding = static_cast<uint32_t>(std::ceil(load[slowest]));
}

RingNetwork RingLinks::count() {
  RingNetwork out;
  find_crossings();
  if (crossings_.empty()) return out;
  for (const auto& ends : {out_, in_}) {
    for (const auto& [nic, load] : ends) {
      out.sharing = std::max(out.sharing, static_cast<uint32_t>(load));
    }
  }
  topology_ == nullptr ? judge_direct(out) : judge_paths(out);
  return out;
}

}  // namespace

RingNetwork ring_network(const Config& config, const JobConfig& job, uint32_t channels,
                         const Topology* topology, uint64_t seed) {
  return RingLinks(config, job, channels, topology, seed).count();
}

}  // namespace understudy
