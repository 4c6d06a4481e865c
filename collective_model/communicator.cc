#include "collective_model/communicator.h"

#include <algorithm>

namespace understudy {

uint32_t Communicator::p2p_channels_per_peer() const {
  uint32_t most = channels_per_peer;
  if (most == 0) {
    most = 2;
    // Channels with more than 8 operations at a time lose bandwidth.
    while (most > 1 && uint64_t{most} * ranks() > uint64_t{channels} * 4) most /= 2;
  }
  return std::min(std::bit_ceil(std::min(most, channels)), p2p_channels());
}

}  // namespace understudy
