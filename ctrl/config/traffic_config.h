// [[traffic]]: flows among emulated nodes that no job asks for, as plain values. A table stands for
// many flows; they are written out by ctrl/traffic/traffic.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/config/sizes/size_distribution.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/units.h"
#include "dataplane/fabric/flow.h"

namespace understudy {

enum class TrafficPattern : uint8_t {
  kFlow,         ///< from[i] to to[i], or all to the only one of `to`
  kIncast,       ///< all of `from` to one
  kPermutation,  ///< each of `from` to another of them, each receives from one; drawn from the seed
  kAllToAll,     ///< each of `from` to all others, beginning with its successor
  kRing,         ///< each of `from` to its successor, step after step
  kTree,         ///< an all-reduce of `from` over two binary trees, up and down, chunk after chunk
  kOnOff,        ///< as kFlow, in bursts at fixed times
  kFile,         ///< what a file lists
  kPoisson,      ///< each of from to one of to at a time, at random times, of random sizes
};

/// A line of a flow file.
struct ListedFlow {
  std::string id;
  NodeId from = 0, to = 0;
  unsigned from_nic = 0, to_nic = 0;
  uint64_t bytes = 0;
  Duration start;
  std::vector<uint32_t> after;   ///< positions in the same list
  std::vector<std::string> via;  ///< names of all switches on the way; empty: the routing's choice
  std::vector<std::string> ack_via;  ///< the same for acknowledgements; empty: the way back
  unsigned line = 0;
};

struct TrafficConfig {
  std::string name;
  TrafficPattern pattern = TrafficPattern::kFlow;
  std::vector<NodeId> from, to;
  unsigned nic = 0;     ///< of senders and receivers
  uint64_t bytes = 0;   ///< payload of one flow; kOnOff: 0 if `on` says how much
  Duration at;          ///< when the first flow starts
  bool held = false;    ///< it is stopped until a command starts it; `at` counts from there
  Duration stagger;     ///< from the start of one flow to the next, of those that wait for none
  uint32_t repeat = 1;  ///< rounds, each flow after the same one of the round before; bursts
  Duration off;         ///< pause between rounds, or between bursts
  Duration on;          ///< kOnOff: a burst is what the sender's link carries meanwhile
  std::optional<Duration>
      until;  ///< kOnOff, kPoisson, instead of a count: nothing starts at this time or later
  uint32_t steps = 1;       ///< kRing
  uint32_t channels = 1;    ///< kRing, kTree: rings or pairs of trees side by side
  uint32_t chunks = 1;      ///< kTree: of each tree, `bytes` each
  uint32_t concurrent = 0;  ///< kAllToAll: most flows of a sender at once; 0: all
  double load = 0;          ///< kPoisson: payload, as a share of what the sender's link carries
  SizeDistribution sizes;   ///< kPoisson
  uint64_t count = 0;       ///< kPoisson, instead of until: flows of all senders together
  bool slowdown = false;    ///< its flows are reported beside their ideal times
  uint8_t priority = 0;
  uint32_t control = kNoControl;  ///< position in Config::controls
  std::string file;               ///< kFile: its path
  std::vector<ListedFlow> flows;  ///< kFile
  unsigned line = 0;
};

/// kOnOff: what one sender does, whose link has this rate. Bursts start at fixed times.
struct Bursts {
  uint64_t bytes = 0;
  Duration period;     ///< the time that `bytes` take on the link, headers aside, and the pause
  uint64_t count = 0;  ///< saturates at UINT32_MAX
};
Bursts bursts_of(const TrafficConfig& traffic, Rate link);

/// kPoisson: flows that start per second, on average, at a sender whose link has this rate.
double poisson_rate(const TrafficConfig& traffic, Rate link);

}  // namespace understudy
