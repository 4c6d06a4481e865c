// The operations of a job as a feed tells them: the profiler plugins of its real ranks' processes,
// on one node or on several. Each starts the next plan, whether something of it has come yet or
// not. Collectives are known when the first rank has told them, sends and receives when all have.
// Where the feed ends, has
// gaps, contradicts itself or what comes, or keeps silent for longer than its patience about what
// came, every credit is answered at once.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collective_model/inference/pair_operation.h"
#include "ctrl/jobs/operations/operation_source.h"
#include "ctrl/peers/feed.h"

namespace understudy {

class FedOperations;

/// Where several communicators of the real ranks are known: whose operations a plugin tells.
struct FedRoute {
  enum class To : uint8_t {
    kSelf,     ///< this job's
    kOther,    ///< another job's, or of nobody's that is known
    kUnknown,  ///< nothing tells
  };
  To to = To::kUnknown;
  FedOperations* other = nullptr;  ///< of kOther: null where no job describes the communicator
  bool answered = false;           ///< of such a one: emulated ranks are in it
};
struct FedRoutes {
  std::function<FedRoute(uint64_t communicator)> find;
  std::function<std::vector<FedOperations*>()> others;  ///< of all jobs that this feed is for, too
};

class FedOperations final : public OperationSource {
 public:
  FedOperations(const Config& config, const JobConfig& job, const Topology* topology,
                const CollectiveJob& told);

  /// What a plugin tells.
  void fed(Time now, const FedOperation& fed);
  /// A plugin could not send so many records.
  void missing(Time now, uint64_t records);
  /// No plugin tells anything more, or one of them failed; `failure`: why, empty if all were closed.
  void closed(Time now, const std::string& failure);

  /// Before anything is told: this feed is for jobs on child communicators, too.
  void route(FedRoutes routes) { routes_ = std::move(routes); }
  /// The same, of a job on a child: what tells it, which may change.
  void told_by(std::function<FedOperations*()> feed) { feed_ = std::move(feed); }

  /// In virtual time, before the run: the feed, in pieces. One comes each time that an operation
  /// begins of which nothing was told, FeedConfig::delay after the real rank has entered it; after
  /// the last one the feed ends.
  void follow(std::vector<std::vector<uint8_t>> pieces);

 private:
  struct Rank {
    uint64_t told = 0;                         ///< kernels
    std::map<Collective, uint64_t> sequences;  ///< the last one told
    std::vector<FedOperation> group;           ///< that is not told wholly
  };
  /// What one kernel of the real ranks carries out.
  struct Told {
    uint32_t teller = 0;           ///< the first rank that told it
    Kernel collectives;            ///< empty: sends and receives
    std::vector<RankPairs> pairs;  ///< of the ranks that told them
  };

  void handle(Time now, const OnlineNotice& notice) override;
  void take(Time now, const FedOperation& fed);
  bool is_for_others(Time now, const FedOperation& fed);
  /// In virtual time: who has the pieces.
  FedOperations& follower() {
    FedOperations* const other = feed_ ? feed_() : nullptr;
    return other == nullptr ? *this : *other;
  }
  bool wants(OnlineNotice::Kind kind) const override;
  void take_piece(Time now);
  void hand_over(Time now);
  void limit_channels(Kernel& kernel) const;
  std::string wrong(const FedOperation& fed);
  std::string wrong_group(Rank& rank);
  Result<Kernel> kernel_of(const Told& told) const;

  const FeedConfig settings_;
  FedRoutes routes_;
  std::function<FedOperations*()> feed_;
  uint64_t unknown_records_ = 0;  ///< of communicators that nobody knows
  std::optional<uint64_t> communicator_;
  std::vector<Rank> ranks_;           ///< by position among the real ones
  std::deque<Told> told_kernels_;     ///< that not all ranks told, or that are not handed over
  uint64_t first_ = 0;                ///< number of the first of these
  std::optional<uint64_t> unknown_;   ///< an operation that has begun
  std::optional<std::string> ended_;  ///< the feed: how
  std::optional<std::deque<std::vector<uint8_t>>> pieces_;  ///< virtual time: that are to come
  bool taken_ = false;                                      ///< the last piece was, wholly
  bool end_ = false;     ///< the emulated ranks know that no operation follows
  FeedDecoder decoder_;  ///< of these
};

}  // namespace understudy
