#include "ctrl/traces/replay_timeline.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "collective_model/traces/trace_matching.h"

namespace understudy {
namespace {

using Kind = TraceNodeKind;
constexpr uint32_t kNoTrack = ~uint32_t{0};

class Drawer {
 public:
  Drawer(const TraceJob& job, const std::vector<RankReplay>& ranks, const ReplaySettings& settings)
      : job_(job), ranks_(ranks), settings_(settings) {}

  ReplayTimeline run() {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      begin_rank(rank);
      place_nodes(rank);
      add_waits(rank);
    }
    add_messages();
    return std::move(out_);
  }

 private:
  struct Place {
    uint32_t track = kNoTrack, slice = 0;
  };

  void begin_rank(uint32_t rank) {
    group_ = "rank " + std::to_string(rank);
    places_.emplace_back(job_.ranks[rank]->nodes().size());
    tracks_.clear();
  }

  uint32_t track(const std::string& name) {
    const auto [it, fresh] = tracks_.try_emplace(name, out_.tracks.size());
    if (fresh) out_.tracks.push_back({group_, name, {}});
    return it->second;
  }

  /// Receives go on beside each other: each has the first track that is free.
  uint32_t receive_track(Time from) {
    for (uint32_t lane = 1;; ++lane) {
      const uint32_t number = track("receives " + std::to_string(lane));
      const auto& slices = out_.tracks[number].slices;
      if (slices.empty() || slices.back().from + slices.back().length <= from) return number;
    }
  }

  void place_nodes(uint32_t rank) {
    const std::vector<TraceNode>& nodes = job_.ranks[rank]->nodes();
    const std::vector<TraceNodeTimes>& times = ranks_[rank].nodes;
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      if (times[i].end > times[i].begin) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return times[a].begin < times[b].begin; });
    for (const uint32_t i : order) {
      const TraceNode& node = nodes[i];
      const uint32_t number = node.on_cpu                   ? track("CPU")
                              : node.kind == Kind::kCompute ? track("computing")
                              : node.kind == Kind::kReceive ? receive_track(times[i].begin)
                                                            : track("communication");
      TimelineSlice slice{times[i].begin,
                          times[i].end - times[i].begin,
                          node.name.empty() ? name_of(node.kind) : node.name,
                          {{"id", node.id + rank * job_.id_step}}};
      if (node.bytes) slice.numbers.emplace_back("bytes", *node.bytes);
      std::vector<TimelineSlice>& slices = out_.tracks[number].slices;
      places_[rank][i] = {number, static_cast<uint32_t>(slices.size())};
      slices.push_back(std::move(slice));
    }
  }

  void add_arrow(const Place& from, const Place& to) {
    if (from.track == kNoTrack || to.track == kNoTrack) return;
    out_.arrows.push_back({from.track, from.slice, to.track, to.slice});
  }

  void add_waits(uint32_t rank) {
    const TraceGraph& graph = *job_.ranks[rank];
    const auto add = [&](const TraceEdges& edges) {
      for (uint32_t node = 0; node < graph.nodes().size(); ++node) {
        for (uint32_t e = edges.first[node]; e < edges.first[node + 1]; ++e) {
          add_arrow(places_[rank][edges.parents[e]], places_[rank][node]);
        }
      }
    };
    add(graph.data());
    if (settings_.rules == TraceRules::kFeeder3) add(graph.control());
  }

  /// Equal messages meet in the order in which they arrive, and in which receives began.
  void add_messages() {
    if (settings_.system.replay) return;
    using Ends = std::vector<std::tuple<Time, uint32_t, uint32_t>>;
    std::map<TraceMessageKey, std::pair<Ends, Ends>> messages;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::vector<TraceNode>& nodes = job_.ranks[rank]->nodes();
      for (uint32_t i = 0; i < nodes.size(); ++i) {
        const TraceNode& node = nodes[i];
        if (node.on_cpu || (node.kind != Kind::kSend && node.kind != Kind::kReceive)) continue;
        auto& both = messages[message_key(rank, node)];
        const TraceNodeTimes& times = ranks_[rank].nodes[i];
        if (node.kind == Kind::kSend)
          both.first.emplace_back(times.end, rank, i);
        else
          both.second.emplace_back(times.begin, rank, i);
      }
    }
    for (auto& [key, both] : messages) {
      auto& [sent, received] = both;
      std::sort(sent.begin(), sent.end());
      std::sort(received.begin(), received.end());
      for (size_t i = 0; i < std::min(sent.size(), received.size()); ++i) {
        add_arrow(places_[std::get<1>(sent[i])][std::get<2>(sent[i])],
                  places_[std::get<1>(received[i])][std::get<2>(received[i])]);
      }
    }
  }

  const TraceJob& job_;
  const std::vector<RankReplay>& ranks_;
  const ReplaySettings& settings_;
  ReplayTimeline out_;
  std::string group_;
  std::map<std::string, uint32_t> tracks_;  ///< of the rank at hand
  std::vector<std::vector<Place>> places_;  ///< by rank and node
};

}  // namespace

ReplayTimeline replay_timeline(const TraceJob& job, const std::vector<RankReplay>& ranks,
                               const ReplaySettings& settings) {
  return Drawer(job, ranks, settings).run();
}

}  // namespace understudy
