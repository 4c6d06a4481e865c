// [nccl] and [calibration] as plain values: what `understudy predict` knows of NCCL and the GPUs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collective_model/predict/calibration.h"
#include "collective_model/tuner/graph_search.h"
#include "collective_model/tuner/tuning.h"

namespace understudy {

struct EnvironmentVariable {
  std::string name, value;
  unsigned line = 0;
};

struct NcclConfig {
  NcclSystem system;                 ///< of what is given; the rest as NCCL's search would find it
  GpuLinks links;                    ///< that join the GPUs of a node
  std::optional<NcclGraph> ring;     ///< without: searched
  std::optional<NcclGraph> tree;     ///< without: searched, or the ring's if that is given
  bool pxn = false;                  ///< send/recv goes by GPUs of the receiver's rail
  std::optional<uint32_t> channels;  ///< without: twice the ring's
  std::vector<EnvironmentVariable> environment;
  unsigned line = 0;
};

/// A table of measured times that a [calibration] was fitted to.
struct CalibrationTable {
  std::string table;  ///< its file's name, without folders
  Collective collective = Collective::kAllReduce;
  NcclVersion nccl;
  GpuGeneration gpu = GpuGeneration::kAmpere;
  uint32_t ranks = 2, nodes = 1;
  uint64_t smallest = 0, largest = 0;  ///< bytes of its rows, as nccl-tests count them
};

}  // namespace understudy
