// Two captures of the same traffic, taken at both ends of a network: which packets left one end and
// did not come to the other, how long the others took, and which overtook.
//
// A packet is known again by its addresses, queue pair, PSN and headers. Whose end an address is at
// follows from the stamps: what is sent at A's end is stamped there first. The clocks need not
// agree: their difference is taken to be what makes the shortest delays of both directions equal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/roce_check/checks/analysis.h"

namespace understudy {

/// What one address sent to one queue pair, at both ends.
struct WayBetween {
  std::string name;               ///< as Flow::name()
  bool from_a = true;             ///< sent at the first capture's end
  uint64_t sent = 0;              ///< packets in the capture of the sender's end
  uint64_t came = 0;              ///< of these, in the other one
  uint64_t lost = 0;              ///< of these, not in the other one
  uint64_t unseen = 0;            ///< only in the capture of the receiver's end
  uint64_t overtaken = 0;         ///< came after one that was sent later
  std::vector<Stamp> first_lost;  ///< at the sender's end; at most kShownLosses
  DurationSamples delay;          ///< from stamp to stamp, without the clocks' difference
};

inline constexpr size_t kShownLosses = 5;

struct Between {
  std::vector<WayBetween> ways;  ///< of packets that both captures may have seen
  /// How far the second capture's clock is ahead; nothing where no packets were seen both ways.
  std::optional<Duration> clock_ahead;
  uint64_t unjudged = 0;  ///< ways of which nobody knows whose end is where
  uint64_t lost() const;
};

/// Compares what both captures say of reliable and unreliable connections. Datagrams and CNPs are
/// not compared.
Between compare_ends(const Analysis& a, const Analysis& b);

/// Several lines of text.
std::string between_text(const Between& between, const std::string& a, const std::string& b);

}  // namespace understudy
