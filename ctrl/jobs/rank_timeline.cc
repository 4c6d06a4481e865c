#include "ctrl/jobs/rank_timeline.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <tuple>

#include "dataplane/nccl/message_parts.h"

namespace understudy {
namespace {

/// Tracks of one connection, over all operations.
struct Tracks {
  TimelineTrack waits;
  std::vector<TimelineTrack> wire;  ///< by part of a message
};

Tracks tracks_of(const std::string& group, const Connection& connection, uint32_t parts) {
  const std::string name =
      "channel " + std::to_string(connection.channel) + " to rank " + std::to_string(connection.to);
  Tracks tracks{{group, name + ": waits", {}}, {}};
  for (uint32_t part = 1; part <= parts; ++part) {
    tracks.wire.push_back({group, name + ": messages on their way", {}});
    if (parts == 1) continue;
    tracks.wire.back().name += ", part " + std::to_string(part) + " of " + std::to_string(parts);
  }
  return tracks;
}

/// A message, or a part of it, on its way, which is a flow.
void add_way(TimelineTrack& track, const SharedNetwork& network, uint32_t flow, uint64_t number,
             uint64_t bytes) {
  const std::string name = "message " + std::to_string(number);
  if (const FlowModel* rates = network.rates(); rates != nullptr) {
    const FlowTimes& times = rates->times()[flow];
    return append(track, times.start, times.received, name, {{"bytes", bytes}});
  }
  const FlowResult& result = network.packets()->results()[flow];
  append(track, result.start, result.received, name,
         {{"bytes", result.delivered},
          {"packets", result.packets},
          {"marked", result.marked},
          {"repeated", result.repeated}});
}

void add_job(std::vector<TimelineTrack>& tracks, const Config& config, const JobConfig& job,
             const RankJob& made, const SharedNetwork& network);

}  // namespace

const char* waited_for(WaitCause cause) {
  switch (cause) {
    case WaitCause::kEntry:
      return "entry";
    case WaitCause::kData:
      return "waits for data";
    case WaitCause::kAcknowledgement:
      return "waits for an acknowledgement";
    case WaitCause::kCredit:
      return "waits for a credit";
  }
  return "";
}

void add_timeline(std::vector<TimelineTrack>& tracks, const Config& config,
                  const SharedNetwork& network) {
  for (const SharedNetwork::EmulatedJob& emulated : network.emulated_jobs()) {
    add_job(tracks, config, *emulated.config, emulated.job, network);
  }
}

namespace {

void add_job(std::vector<TimelineTrack>& tracks, const Config& config, const JobConfig& job,
             const RankJob& made, const SharedNetwork& network) {
  const PacketLevelRanks& ranks = *made.ranks;
  for (uint32_t rank = 0; rank < made.communicator.ranks(); ++rank) {
    const NodeConfig& node = config.nodes[job.ranks[made.communicator.node_of(rank)]];
    const std::string group = job.name + ", rank " + std::to_string(rank) + " (" + node.name + ")";
    TimelineTrack operations{group, "operations", {}}, compute{group, "compute", {}};
    std::vector<Time> done;
    std::map<std::tuple<uint32_t, uint32_t, uint8_t>, Tracks> connections;
    for (size_t o = 0; o < ranks.operations(); ++o) {
      const Time entry = ranks.entry(o, rank);
      append(operations, entry, ranks.completion(o, rank),
             std::to_string(made.sizes[made.operations[o].size]) + " bytes",
             {{"operation", o}, {"warmup", made.operations[o].warmup ? 1 : 0}});
      done.push_back(ranks.completion(o, rank));
      const std::vector<Connection>& all = ranks.schedule(o, rank).connections();
      for (uint32_t c = 0; c < all.size(); ++c) {
        if (all[c].direction != Direction::kSend || !all[c].network) continue;
        const uint32_t parts = ranks.parts(o, rank, c);
        const auto [it, fresh] = connections.try_emplace({all[c].channel, all[c].to, all[c].index});
        Tracks& t = it->second;
        if (fresh) t = tracks_of(group, all[c], parts);
        Time last = entry;
        const std::vector<PacketLevelRanks::Moments>& moments = ranks.moments(o, rank, c);
        for (uint64_t k = 0; k < moments.size(); ++k) {
          const PacketLevelRanks::Moments& m = moments[k];
          append(t.waits, last, m.filled, waited_for(m.why_filled), {{"message", k}});
          append(t.waits, m.filled, m.posted, waited_for(m.why_posted), {{"message", k}});
          last = m.posted;
          const uint64_t bytes = ranks.schedule(o, rank).message(c, k).wire;
          for (uint32_t part = 0; part < parts; ++part) {
            add_way(t.wire[part], network, ranks.flow_of(o, rank, c, k, part), k,
                    message_part(bytes, parts, part).bytes);
          }
        }
      }
    }
    for (const ComputeSpan& span : compute_spans(made.work[rank], done, ranks.begun(rank))) {
      append(compute, span.from, span.from + span.length, "computes", {});
    }
    if (!compute.slices.empty()) tracks.push_back(std::move(compute));
    tracks.push_back(std::move(operations));
    for (auto& [key, t] : connections) {
      tracks.push_back(std::move(t.waits));
      std::ranges::move(t.wire, std::back_inserter(tracks));
    }
  }
}

}  // namespace
}  // namespace understudy
