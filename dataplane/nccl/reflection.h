// What real ranks have last sent in small messages of collectives, so that emulated ranks answer
// with the same bytes: what frameworks gather to compare it with their own is then equal. PyTorch
// does so when DDP starts (the number of parameters) and in FSDP's first iteration (their order).
//
// In an all-gather over a ring each rank sends its own slice first and then what it has received:
// where all that it receives is a copy of its slice, all that it sends is. A broadcast from an
// emulated rank has contents that nobody knows; it gets the last ones too.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "dataplane/nccl/nccl_steps.h"
#include "dataplane/rc/memory.h"

namespace understudy {

/// Of one channel. Nothing is allocated after it is made.
class Reflection final : public PayloadSource {
 public:
  /// Longer messages are not kept: what one packet carries at most.
  static constexpr uint32_t kMost = 4096;

  /// A message of a real rank has come, as it was on the wire.
  void take(std::span<const uint8_t> message);
  bool empty() const { return newest().size == 0; }

  /// Data of a message at `place`: what came last, again and again, with this place's flags where
  /// LL and LL128 have theirs. Good for the next kVersions - 1 messages that differ.
  PayloadRef payload(const NcclSteps::Place& place) const;

  void fill(uint64_t cookie, uint64_t offset, std::span<uint8_t> out) const override;

 private:
  /// A connection has at most eight messages under way, and what comes is answered step by step.
  static constexpr uint32_t kVersions = 16;
  struct Version {
    uint32_t size = 0;
    std::array<uint8_t, kMost> bytes;
  };
  const Version& newest() const { return versions_[newest_ % kVersions]; }

  std::array<Version, kVersions> versions_;
  uint32_t newest_ = 0;
};

}  // namespace understudy
