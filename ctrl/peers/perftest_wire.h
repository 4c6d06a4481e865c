// Messages of perftest's TCP side channel, as version 4.5 (protocol "6.06") sends them without -R;
// source: perftest's perftest_communication.c at tag v4.5-0.17. The client always writes first and
// reads our answer of the same size:
//
//   bytes  content                                     once per
//   16     version text, zero-padded ("6.06")          connection
//   4      size of its cyclic buffer, big-endian       connection
//   4      cache line size, big-endian                 connection
//   2      path MTU: code 1..5 as a digit, then zero   connection
//   108    key message (below)                         queue pair, and as a barrier
//   8 x 5  report: size, iterations, peak, average,    end of a bandwidth test of WRITE or READ
//          message rate (big-endian, last three double)
//   5      "done" and a zero (no answer)               end, except ib_write_lat
//
// A key message is text with a terminating zero: "lid:out_reads:qpn:psn:rkey:vaddr:" (4, 4, 6, 6, 8
// and 16 hexadecimal digits), the GID as 16 times "xx:", the SRQ number as "xxxxxxxx:".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "dataplane/base/address.h"
#include "dataplane/base/ids.h"

namespace understudy {

inline constexpr size_t kPerftestVersionSize = 16;
inline constexpr size_t kPerftestIntSize = 4;
inline constexpr size_t kPerftestMtuSize = 2;
inline constexpr size_t kPerftestKeySize = 108;
/// A key message of a client that uses no GID (InfiniBand); only recognised to be refused.
inline constexpr size_t kPerftestKeySizeWithoutGid = 59;
inline constexpr size_t kPerftestReportField = 8;
inline constexpr unsigned kPerftestReportFields = 5;
inline constexpr std::string_view kPerftestDone("done\0", 5);

/// The protocol version of perftest 4.5, which we answer with.
inline constexpr std::string_view kPerftestVersion = "6.06";

/// One side's queue pair and buffer.
struct PerftestKey {
  uint16_t lid = 0;        ///< 0 on Ethernet
  uint16_t out_reads = 1;  ///< READs it takes at a time; 1 unless the test is READ
  Qpn qpn = 0;
  Psn psn;
  Rkey rkey = 0;
  uint64_t address = 0;
  IpAddress gid;
};

/// Nothing unless the bytes are exactly one well-formed key message.
std::optional<PerftestKey> parse_perftest_key(std::span<const uint8_t> bytes);
std::array<uint8_t, kPerftestKeySize> format_perftest_key(const PerftestKey& key);

/// Protocol version as hundredths ("6.06" is 606), nothing if the 16 bytes are not such a text.
std::optional<unsigned> parse_perftest_version(std::span<const uint8_t> bytes);

/// Path MTU in bytes of a code 1..5, and back; nothing for other values.
std::optional<uint32_t> mtu_of_code(unsigned code);
std::optional<unsigned> code_of_mtu(uint32_t mtu);

}  // namespace understudy
