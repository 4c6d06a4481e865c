// The operations of a job as a feed tells them: the profiler plugins of its real ranks' processes,
// on one node or on several. Each starts the next plan, whether something of it has come yet or
// not. Collectives are known when the first rank has told them, sends and receives when all have.
// Where the feed ends, has
// gaps, contradicts itself or what comes, or keeps silent for longer than its patience about what
// came, every credit is answered at once.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collective_model/inference/pair_operation.h"
#include "ctrl/jobs/operations/operation_source.h"
#include "ctrl/peers/feed.h"

namespace understudy {

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
  bool wants(OnlineNotice::Kind kind) const override;
  void take_piece(Time now);
  void hand_over(Time now);
  void limit_channels(Kernel& kernel) const;
  std::string wrong(const FedOperation& fed);
  std::string wrong_group(Rank& rank);
  Result<Kernel> kernel_of(const Told& told) const;

  const FeedConfig settings_;
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
