// Any bytes as a datagram of the communication manager.
#pragma once

#include "dataplane/cm/mad.h"
#include "tests/fuzz/input.h"

namespace understudy {

/// What is understood of a datagram is written and read again alike.
inline void drive_mad(std::span<const uint8_t> bytes) {
  const auto mad = parse_mad(bytes);
  if (!mad) return;
  const auto again = parse_mad(format_mad(*mad));
  must(again && again->transaction_id == mad->transaction_id);
  must(again->message.index() == mad->message.index());
  must(format_mad(*again) == format_mad(*mad));
}

}  // namespace understudy
