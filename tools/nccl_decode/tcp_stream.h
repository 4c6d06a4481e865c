// Puts the bytes of TCP connections together again from captured packets: repeated, reordered, cut
// and missing ones.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/base/address.h"
#include "dataplane/base/units.h"

namespace understudy::nccl_decode {

struct Endpoint {
  IpAddress address;
  uint16_t port = 0;
  std::string text() const;
  auto operator<=>(const Endpoint&) const = default;
};

/// One packet of a capture, as far as TCP goes.
struct TcpSegment {
  Endpoint from, to;
  uint32_t sequence = 0;  ///< of the first byte of the payload, or of SYN
  bool syn = false, ack = false, fin = false, reset = false;
  std::span<const uint8_t> payload;  ///< what the capture has of it
  uint32_t payload_bytes = 0;        ///< what was sent
  uint64_t packet = 0;               ///< number in the capture, from 1 on
  Time at;
};

/// What one end has sent.
struct TcpSide {
  /// From the connection's first byte (or the first that was captured) to the first that is
  /// missing.
  std::vector<uint8_t> bytes;
  struct Mark {
    uint64_t end = 0;  ///< bytes up to here stood when this packet came
    uint64_t packet = 0;
    Time at;
  };
  std::vector<Mark> marks;
  bool seen = false;   ///< any packet of it
  bool begun = false;  ///< its SYN was captured
  bool finished = false, reset = false;
  Mark ended;            ///< with `finished` or `reset`
  uint64_t missing = 0;  ///< bytes that were not captured, right behind `bytes`
  uint64_t behind = 0;   ///< bytes that were, behind these

  /// The packet that brought byte `end` - 1; `end` is from 1 to bytes.size().
  const Mark& mark(uint64_t end) const;
};

struct TcpConnection {
  Endpoint opener, taker;
  Time at;  ///< of its first packet
  uint64_t packet = 0;
  std::array<TcpSide, 2> sides;  ///< of the opener, of the taker
};

class TcpReassembler {
 public:
  void add(const TcpSegment& segment);
  /// In the order of their first packets. No segment may follow.
  std::vector<TcpConnection> finish();

 private:
  struct Reading {
    uint32_t base = 0;  ///< sequence number of bytes[0]
    bool based = false;
    std::map<uint64_t, std::vector<uint8_t>> early;  ///< by their place, beyond what is missing
    std::optional<uint64_t> end;                     ///< the connection's last byte lies before it
    TcpSide::Mark last;
  };
  struct Entry {
    TcpConnection connection;
    std::array<Reading, 2> readings;
  };
  Entry& entry_of(const TcpSegment& segment, size_t& side);
  static void take(TcpSide& side, Reading& reading, const TcpSegment& segment);

  std::vector<Entry> entries_;
  std::map<std::pair<Endpoint, Endpoint>, size_t> latest_;  ///< by opener and taker
};

}  // namespace understudy::nccl_decode
