// Machine types: what a node's kind says of its GPUs, NICs and NVLinks, where the configuration does
// not say it itself.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "collective_model/tuner/graph_search.h"
#include "collective_model/tuner/tuning_constants.h"
#include "dataplane/base/units.h"

namespace understudy {

/// Facts of one machine; an absent one is not known.
struct Machine {
  std::string name;    ///< as a configuration calls it
  std::string source;  ///< where its figures are published
  std::optional<unsigned> gpus, nics;
  std::optional<Rate> nic_rate;  ///< of each NIC, each direction
  std::optional<GpuGeneration> gpu;
  std::optional<CpuVendor> cpu;
  std::optional<IntraLink> intra;
  std::optional<Rate> nvlink;  ///< of all of a GPU's NVLinks together, each direction
  std::optional<bool> nvls;    ///< its NVSwitches reduce
  std::optional<GpuLinks> links;
  unsigned line = 0;  ///< of the key that names it
};

/// The types that are known by name.
std::span<const Machine> known_machines();

}  // namespace understudy
