// Ways between NICs as plans charge them: rates and latency.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <utility>

#include "collective_model/plan/wire_cost.h"
#include "ctrl/config/config.h"
#include "ctrl/topology/topology.h"

namespace understudy {

/// A NIC of a job's node.
using JobNic = std::pair<NodeId, uint32_t>;

/// The way between two NICs, and the rates at its ends.
struct NicWay {
  Rate first, last, slowest;
  Duration latency;
  constexpr auto operator<=>(const NicWay&) const = default;
};

constexpr Rate slower(Rate a, Rate b) {
  if (a.is_unlimited()) return b;
  return b.is_unlimited() || a < b ? a : b;
}

constexpr Rate share(Rate rate, uint64_t parts) {
  return rate.is_unlimited() ? rate : Rate::bits_per_second(rate.bps() / parts);
}

/// What a connection gets whose NICs' links and path are shared by as many.
constexpr Rate shared_rate(const NicWay& way, uint64_t pairs, uint64_t out, uint64_t in) {
  return slower(share(way.slowest, pairs), slower(share(way.first, out), share(way.last, in)));
}

/// Acknowledgements and credits of some NIC of the job's nodes queue behind data.
bool acks_wait(const Config& config, const JobConfig& job);

/// What a NIC of the job takes beside its link; merged ones share packets.
NicLimits nic_limits(const Config& config, const JobConfig& job, JobNic nic);

/// The hop of such a connection from one NIC to another one, programs to programs.
Hop shared_hop(const NicWay& way, uint64_t pairs, uint64_t out, uint64_t in, const NicLimits& from,
               const NicLimits& to);

/// Without `topology` both NICs' links, else the paths that its routing gives to one flow of the
/// pair, or of each pair of merged NICs.
class NicWays {
 public:
  NicWays(const Config& config, const JobConfig& job, const Topology* topology);
  NicWay between(JobNic from, JobNic to);

 private:
  NicWay direct(JobNic from, JobNic to) const;
  NicWay path(JobNic from, JobNic to);
  NicWay lane(JobNic from, JobNic to);

  const Config& config_;
  const JobConfig& job_;
  const Topology* topology_;
  std::optional<Routes> routes_;
};

}  // namespace understudy
