// How long outages keep traffic from flowing. A stream is what one sender sends to one receiver:
// the packets of a flow, its acknowledgements, the packets of a queue pair one way. It is stopped
// when a packet of it is lost by an outage, or waits in front of a link that is out; it flows again
// when a packet comes to its receiver that left its NIC after the outage began.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/base/units.h"

namespace understudy {

inline constexpr uint32_t kNoOutage = 0xffffffff;

/// What became of one outage.
struct Recovery {
  Time at = Time::never();        ///< when it began; never(): it has not
  Time rerouted = Time::never();  ///< when the routing left out the last one of its links
  uint64_t stopped = 0;           ///< streams ...
  uint64_t again = 0;             ///< ... that have come to flow again
  Duration longest;               ///< from its beginning until the last one of them did
};

class Recoveries {
 public:
  /// Outages have numbers from 0 on. Allocates, the first time memory for all streams.
  void begin(uint32_t outage, Time at);
  /// Some outage has begun.
  bool begun() const { return last_ != kNoOutage; }
  uint32_t last() const { return last_; }
  Recovery& operator[](uint32_t outage) { return all_[outage].sum; }
  /// By number.
  std::vector<Recovery> all() const;

  /// What packets carry that leave their NICs now.
  uint8_t epoch() const { return epoch_; }
  static constexpr unsigned kEpochBits = 4;

  /// The stream is stopped by this outage, unless it is by one already.
  void stop(uint64_t stream, uint32_t outage);
  bool any_stopped() const { return stopped_ != 0; }
  /// A packet of the stream has come, which left its NIC in `epoch`.
  void came(uint64_t stream, uint8_t epoch, Time now);

 private:
  /// Streams beyond three quarters of these are not followed.
  static constexpr size_t kSlots = size_t{1} << 14;
  struct Outage {
    Recovery sum;
    uint8_t epoch = 0;
  };
  struct Slot {
    uint64_t stream = 0;
    uint32_t outage = kNoOutage;  ///< that it waits for the end of
    bool taken = false;
  };
  size_t find(uint64_t stream) const;

  std::vector<Outage> all_;
  std::vector<Slot> slots_;
  size_t taken_ = 0, stopped_ = 0;
  uint32_t last_ = kNoOutage;
  uint8_t epoch_ = 0;
};

}  // namespace understudy
