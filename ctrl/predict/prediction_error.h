// How far predictions are from the same operation packet by packet, at most, by what meets on the
// links. Set by hand after draws of `tools/experiments/compare_table` (docs/results/predict.md).
#pragma once

#include <cstdint>

#include "collective_model/predict/time_model.h"

namespace understudy {

/// Below this an error is none, whatever its share: us.
inline constexpr double kErrorTime = 0.1;

/// Of the closed form of a ring, where it holds.
inline constexpr double kClosedFormError = 0.02;

/// What the messages of an operation meet.
struct OnLinks {
  bool shared = false;   ///< several connections share a NIC, or a link between switches
  bool held_up = false;  ///< credits hold its ring up
  uint64_t packets = 0;  ///< of a step of its ring
  bool stored = false;   ///< switches store and forward: credits wait behind data
  double answers = 0;    ///< time that NICs take for acknowledgements, by that for data
};

/// Of an operation as flows, as a share, where NICs take no longer for packets than their links.
constexpr double flow_error_on_links(const OperationShape& shape, const OnLinks& links) {
  if (shape.collective == Collective::kSendRecv) return 0.02;
  // Packets of many senders to one, or of one to many, are a matter of who is in front.
  if (function_name(shape.collective).empty()) return 0.4;
  if (shape.algorithm != Algorithm::kRing) return 0.4;
  // A credit, or an acknowledgement, that waits for one packet waits for a share of the step.
  if (!links.shared) {
    if (links.packets <= 4) return 0.3;
    return is_pipeline(shape.collective) || links.stored || links.packets <= 12 ? 0.06 : 0.02;
  }
  // Channels drift apart from hop to hop, and then do not meet any more.
  if (is_pipeline(shape.collective)) return 0.4;
  return links.held_up ? 0.4 : 0.15;
}

/// The same: flows have a message's last acknowledgement only, which a NIC may take as long for as
/// for a packet of data.
constexpr double flow_error(const OperationShape& shape, const OnLinks& links) {
  return flow_error_on_links(shape, links) + links.answers / (1 + links.answers);
}

}  // namespace understudy
