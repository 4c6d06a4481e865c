// The part of one rank in a group of operations, which one kernel carries out: each channel takes
// its operations in order, and channels do not wait for one another (source: enqueue.cc, a
// channel's list of work). Operations that use a connection in the same way continue its messages
// and its credits; those of another protocol or algorithm have messages and a window of their own.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collective_model/schedule/schedule.h"

namespace understudy {

class GroupRankSchedule final : public RankSchedule {
 public:
  /// The rank's parts in the operations, in the order of cut_group(). `results`: where the result
  /// of each begins in that of all; empty: none has one.
  explicit GroupRankSchedule(std::vector<std::unique_ptr<RankSchedule>> operations,
                             std::vector<uint64_t> results = {});

  /// Offsets are those in the message's own operation.
  Message message(uint32_t connection, uint64_t k) const override;
  Waits waits(uint32_t connection, uint64_t k) const override;
  bool names_old_messages() const override;
  // Contributions begin anew in each operation.
  uint32_t value_parts(uint32_t connection, uint64_t k) const override;
  ValuePart value_part(uint32_t connection, uint64_t k, uint32_t part) const override;
  uint32_t result_parts(uint32_t connection, uint64_t k) const override;
  ValuePart result_part(uint32_t connection, uint64_t k, uint32_t part) const override;

 private:
  /// Messages of one operation on a connection of the group.
  struct Part {
    uint64_t first = 0;  ///< of them, on the connection
    uint32_t operation = 0, connection = 0;
    std::vector<Wait> before;  ///< of its first message: what the channel did before is done
  };
  const Part& part(uint32_t connection, uint64_t k) const;
  ValuePart in_group(const Part& p, ValuePart part) const;

  std::vector<std::unique_ptr<RankSchedule>> operations_;
  std::vector<uint64_t> results_;
  std::vector<std::vector<Part>> parts_;      ///< by connection, in order
  std::vector<std::vector<uint32_t>> place_;  ///< connection of the group, by operation and its own
  std::vector<std::vector<uint64_t>> first_;  ///< the same: first message there
};

/// The parts of all ranks in what one kernel does: one operation, or several collectives in the
/// order in which NCCL takes them. Fails, naming what is wrong, where NCCL would not carry it out.
Result<std::vector<std::shared_ptr<const RankSchedule>>> kernel_schedules(
    const Communicator& communicator, std::span<const Operation> operations);

}  // namespace understudy
