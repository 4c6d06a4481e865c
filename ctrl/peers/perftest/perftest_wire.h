// Messages of perftest's side channel; source: its perftest_communication.c at the tags v4.5-0.17
// (Debian 12's, protocol "6.06") to 26.04.17 ("6.29"). The client always writes first and reads our
// answer of the same size:
//
//   bytes  content                                     once per
//   16     version text, zero-padded ("6.06")          connection
//   4      size of its cyclic buffer, big-endian       connection
//   4      cache line size, big-endian                 connection
//   2      path MTU: code 1..5 as a digit, then zero   connection
//   312    what it is going to do (below)              connection, from 6.28 on
//   108    key message (below)                         queue pair, and as a barrier
//   8 x 5  report: size, iterations, peak, average,    end of a bandwidth test of WRITE, READ or
//          message rate (big-endian, last three double)  ATOMIC
//   5      "done" and a zero (no answer)               end until 6.16, except ib_write_lat
//
// A key message is text with a terminating zero: "lid:out_reads:qpn:psn:rkey:vaddr:" (4, 4, 6, 6, 8
// and 16 hexadecimal digits), the GID as 16 times "xx:", the SRQ number as "xxxxxxxx:".
//
// With -R the same messages are SENDs on a first connection made by RDMA-CM, and a key message is
// the bytes of a C structure, integers big-endian: lid, out_reads, qpn, psn, rkey, 4 unused, vaddr
// (8), from 6.29 on a second address (8), the GID (16), SRQ number, GID index.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dataplane/base/address.h"
#include "dataplane/base/ids.h"

namespace understudy {

inline constexpr uint8_t kPerftestReads = 16;  ///< under way of ib_read_bw, of a queue pair
inline constexpr size_t kPerftestVersionSize = 16;
inline constexpr size_t kPerftestIntSize = 4;
inline constexpr size_t kPerftestMtuSize = 2;
inline constexpr size_t kPerftestKeySize = 108;
/// A key message of a client that uses no GID (InfiniBand); only recognised to be refused.
inline constexpr size_t kPerftestKeySizeWithoutGid = 59;
inline constexpr size_t kPerftestReportField = 8;
inline constexpr unsigned kPerftestReportFields = 5;
inline constexpr std::array<char, 5> kPerftestDone = {'d', 'o', 'n', 'e', '\0'};

/// A key message of -R; the second size from 6.29 on.
inline constexpr size_t kPerftestBinaryKeySize = 56;
inline constexpr size_t kPerftestLongBinaryKeySize = 64;

/// The oldest protocol that perftest 4.5 itself talks to, as hundredths.
inline constexpr unsigned kPerftestOldest = 570;

/// What changed in the exchange since a protocol version.
struct PerftestLayout {
  unsigned since;            ///< as hundredths
  bool says_done;            ///< "done" ends the connection; else closing it does
  bool states_test;          ///< PerftestTest is exchanged after the path MTU
  size_t in_band_key;        ///< size of a key message with -R
  std::string_view version;  ///< the newest protocol that is so
};

inline constexpr std::array<PerftestLayout, 4> kPerftestLayouts = {{
    {kPerftestOldest, true, false, kPerftestBinaryKeySize, "6.16"},
    {617, false, false, kPerftestBinaryKeySize, "6.27"},
    {628, false, true, kPerftestBinaryKeySize, "6.28"},
    {629, false, true, kPerftestLongBinaryKeySize, "6.29"},
}};
/// What a client of this version speaks; null for those older than kPerftestOldest.
const PerftestLayout* perftest_layout(unsigned version);
/// The newest protocol that is known, as hundredths.
unsigned perftest_newest();

/// What a client from 6.28 on says that it is going to do: the head of a C structure in its own
/// layout, integers big-endian, followed by its device's attributes. An answer of the same bytes
/// agrees with everything. Clients built with mlx5dv add 8 bytes, which start with a zero.
inline constexpr size_t kPerftestTestSize = 312;
inline constexpr size_t kPerftestTestExtra = 8;
enum class PerftestVerb : uint32_t { kSend, kSendImm, kWrite, kWriteImm, kRead, kAtomic };
struct PerftestTest {
  static constexpr uint32_t kUnreliable = 1;
  uint32_t connection_type = 0;  ///< 0: RC
  PerftestVerb verb = PerftestVerb::kWrite;
  bool latency = false;
  uint64_t size = 0;  ///< of a message, bytes
  uint64_t iterations = 0;
  bool validates = false;  ///< --data_validation
};
/// Nothing unless size and values can be such a message's.
std::optional<PerftestTest> parse_perftest_test(std::span<const uint8_t> bytes);

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
/// The same for -R, of either size.
std::optional<PerftestKey> parse_perftest_binary_key(std::span<const uint8_t> bytes);
std::vector<uint8_t> format_perftest_binary_key(const PerftestKey& key, size_t size);

/// Protocol version as hundredths ("6.06" is 606), nothing if the 16 bytes are not such a text.
std::optional<unsigned> parse_perftest_version(std::span<const uint8_t> bytes);

/// Path MTU in bytes of a code 1..5, and back; nothing for other values.
std::optional<uint32_t> mtu_of_code(unsigned code);
std::optional<unsigned> code_of_mtu(uint32_t mtu);

}  // namespace understudy
