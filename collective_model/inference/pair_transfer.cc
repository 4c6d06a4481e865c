#include "collective_model/inference/pair_transfer.h"

#include <algorithm>
#include <array>

namespace understudy {

PairTransfer::Ends PairTransfer::over_network(Time sender, Time receiver,
                                              Time receiver_entry) const {
  std::array<Time, kWindow> acknowledged, used;
  Time wire = sender;
  for (uint64_t k = 0; k < messages; ++k) {
    const size_t slot = k % kWindow;
    if (k >= kWindow) sender = std::max(sender, acknowledged[slot]);
    const Time credit = (k < kWindow ? receiver_entry : used[slot]) + latency + credit_more;
    wire = std::max({sender, wire, credit}) + (k + 1 == messages ? last : full);
    acknowledged[slot] = wire + latency * 2 + ack_more;
    receiver = std::max(receiver, wire + latency + step_cost);
    used[slot] = receiver;
  }
  return {sender, receiver};
}

PairTransfer::Ends PairTransfer::inside_node(Time sender, Time receiver) const {
  std::array<Time, kWindow> used;
  Time way = sender;
  for (uint64_t k = 0; k < messages; ++k) {
    const size_t slot = k % kWindow;
    if (k >= kWindow) sender = std::max(sender, used[slot] + latency);
    way = std::max(sender, way) + (k + 1 == messages ? last : full);
    receiver = std::max(receiver, way + latency + step_cost);
    used[slot] = receiver;
  }
  return {sender, receiver};
}

}  // namespace understudy
