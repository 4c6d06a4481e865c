#include "collective_model/nccl/communicator.h"

#include <algorithm>

namespace understudy {

namespace {

constexpr NcclVersion kByRateSince{29};
constexpr uint32_t kGigabytesPerChannel = 14;
constexpr uint32_t kOperationsPerChannel = 8;

}  // namespace

uint32_t Communicator::p2p_channels_per_peer() const {
  const uint32_t all = p2p_channels();
  if (channels_per_peer != 0) return std::min(std::bit_ceil(channels_per_peer), all);
  if (version >= kByRateSince) {
    uint32_t most = 2;
    if (nic_gigabytes != 0) {
      most = std::max(1u, (nic_gigabytes + kGigabytesPerChannel - 1) / kGigabytesPerChannel);
    }
    most = std::bit_ceil(most);
    if (nodes == 1) return std::min(most, all);
    // All peers of a rank fit in one round.
    const uint32_t rounds = (ranks() + kOperationsPerChannel - 1) / kOperationsPerChannel;
    while (most > 1 && uint64_t{most} * rounds > all) most /= 2;
    return most;
  }
  uint32_t most = 2;
  // Channels with more than 8 operations at a time lose bandwidth.
  while (most > 1 && uint64_t{most} * ranks() > uint64_t{channels} * 4) most /= 2;
  return std::min(std::bit_ceil(std::min(most, channels)), all);
}

}  // namespace understudy
