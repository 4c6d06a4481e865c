// Which bytes of an operation's buffer each channel works on. NCCL has had three rules:
//   2.18, 2.19  strided: every loop goes over all channels, and cuts again what is left
//   2.20, 2.21  even: every channel has as many bytes, in order
//   2.22 on     cells; operations of a group follow each other on the channels. 2.22: cells of 16
//               bytes, no channel below 512 bytes of traffic; 2.23 to 2.28: cells of 16 KiB of
//               traffic (LL counting four times since 2.26); 2.29 on: of 32 KiB
// Source: enqueue.cc of 2.18.6, 2.19.4, 2.20.5, 2.21.5, 2.22.3 to 2.30.7.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective_model/nccl/communicator.h"
#include "collective_model/nccl/operation.h"
#include "dataplane/base/result.h"

namespace understudy {

enum class CutRule : uint8_t { kStrided, kEven, kCells };

constexpr CutRule cut_rule(NcclVersion version) {
  if (version < NcclVersion{20}) return CutRule::kStrided;
  return version < NcclVersion{22} ? CutRule::kEven : CutRule::kCells;
}

/// The bytes of an operation's buffer that one channel (one ring connection) works on; of what one
/// rank contributes, where every rank has a part.
struct ChannelPart {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  constexpr bool operator==(const ChannelPart&) const = default;
};

/// The channels of one operation, from `first_channel` on. Strided: all parts are the whole buffer.
struct OperationCut {
  uint32_t first_channel = 0;
  std::vector<ChannelPart> parts;
};

/// Cuts operations that are enqueued in one group, in the order in which NCCL takes them: of one
/// kind (collective, reduction, type) ascending by size. Send/recv takes no part in it. Several
/// operations only by the rules of 2.20 and later.
Result<std::vector<OperationCut>> cut_group(const Communicator& communicator,
                                            std::span<const Operation> operations);

/// Threads of a block, as NCCL's tuner chooses them for large operations unless told.
uint32_t threads_of(const Operation& operation);
/// Bytes to which 2.20 and 2.21 round parts and last chunks: what the threads move at once.
uint64_t even_alignment(const Operation& operation);

/// An all-reduce by ring and Simple that runs alone, by the rule of 2.23 to 2.28, on at most
/// `max_channels` channels. `bytes` is a multiple of `element_size` (1, 2, 4 or 8); 0 bytes need no
/// channel.
std::vector<ChannelPart> cut_all_reduce(uint64_t bytes, uint32_t element_size,
                                        uint32_t max_channels);

}  // namespace understudy
