// Operations of communicators that take given times, with no network between.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "collective_model/workload/communicators.h"

namespace understudy {

/// What an operation takes once all members have entered.
struct ClosedTime {
  Duration busy;  ///< of a message: its sender's NIC; the next one of its communicator comes behind
  Duration latency;  ///< until it has come in whole, behind that
};

class ClosedOperations final : public OperationCarrier {
 public:
  /// Communicators are numbered from `first` on.
  explicit ClosedOperations(uint32_t first = 0) : first_(first) {}
  /// A communicator of so many members; gives its number. `message`: member 0 sends to member 1, and
  /// is done when the message has left; else all are done at one time. `times`: by operation, or by
  /// shape where operations are appended; other communicators may have the same.
  uint32_t add(uint32_t members, bool message,
               std::shared_ptr<const std::vector<ClosedTime>> times);
  void listen(CommunicatorListener& listener) { listener_ = &listener; }

  void enter(uint32_t communicator, uint32_t operation, uint32_t member, Time at) override;
  uint32_t append(uint32_t communicator, uint32_t shape) override;

 private:
  struct Waiting {
    uint32_t left = 0;
    Time last;  ///< of those who have entered
  };
  struct One {
    uint32_t members = 0;
    bool message = false;
    std::shared_ptr<const std::vector<ClosedTime>> times;
    Time free;                            ///< behind what was sent before
    std::map<uint32_t, Waiting> waiting;  ///< by operation: not all have entered
    std::vector<uint32_t> appended;       ///< the shape of each
  };
  uint32_t first_;
  std::vector<One> all_;
  CommunicatorListener* listener_ = nullptr;
};

}  // namespace understudy
