#include "collective_model/schedule/schedule.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "collective_model/schedule/heads.h"
#include "collective_model/schedule/p2p.h"
#include "collective_model/schedule/pat.h"
#include "collective_model/schedule/ring.h"
#include "collective_model/schedule/tree.h"

namespace understudy {
namespace {

constexpr NcclVersion kP2pSince{22};
constexpr NcclVersion kPatSince{23};
constexpr NcclVersion kInSwitchesSince{22};

/// Of algorithms by which switches reduce.
Result<void> check_in_switches(const Communicator& communicator, const Operation& operation,
                               const std::string& collective) {
  const std::string name(name_of(kAlgorithmNames, operation.algorithm));
  const std::string of = "algorithm: " + name + ": ";
  if (operation.collective != Collective::kAllReduce) {
    return fail(of + "known for all_reduce only, not for " + collective);
  }
  if (operation.protocol != Protocol::kSimple) {
    return fail("protocol: " + std::string(name_of(kProtocolNames, operation.protocol)) + ": " +
                name + " goes by simple only");
  }
  if (communicator.version < kInSwitchesSince) {
    return fail("nccl: 2." + std::to_string(communicator.version.minor) + ": " + name +
                " is known from 2.22 on");
  }
  const bool nvls = operation.algorithm == Algorithm::kNvls;
  if (nvls && communicator.nodes != 1) {
    return fail(of + "within one node; several take nvls-tree");
  }
  if (!nvls && communicator.nodes < 2) return fail(of + "needs several nodes; one takes nvls");
  if (is_collnet(operation.algorithm) && communicator.gpus > kMostGpusOfCollnet) {
    return fail(of + "takes " + std::to_string(kMostGpusOfCollnet) + " ranks a node at most");
  }
  if (is_nvls(operation.algorithm) &&
      (communicator.gpus < 2 || communicator.gpus > kMostGpusOfHeads)) {
    return fail(of + "needs 2 to " + std::to_string(kMostGpusOfHeads) + " ranks a node");
  }
  return {};
}

Result<void> check_algorithm(const Communicator& communicator, const Operation& operation) {
  const std::string collective(name_of(kCollectiveNames, operation.collective));
  if (is_p2p(operation.collective)) {
    if (communicator.version < kP2pSince) {
      return fail("nccl: 2." + std::to_string(communicator.version.minor) + ": " + collective +
                  " is known from 2.22 on");
    }
    return {};
  }
  switch (operation.algorithm) {
    case Algorithm::kTree:
      if (operation.collective == Collective::kAllReduce) return {};
      return fail("algorithm: tree: NCCL has it for all_reduce only, not for " + collective);
    case Algorithm::kPat:
      if (!has_rank_parts(operation.collective)) {
        return fail("algorithm: pat: NCCL has it for all_gather and reduce_scatter only, not for " +
                    collective);
      }
      if (operation.protocol != Protocol::kSimple) {
        return fail("protocol: " + std::string(name_of(kProtocolNames, operation.protocol)) +
                    ": pat goes by simple only");
      }
      if (communicator.gpus != 1) {
        return fail("gpus: " + std::to_string(communicator.gpus) + ": pat needs one rank a node");
      }
      if (communicator.version < kPatSince) {
        return fail("nccl: 2." + std::to_string(communicator.version.minor) +
                    ": pat came with 2.23");
      }
      return {};
    case Algorithm::kNvls:
    case Algorithm::kNvlsTree:
    case Algorithm::kCollnetDirect:
    case Algorithm::kCollnetChain:
      return check_in_switches(communicator, operation, collective);
    default:
      return {};
  }
}

}  // namespace

Result<void> check_operation(const Communicator& communicator, const Operation& operation) {
  const uint32_t ranks = communicator.ranks();
  if (ranks < 2) return fail("ranks: " + std::to_string(ranks) + ": at least two");
  if (communicator.channels < 1 || communicator.channels > 64) {
    return fail("channels: " + std::to_string(communicator.channels) + ": 1 to 64");
  }
  for (const std::vector<uint32_t>& order : communicator.orders) {
    std::vector<bool> seen(communicator.gpus, false);
    for (const uint32_t gpu : order) {
      if (gpu < communicator.gpus) seen[gpu] = true;
    }
    if (order.size() != communicator.gpus || seen != std::vector<bool>(communicator.gpus, true)) {
      return fail("orders: every GPU of a node stands once in a channel's order");
    }
  }
  if (operation.root >= ranks) {
    return fail("root: " + std::to_string(operation.root) + " of " + std::to_string(ranks) +
                " ranks");
  }
  if (operation.collective == Collective::kAllToAllV) {
    if (operation.pair_bytes.size() != uint64_t{ranks} * ranks) {
      return fail("pair_bytes: " + std::to_string(operation.pair_bytes.size()) + " for " +
                  std::to_string(ranks) + " ranks");
    }
    for (const uint64_t bytes : operation.pair_bytes) {
      if (bytes == kNoPair || bytes % element_bytes(operation.type) == 0) continue;
      return fail("pair_bytes: " + std::to_string(bytes) + ": no multiple of the type's " +
                  std::to_string(element_bytes(operation.type)) + " bytes");
    }
  } else if (operation.count == 0 && !is_p2p(operation.collective)) {
    return fail("count: 0: NCCL does nothing then");
  }
  if (operation.count > kMostOperationBytes / element_bytes(operation.type)) {
    return fail("count: " + std::to_string(operation.count) + ": more than 16 TiB");
  }
  return check_algorithm(communicator, operation);
}

std::unique_ptr<RankSchedule> rank_schedule(const Communicator& communicator,
                                            const Operation& operation, const OperationCut& cut,
                                            uint32_t rank) {
  if (is_p2p(operation.collective)) {
    return std::make_unique<P2pRankSchedule>(communicator, operation, P2pRounds(communicator),
                                             rank);
  }
  if (operation.algorithm == Algorithm::kTree || operation.algorithm == Algorithm::kCollnetChain) {
    return std::make_unique<TreeRankSchedule>(communicator, operation, cut, rank);
  }
  if (is_nvls(operation.algorithm) || operation.algorithm == Algorithm::kCollnetDirect) {
    return std::make_unique<HeadsRankSchedule>(communicator, operation, cut, rank);
  }
  if (operation.algorithm == Algorithm::kPat) {
    return std::make_unique<PatRankSchedule>(communicator, operation, cut, rank);
  }
  if (is_pipeline(operation.collective)) {
    return std::make_unique<PipelineRankSchedule>(communicator, operation, cut, rank);
  }
  return std::make_unique<RingRankSchedule>(communicator, operation, cut, rank);
}

std::vector<std::shared_ptr<const RankSchedule>> rank_schedules(const Communicator& communicator,
                                                                const Operation& operation,
                                                                const OperationCut& cut) {
  std::vector<std::shared_ptr<const RankSchedule>> all;
  all.reserve(communicator.ranks());
  if (is_p2p(operation.collective)) {
    const P2pRounds rounds(communicator);
    for (uint32_t rank = 0; rank < communicator.ranks(); ++rank) {
      all.push_back(std::make_shared<const P2pRankSchedule>(communicator, operation, rounds, rank));
    }
    return all;
  }
  const PatRankSchedule* first = nullptr;
  for (uint32_t rank = 0; rank < communicator.ranks(); ++rank) {
    if (first != nullptr) {
      all.push_back(
          std::make_shared<const PatRankSchedule>(communicator, operation, cut, rank, first));
      continue;
    }
    all.push_back(rank_schedule(communicator, operation, cut, rank));
    first = dynamic_cast<const PatRankSchedule*>(all.front().get());
  }
  return all;
}

uint32_t ways_out(const RankSchedule& rank) {
  uint32_t shares = 0;
  for (const Connection& c : rank.connections()) {
    if (c.direction == Direction::kSend && !c.network && c.messages != 0) shares += c.shares;
  }
  return shares;
}

std::optional<std::vector<std::vector<FarEnd>>> far_ends(
    std::span<const RankSchedule* const> ranks) {
  // Both ends of a connection have the same key; in order of keys they stand side by side.
  struct Known {
    uint64_t ranks;
    uint32_t channel;
    uint32_t use;  ///< tells operations of a group apart
    FarEnd end;
    uint8_t index;
    bool sends;
    auto key() const { return std::tuple(ranks, channel, use, index, sends); }
  };
  std::vector<std::vector<FarEnd>> ends(ranks.size());
  std::vector<Known> all;
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    const std::vector<Connection>& connections = ranks[r]->connections();
    ends[r].resize(connections.size());
    for (uint32_t i = 0; i < connections.size(); ++i) {
      const Connection& c = connections[i];
      all.push_back({uint64_t{c.from} << 32 | c.to,
                     c.channel,
                     use_of(c),
                     {r, i},
                     c.index,
                     c.direction == Direction::kSend});
    }
  }
  std::ranges::sort(all, {}, &Known::key);
  if (all.size() % 2 != 0) return std::nullopt;
  for (size_t i = 0; i < all.size(); i += 2) {
    const Known &receives = all[i], &sends = all[i + 1];
    if (receives.ranks != sends.ranks || receives.channel != sends.channel ||
        receives.use != sends.use || receives.index != sends.index || receives.sends ||
        !sends.sends) {
      return std::nullopt;
    }
    ends[receives.end.rank][receives.end.connection] = sends.end;
    ends[sends.end.rank][sends.end.connection] = receives.end;
  }
  return ends;
}

}  // namespace understudy
