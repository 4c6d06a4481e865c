// NIC types: what makers publish of them that a [[nic]] may start from.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "dataplane/base/units.h"

namespace understudy {

/// Figures of one type; an absent one is not known.
struct NicPreset {
  std::string_view name;    ///< as a configuration calls it
  std::string_view source;  ///< where they are published
  std::optional<uint64_t> packets_per_second;
  Rate pcie;  ///< of payload, by its generation and lanes
  /// One way over PCIe: a quarter of the latency that the maker states of a small message, all of
  /// which is taken for its four crossings.
  std::optional<Duration> pcie_latency;
  // As NicLimits; 0: it is not known, and stays ideal.
  uint16_t ahead = 0, again = 0, ack_every = 0;
};

std::span<const NicPreset> nic_presets();

}  // namespace understudy
