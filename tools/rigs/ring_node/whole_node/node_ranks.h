// The ranks of one node in a job's operations, as NCCL's kernels and proxies execute them: the rank
// program says what waits for what; here are the credits and messages of the node's links. It knows
// no verbs.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <string>
#include <vector>

#include "ctrl/peers/ring/node_job.h"
#include "dataplane/base/result.h"
#include "dataplane/collective/rank_program.h"
#include "dataplane/nccl/nccl_steps.h"
#include "tools/rigs/ring_node/base/message_link.h"
#include "tools/rigs/ring_node/whole_node/node_schedule.h"
#include "tools/rigs/ring_node/whole_node/node_values.h"

namespace understudy {

class NodeRanks final : private RankProgramOwner {
 public:
  /// `links`: of the job's; `values`: null if contents of messages are free. All arguments outlive
  /// this.
  NodeRanks(const NodeJobMessage& job, const std::vector<NodeKind>& kinds,
            std::vector<MessageLink*> links, NodeValues* values = nullptr);

  /// All ranks enter an operation. Messages of the one before may still wait for their
  /// acknowledgements.
  Result<void> start(uint32_t kind, Time now);
  /// Does all that can be done at `now`. True if anything was.
  Result<bool> progress(Time now);
  /// A message has arrived; `size` is its immediate.
  Result<void> on_received(uint32_t link, uint32_t size, Time now);
  /// The oldest message of a link was acknowledged.
  void on_sent(uint32_t link, Time now);
  /// Ways inside the node take time: what is told of the present one is looked at.
  bool takes_time() const { return takes_time_; }
  /// All ranks have done their parts in the operation: their last messages are filled, for which no
  /// more than a window of a link's messages, of earlier operations too, waits for credits or is on
  /// its way.
  bool done() const;
  /// Nothing that is filled waits for its credit.
  bool all_posted() const;
  /// All messages of all operations were acknowledged.
  bool idle() const;
  /// What is missing, for the text of a time-out.
  std::string waiting_for() const;
  std::string name_of(uint32_t link) const;

 private:
  /// A message that was filled and not posted.
  struct Due {
    uint32_t bytes = 0;
    Protocol protocol = Protocol::kSimple;
    std::vector<uint8_t> data;  ///< with values
  };
  struct Link {
    MessageLink* at = nullptr;
    NcclSteps steps;  ///< with values: of messages granted or posted
    // Of the operation, if it uses the link:
    uint32_t rank = 0, connection = 0;
    const RankSchedule* schedule = nullptr;
    uint64_t base = 0;                   ///< messages of earlier operations
    uint64_t granted = 0, received = 0;  ///< of this one
    std::deque<uint64_t> flags;          ///< of messages granted and not received
    std::deque<Due> due;
    uint64_t posted = 0, acknowledged = 0;  ///< of all operations
    uint64_t under_way() const { return due.size() + posted - acknowledged; }
    uint64_t messages() const {
      return schedule == nullptr ? 0 : schedule->connections()[connection].messages;
    }
    uint64_t window() const {
      return schedule == nullptr ? ~uint64_t{0} : schedule->connections()[connection].window;
    }
  };
  /// What arrives at the end of a way inside the node.
  struct Passing {
    Time at;
    uint64_t number = 0;  ///< of those of one time, which comes first
    RankEnd end;
    bool operator>(const Passing& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };

  // RankProgramOwner
  void on_filled(const RankEnd& sender, uint64_t k, Time now) override;
  void on_grantable(const RankEnd& receiver, uint64_t k, Time now) override;
  void on_passing(const RankEnd& end, Time at) override;
  void on_done(uint32_t operation, uint32_t rank, Time now) override;

  Link& link_of(const RankEnd& end) { return links_[(*kind_).links[end.rank][end.connection]]; }
  bool pass(Time now);
  Result<bool> post(uint32_t link);
  uint64_t flag_of(Link& link, uint64_t capacity);
  Result<void> take(uint32_t link, const std::string& where);

  const NodeJobMessage& job_;
  const std::vector<NodeKind>& kinds_;
  NodeValues* const values_;
  std::vector<Link> links_;
  const bool takes_time_;
  RankProgram program_;
  const NodeKind* kind_ = nullptr;  ///< of the operation
  uint32_t operation_ = 0;          ///< counted from 1
  uint32_t ranks_left_ = 0;
  std::priority_queue<Passing, std::vector<Passing>, std::greater<>> passing_;
  uint64_t passed_ = 0;  ///< numbers given to these
  std::string failure_;  ///< of a credit, found while the program ran
};

}  // namespace understudy
