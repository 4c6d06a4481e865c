#include "tools/rigs/ring_node/whole_node/node_schedule.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "collective_model/schedule/group.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// Of a connection, whichever end of it is looked at.
using Key = std::tuple<uint32_t, uint32_t, uint32_t, uint8_t>;  // from, to, channel, index

Key key_of(const Connection& c) { return {c.from, c.to, c.channel, c.index}; }

std::string text_of(const Connection& c) {
  return "rank " + std::to_string(c.from) + " to rank " + std::to_string(c.to) + " on channel " +
         std::to_string(c.channel);
}

Result<std::vector<OperationCut>> cuts_of(const Communicator& communicator,
                                          const std::vector<Operation>& operations) {
  for (const Operation& operation : operations) {
    TRY(check_operation(communicator, operation));
  }
  if (!is_p2p(operations.front().collective)) return cut_group(communicator, operations);
  return std::vector<OperationCut>(operations.size());
}

std::unique_ptr<RankSchedule> part_of(const Communicator& communicator,
                                      const std::vector<Operation>& operations,
                                      const std::vector<OperationCut>& cuts, uint32_t rank) {
  std::vector<std::unique_ptr<RankSchedule>> parts;
  for (size_t i = 0; i < operations.size(); ++i) {
    parts.push_back(rank_schedule(communicator, operations[i], cuts[i], rank));
  }
  if (parts.size() == 1) return std::move(parts.front());
  // Where each operation's result begins in that of all.
  std::vector<uint64_t> results;
  uint64_t end = 0;
  for (const Operation& o : operations) {
    results.push_back(end);
    end += o.bytes() * (o.collective == Collective::kAllGather ? communicator.ranks() : 1);
  }
  return std::make_unique<GroupRankSchedule>(std::move(parts), std::move(results));
}

class Maker {
 public:
  explicit Maker(const NodeJobMessage& job) : job_(job) {
    for (uint32_t l = 0; l < job.links.size(); ++l) {
      const NodeJobMessage::Link& link = job.links[l];
      const uint32_t from = link.client_sends ? link.rank : link.peer_rank;
      const uint32_t to = link.client_sends ? link.peer_rank : link.rank;
      links_[{from, to, link.channel, link.index}] = l;
    }
  }

  Result<NodeKind> make(const NodeJobMessage::Kind& kind) {
    const Communicator& communicator = job_.communicator;
    const auto cuts = TRY(cuts_of(communicator, kind.operations));
    NodeKind made;
    for (const OperationCut& cut : cuts) {
      made.channels.push_back(static_cast<uint32_t>(cut.parts.size()));
    }
    for (uint32_t gpu = 0; gpu < communicator.gpus; ++gpu) {
      const uint32_t rank = job_.node * communicator.gpus + gpu;
      made.schedules.push_back(part_of(communicator, kind.operations, cuts, rank));
    }
    for (uint32_t gpu = 0; gpu < communicator.gpus; ++gpu) {
      made.links.push_back(TRY(links_of(made.schedules[gpu]->connections())));
    }
    TRY(join_inside(made));
    return made;
  }

 private:
  Result<std::vector<uint32_t>> links_of(const std::vector<Connection>& connections) const {
    std::vector<uint32_t> links(connections.size(), NodeKind::kInside);
    for (uint32_t c = 0; c < connections.size(); ++c) {
      if (!connections[c].network) continue;
      const auto found = links_.find(key_of(connections[c]));
      if (found == links_.end())
        return fail("the job names no link for " + text_of(connections[c]));
      const NodeJobMessage::Link& link = job_.links[found->second];
      if (connections[c].window > link.slots || connections[c].capacity > link.slot_bytes) {
        return fail("the job's link for " + text_of(connections[c]) + " has too little room");
      }
      links[c] = found->second;
    }
    return links;
  }

  /// Finds the other ends of connections inside the node.
  static Result<void> join_inside(NodeKind& kind) {
    std::map<std::pair<Key, bool>, FarEnd> ends;  // true: of who sends
    for (uint32_t r = 0; r < kind.schedules.size(); ++r) {
      const auto& connections = kind.schedules[r]->connections();
      for (uint32_t c = 0; c < connections.size(); ++c) {
        ends[{key_of(connections[c]), connections[c].direction == Direction::kSend}] = {r, c};
      }
    }
    for (const auto& schedule : kind.schedules) {
      std::vector<FarEnd> far;
      for (const Connection& c : schedule->connections()) {
        far.emplace_back();
        if (c.network) continue;
        const auto found = ends.find({key_of(c), c.direction != Direction::kSend});
        if (found == ends.end()) return fail("a connection has one end only: " + text_of(c));
        far.back() = found->second;
      }
      kind.parts.emplace_back(*schedule, std::move(far), RankPart::Order::kByConnection);
    }
    return {};
  }

  const NodeJobMessage& job_;
  std::map<Key, uint32_t> links_;
};

}  // namespace

Result<std::vector<NodeKind>> node_kinds(const NodeJobMessage& job) {
  Maker maker(job);
  std::vector<NodeKind> kinds;
  for (const NodeJobMessage::Kind& kind : job.kinds) {
    auto made = maker.make(kind);
    if (!made) return fail("job \"" + job.name + "\": " + made.error().text);
    kinds.push_back(std::move(*made));
  }
  return kinds;
}

}  // namespace understudy
