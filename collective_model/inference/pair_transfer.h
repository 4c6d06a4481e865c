// What passes from one emulated rank to another one over one connection of send/recv, from the
// moments at which the two began with it (general_plan.h has the recurrence).
#pragma once

#include <cstdint>

#include "collective_model/nccl/chunking.h"
#include "dataplane/base/units.h"

namespace understudy {

/// Messages of one connection and what they cost.
struct PairTransfer {
  /// Messages in flight.
  static constexpr uint64_t kWindow = Chunking::kBufferSteps;

  uint64_t messages = 0;
  Duration full, last;  ///< that all messages but the last one are on their way, and the last one
  Duration latency;     ///< one way
  Duration credit_more = {}, ack_more = {};  ///< as Hop's
  Duration step_cost;                        ///< from a message's arrival until it can be used
  bool network = true;  ///< there are credits, and acknowledgements come from the receiver's NIC

  /// Whether its sender is done with all of it however late the receiver begins.
  bool sender_is_free() const { return messages <= kWindow; }
  /// The same once the receiver has entered the operation.
  bool needs_credits_only() const { return network && messages <= 2 * kWindow; }
  /// When that is.
  Time sent_early(Time sender, Time receiver_entry) const;

  struct Ends {
    Time sent, received;  ///< when the two ranks are done with the last message
  };
  /// The two began at `sender` and `receiver`.
  Ends carry_out(Time sender, Time receiver, Time receiver_entry) const;

 private:
  Ends over_network(Time sender, Time receiver, Time receiver_entry) const;
  Ends inside_node(Time sender, Time receiver) const;
};

inline Time PairTransfer::sent_early(Time sender, Time receiver_entry) const {
  if (messages <= kWindow) return sender;
  // The last one waits for the acknowledgement of the one a window before it.
  const Time credit = receiver_entry + latency + credit_more;
  const Time first = sender > credit ? sender : credit;
  return first + full * static_cast<int64_t>(messages - kWindow) + latency * 2 + ack_more;
}

inline PairTransfer::Ends PairTransfer::carry_out(Time sender, Time receiver,
                                                  Time receiver_entry) const {
  if (messages > kWindow) {
    return network ? over_network(sender, receiver, receiver_entry) : inside_node(sender, receiver);
  }
  Time first = sender;
  const Time credit = receiver_entry + latency + credit_more;
  if (network && first < credit) first = credit;
  const Time arrival =
      first + full * static_cast<int64_t>(messages - 1) + last + latency + step_cost;
  return {sender, arrival > receiver ? arrival : receiver};
}

}  // namespace understudy
