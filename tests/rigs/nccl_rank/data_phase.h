// One operation of a rank on real queue pairs, as its kernel and proxy execute it: what the
// schedule says, in its order, with NCCL's windows (docs/nccl 3.8, 3.10).
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "collective_model/schedule/schedule.h"
#include "tests/rigs/nccl_rank/values.h"
#include "tests/rigs/nccl_rank/verbs_connection.h"

namespace understudy::nccl_rank {

/// The connection of an adapter that a schedule's means.
Link link_of(const Connection& connection);

class DataPhase {
 public:
  /// `values`: null if contents do not matter. All outlive this. Connections inside a node are an
  /// error.
  DataPhase(const RankSchedule& schedule, VerbsAdapter& adapter, Values* values);

  /// Until all is received, sent and acknowledged. `beside` is called while nothing happens. Throws
  /// Refused: what comes is none of the schedule's, or nothing for `patience`.
  void run(std::chrono::milliseconds patience, const std::function<void()>& beside);

 private:
  struct Side {
    VerbsConnection* connection = nullptr;
    uint64_t first = 0;  ///< its message that is the operation's first
    uint64_t seen = 0;   ///< messages that have arrived and were looked at
    uint64_t done = 0;   ///< by the kernel
    uint64_t posted = 0;
    uint64_t granted = 0;
  };
  bool over() const;
  bool advance();
  bool ready(uint32_t c) const;
  void do_next(uint32_t c);
  bool look_at_arrivals(uint32_t c);
  uint64_t acknowledged(const Side& side) const;
  std::string standing() const;

  const RankSchedule& schedule_;
  VerbsAdapter& adapter_;
  Values* values_;
  std::vector<Side> sides_;
};

}  // namespace understudy::nccl_rank
