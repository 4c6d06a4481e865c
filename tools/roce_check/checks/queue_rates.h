// How fast and how unevenly each queue pair is sent to.
#pragma once

#include <array>
#include <cstdint>

#include "tools/roce_check/packets/packet_table.h"

namespace understudy {

inline constexpr std::array<Duration, 4> kPeakWindows = {Duration::us(10), Duration::us(100),
                                                         Duration::ms(1), Duration::ms(10)};

struct QueueRate {
  uint64_t packets = 0;
  uint64_t wire_bytes = 0;
  Duration active;      ///< from the first packet to the last one
  double mean_bps = 0;  ///< 0 where a single moment says nothing
  /// Most wire bytes in any such window. A window that lasts longer than the flow has all of them.
  std::array<uint64_t, kPeakWindows.size()> peak_bytes{};
  /// Burstiness: how far the packets ever ran ahead of the mean rate, bytes.
  uint64_t burst_bytes = 0;
};

QueueRate measure_rate(const PacketTable& table, const Flow& flow);

}  // namespace understudy
