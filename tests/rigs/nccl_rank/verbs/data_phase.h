// One operation of a node's ranks on their connections, as kernels and proxies execute it: what the
// schedule of each says, in its order, with NCCL's windows (docs/nccl 3.8, 3.10).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective_model/schedule/schedule.h"
#include "tests/rigs/nccl_rank/verbs/data_connection.h"
#include "tests/rigs/nccl_rank/verbs/values.h"

namespace understudy::nccl_rank {

/// The connection that a schedule's means.
Link link_of(const Connection& connection);

/// Of one rank.
class DataPhase {
 public:
  using Find = std::function<DataConnection&(const Connection& connection)>;
  /// `find`: the connection of one of the schedule's. `values`: null if contents do not matter. All
  /// outlive this.
  DataPhase(const RankSchedule& schedule, const Find& find, Values* values);

  /// All is received, sent and acknowledged.
  bool over() const;
  /// Does all that can be done now; true if anything was. Throws Refused: what comes is none of the
  /// schedule's.
  bool advance();
  /// Once it has done so many primitives and sent what they send, advance() calls `then` and does no
  /// more.
  void stop_after(uint64_t primitives, std::function<void()> then);
  std::string standing() const;

 private:
  struct Side {
    DataConnection* connection = nullptr;
    uint64_t first = 0;  ///< its message that is the operation's first
    uint64_t seen = 0;   ///< messages that have arrived and were looked at
    uint64_t done = 0;   ///< by the kernel
    uint64_t posted = 0;
    uint64_t granted = 0;
  };
  bool ready(uint32_t c) const;
  void do_next(uint32_t c);
  bool look_at_arrivals(uint32_t c);
  uint64_t acknowledged(const Side& side) const;

  const RankSchedule& schedule_;
  Values* values_;
  std::vector<Side> sides_;
  std::optional<uint64_t> left_;  ///< primitives until stop_
  std::function<void()> stop_;
};

/// Until all are over. `poll`: looks for what has come, true if something has. `beside` is called
/// while nothing happens. Throws Refused: nothing comes for `patience`.
void run_phases(const std::vector<std::unique_ptr<DataPhase>>& phases,
                std::chrono::milliseconds patience, const std::function<bool()>& poll,
                const std::function<void()>& beside);

}  // namespace understudy::nccl_rank
