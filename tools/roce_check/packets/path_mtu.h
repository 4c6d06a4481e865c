// The path MTU of a connection, as the sizes of its packets show it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "tools/roce_check/packets/packet_table.h"

namespace understudy {

/// Counts the sizes of packets; bounded, however many these are.
class PathMtu {
 public:
  void add(const PacketRecord& p);
  /// What has been added is all there is up to now of both directions of a connection; `packets`
  /// hold those of each direction that may have READs.
  void add_reads(const PacketTable& table, std::span<const uint32_t> packets);

  /// Bytes. Where no FIRST or MIDDLE packet tells: the least that fits what was seen.
  uint32_t value() const;
  /// Messages of several packets have shown it.
  bool is_shown() const;
  /// Where all of at least three FIRST and MIDDLE packets have the same size, and that is no path
  /// MTU: this size; else 0.
  uint32_t odd() const;

 private:
  static constexpr std::array<uint32_t, 5> kValues = {256, 512, 1024, 2048, 4096};
  uint32_t least() const;

  std::array<uint64_t, kValues.size()> votes_{};
  uint32_t largest_ = 0, size_ = 0;
  uint64_t of_this_size_ = 0, data_packets_ = 0;
  uint32_t by_reads_ = 0;
};

}  // namespace understudy
