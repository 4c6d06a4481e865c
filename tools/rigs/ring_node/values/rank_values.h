// What a rank puts into an operation, what it makes of what comes, and what must come out of it, bit
// by bit (docs/nccl 3.14): all messages of the operation are kept.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective_model/schedule/schedule.h"
#include "dataplane/base/pattern.h"

namespace understudy {

/// What ranks have after an operation, or after the operations of a group, one behind the other.
struct RankResult {
  std::vector<uint8_t> bytes;
  std::vector<bool> moved;  ///< by byte: other ranks have to do with it
};

/// The results of all ranks by a plain collective on all their buffers. `seeds`: by rank, of their
/// contributions. Takes the memory of all ranks' buffers: bytes_of_plain().
std::vector<RankResult> plain_results(const Communicator& communicator,
                                      std::span<const Operation> operations, ReduceOp reduction,
                                      const std::vector<uint64_t>& seeds);
uint64_t bytes_of_plain(const Communicator& communicator, std::span<const Operation> operations);

class RankValues {
 public:
  /// `schedule`: of the rank in what it does at a time, with values of `type`; outlives this.
  /// `own`: its contribution.
  RankValues(const RankSchedule& schedule, DataType type, ReduceOp reduction, const Pattern& own);

  /// Received message `k` of a connection has come.
  void take(uint32_t connection, uint64_t k, std::vector<uint8_t> data);
  /// The data of message `k` that the rank sends.
  std::vector<uint8_t> made(uint32_t connection, uint64_t k) const;
  /// Elements of its result that differ in any bit, did not come, or came twice.
  uint64_t wrong(const RankResult& right) const;

 private:
  std::vector<uint8_t> made(const ValuePart& part) const;

  const RankSchedule& schedule_;
  const DataType type_;
  const ReduceOp reduction_;
  const Pattern own_;
  std::vector<std::vector<std::vector<uint8_t>>> came_;  ///< by connection and message
};

}  // namespace understudy
