// What a layer's division over workers comes to, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "collective_model/partition/layer_partition.h"

namespace understudy {

/// One layer with its cheapest placement, and the neurons in their order beside it.
struct DividedLayer {
  PartitionedLayer layer;
  std::vector<uint32_t> places;
  PlacementCost cheapest, contiguous;
};
/// `layer` was checked.
DividedLayer divide(PartitionedLayer layer);

std::string partition_text(const std::vector<DividedLayer>& layers);
std::string partition_json(const std::vector<DividedLayer>& layers);

}  // namespace understudy
