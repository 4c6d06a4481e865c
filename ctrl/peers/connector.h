// The name of one of NCCL's network connections.
#pragma once

#include <compare>
#include <cstdint>

namespace understudy {

/// NcclConnector::index of connections for one-sided operations (docs/nccl 3.16): those of the ring
/// over which ranks tell of their memory, and those that the operations go over. The channel counts
/// them.
inline constexpr uint8_t kOneSidedRing = 2, kOneSided = 3;

/// One of NCCL's connections between a real and an emulated rank (docs/nccl 2.1): one direction of
/// one channel.
struct NcclConnector {
  uint32_t communicator = 0;        ///< 0: the first; children by their number
  uint32_t emulated = 0, real = 0;  ///< their numbers in the first communicator
  /// NCCL's, as far as it can be known: a set-up says only how many channels it is about.
  uint32_t channel = 0;
  uint8_t index = 0;        ///< 0: collectives, 1: send and receive, or one of the two below
  bool real_sends = false;  ///< data come from the real rank
  /// What credits carry as their tag: the rank that sends, in the numbers of its top parent.
  uint32_t sender = 0;
  auto operator<=>(const NcclConnector&) const = default;
};

}  // namespace understudy
