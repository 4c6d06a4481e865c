// Blocks of a capture file in pcapng (IETF draft "PCAP Now Generic"). Bytes only: who writes them
// to a file is port/capture's business. Reading: wire/pcapng_reader.h.
//
// Always little-endian. Time stamps are nanoseconds, rounded down: of the readers in use,
// tshark 4.0 gets picoseconds (if_tsresol 12) wrong. The exact times and what else the standard has
// no field for stand in custom options (code 2989), which other readers skip. Their private
// enterprise number is the one reserved for documentation (32473, RFC 5612), so a four-letter tag
// says what follows:
//   interface block  "strt", i64 seconds, i64 ps          the run's Time::zero() on the calendar
//   packet block     "time", i64 at, i64 scheduled        ps since Time::zero(); scheduled is
//                                                         2^63-1 where no model knows the frame
//   packet block     "link", i64 at, u32 node, u32 what, u64 bits/s, i64 latency in ps
//                                                         a link was changed before this packet;
//                                                         what: 1 rate, 2 latency, 3 both
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dataplane/base/ids.h"
#include "dataplane/base/units.h"

namespace understudy {

/// As seen from the dataplane: kIn came from the real node. The values are those of epb_flags.
enum class CaptureDirection : uint8_t { kUnknown = 0, kIn = 1, kOut = 2 };

inline constexpr uint32_t kPcapngSection = 0x0a0d0d0a;
inline constexpr uint32_t kPcapngInterface = 1;
inline constexpr uint32_t kPcapngSimplePacket = 3;
inline constexpr uint32_t kPcapngStatistics = 5;
inline constexpr uint32_t kPcapngPacket = 6;
inline constexpr uint32_t kPcapngByteOrder = 0x1a2b3c4d;
inline constexpr uint16_t kPcapngOptEnd = 0;
inline constexpr uint16_t kPcapngOptUserAppl = 4;
inline constexpr uint16_t kPcapngOptIfName = 2;
inline constexpr uint16_t kPcapngOptIfTsresol = 9;
inline constexpr uint16_t kPcapngOptIfTsoffset = 14;
inline constexpr uint16_t kPcapngOptEpbFlags = 2;
inline constexpr uint16_t kPcapngOptIsbReceived = 4;
inline constexpr uint16_t kPcapngOptIsbIfDrop = 5;
inline constexpr uint16_t kPcapngOptIsbOsDrop = 7;
inline constexpr uint16_t kPcapngOptIsbDelivered = 8;
/// Binary custom option that must not be copied to a file whose packets were changed.
inline constexpr uint16_t kPcapngOptCustom = 2989;
inline constexpr uint32_t kPcapngEnterprise = 32473;
inline constexpr uint16_t kLinktypeEthernet = 1;

/// When a run's Time::zero() was: whole seconds since 1970 and picoseconds after them. Zero in
/// virtual time.
struct CaptureEpoch {
  int64_t seconds = 0;
  int64_t ps = 0;
};

/// A change of all links of one node, or of the node, that took effect during the capture.
inline constexpr double kLossUnit =
    0x1p53;  ///< captures hold a probability as a whole number of its parts
struct LinkChange {
  Time at;
  NodeId node = 0;
  std::optional<Rate> rate = {};
  std::optional<Duration> latency = {};
  std::optional<bool> down = {};    ///< links: they are, or are up again
  std::optional<bool> paused = {};  ///< the node stands still, or goes on
  std::optional<double> loss = {};  ///< of its links: probability
};

/// One frame as it was handed to or from the device.
struct CapturedFrame {
  CaptureDirection direction = CaptureDirection::kUnknown;
  Time at;
  Time scheduled = Time::never();  ///< never: no model knows this frame
  std::span<const uint8_t> bytes;  ///< possibly cut
  uint32_t original_bytes = 0;
};

/// What happened at one interface up to the end of a capture.
struct CaptureCounts {
  uint64_t received = 0;      ///< frames offered to the capture
  uint64_t device_drops = 0;  ///< frames that the device itself reports as missed
  uint64_t drops = 0;         ///< frames the capture had no room for
};

/// Appends the block to `out`. Times are those of the run; `epoch` places them on the calendar.
void append_pcapng_section(std::vector<uint8_t>& out, std::string_view application);
/// Interfaces are numbered in the order of their blocks. `snap_length` 0: frames are not cut.
void append_pcapng_interface(std::vector<uint8_t>& out, std::string_view name, uint32_t snap_length,
                             CaptureEpoch epoch);
/// `changes` are what happened to links since the packet before.
void append_pcapng_packet(std::vector<uint8_t>& out, uint32_t interface, CaptureEpoch epoch,
                          const CapturedFrame& frame, std::span<const LinkChange> changes = {});
void append_pcapng_statistics(std::vector<uint8_t>& out, uint32_t interface, CaptureEpoch epoch,
                              Time at, const CaptureCounts& counts);

}  // namespace understudy
