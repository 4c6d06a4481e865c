// What a configuration, and what is asked of its run, have of the features that the table of
// capabilities speaks of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "ctrl/config/config.h"

namespace understudy {

/// Who the real nodes of a run are: the columns of the table.
enum class RealSide : uint8_t {
  kReference,  ///< simulate: our requester
  kKernel,     ///< simulate: Linux kernels with programs
  kNone,       ///< simulate: nobody
  kWire,       ///< run: what is behind a device, or a soft NIC program
};
inline constexpr size_t kRealSides = 4;

/// A configuration and what is asked of its run beside it.
struct Asked {
  const Config& config;
  bool capture = false;
  bool series = false;  ///< or a plot
  bool feed = false;    ///< of a file
};

/// Where a feature is asked for.
struct Place {
  unsigned line = 0;  ///< of the configuration; 0: of no line
  std::string key;    ///< or the option
  std::string found;  ///< may be empty
};

using Found = std::optional<Place>;

// Where such a feature is asked for with this real side: the first place. Nothing if it is not.
Found find_kernel(const Asked& asked, RealSide side);
Found find_both_kinds_joined(const Asked& asked, RealSide side);
Found find_nvls(const Asked& asked, RealSide side);
Found find_collnet(const Asked& asked, RealSide side);
Found find_dimensions(const Asked& asked, RealSide side);
Found find_plain_ring(const Asked& asked, RealSide side);
Found find_other_job(const Asked& asked, RealSide side);
Found find_join(const Asked& asked, RealSide side);
Found find_exact(const Asked& asked, RealSide side);
Found find_fed(const Asked& asked, RealSide side);
Found find_unlisted(const Asked& asked, RealSide side);
Found find_inferred(const Asked& asked, RealSide side);
Found find_merged(const Asked& asked, RealSide side);
Found find_merged_of_gpus(const Asked& asked, RealSide side);
Found find_period(const Asked& asked, RealSide side);
Found find_start(const Asked& asked, RealSide side);
Found find_after(const Asked& asked, RealSide side);
Found find_compute(const Asked& asked, RealSide side);
Found find_ddp(const Asked& asked, RealSide side);
Found find_several_joined(const Asked& asked, RealSide side);
Found find_communicators(const Asked& asked, RealSide side);
Found find_communicators_of_both_kinds(const Asked& asked, RealSide side);
Found find_children(const Asked& asked, RealSide side);
Found find_untold_all_real(const Asked& asked, RealSide side);
Found find_any_all_real(const Asked& asked, RealSide side);
Found find_all_real_not_told(const Asked& asked, RealSide side);
Found find_several_not_told(const Asked& asked, RealSide side);
Found find_several(const Asked& asked, RealSide side);
Found find_both_kinds_alone(const Asked& asked, RealSide side);
Found find_topology(const Asked& asked, RealSide side);
Found find_reconverge(const Asked& asked, RealSide side);
Found find_model(const Asked& asked, RealSide side);
Found find_workload(const Asked& asked, RealSide side);
Found find_several_ports(const Asked& asked, RealSide side);
Found find_traffic_packets(const Asked& asked, RealSide side);
Found find_traffic_rates(const Asked& asked, RealSide side);
Found find_slowdown(const Asked& asked, RealSide side);
Found find_queue_pairs(const Asked& asked, RealSide side);
Found find_nics(const Asked& asked, RealSide side);
Found find_real_nics(const Asked& asked, RealSide side);
Found find_separate_queue(const Asked& asked, RealSide side);
Found find_jobs_as_rates(const Asked& asked, RealSide side);
Found find_inner_packets(const Asked& asked, RealSide side);
Found find_inner_as_rates(const Asked& asked, RealSide side);
Found find_inner_inferred(const Asked& asked, RealSide side);
Found find_no_pacing(const Asked& asked, RealSide side);
Found find_separate_class(const Asked& asked, RealSide side);
Found find_unlimited(const Asked& asked, RealSide side);
Found find_event(const Asked& asked, RealSide side);
Found find_service(const Asked& asked, RealSide side);
Found find_capture(const Asked& asked, RealSide side);
Found find_series(const Asked& asked, RealSide side);
Found find_feed(const Asked& asked, RealSide side);

}  // namespace understudy
