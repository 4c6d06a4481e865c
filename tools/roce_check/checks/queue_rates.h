// How fast and how unevenly each queue pair is sent to.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "dataplane/base/units.h"

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
  /// Burstiness: how far the packets ever ran ahead of the mean rate, bytes. Of a capture that is
  /// judged part by part, the mean up to the end of each part.
  uint64_t burst_bytes = 0;
};

/// Measures one flow. What it holds are the packets of one part of the capture and of the longest
/// window before it.
class RateMeter {
 public:
  /// In the order of the capture.
  void add(Time at, uint32_t wire_bytes);
  /// A part of the capture is over.
  void settle();
  const QueueRate& rate() const { return rate_; }

 private:
  struct Packet {
    Time at;
    uint32_t wire_bytes;
  };
  Packet& packet(uint64_t number) { return recent_[number - forgotten_]; }

  QueueRate rate_;
  std::vector<Packet> recent_;
  uint64_t forgotten_ = 0;                              ///< packets before those
  uint64_t settled_ = 0;                                ///< packets of the parts before
  std::array<uint64_t, kPeakWindows.size()> from_{};    ///< the first packet in each window
  std::array<uint64_t, kPeakWindows.size()> inside_{};  ///< its bytes
  Time first_, last_;
  double level_ = 0, highest_ = 0;  ///< of a bucket that drains at the mean rate
  Time level_at_;
};

}  // namespace understudy
