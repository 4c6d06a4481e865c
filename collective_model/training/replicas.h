// Training with replicas only, as PyTorch's DistributedDataParallel does it: a network's tensors in the
// order of its modules, when their gradients are there, and the buckets that are reduced.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collective_model/training/buckets.h"

namespace understudy {

/// A tensor of a network, in the order of the modules: forward comes by it before the next one.
struct NetworkTensor {
  uint64_t parameters = 0;
  /// How long its gradient takes, in any unit that all tensors of the network have in common.
  double work = 0;
};

/// Names of the networks whose shapes are known, in a fixed order.
std::vector<std::string_view> network_presets();
/// The tensors of this name; nothing if there is none.
/// "bert-large": arXiv 1810.04805, its vocabulary padded to a multiple of 8, with the pooler and the two
/// outputs of question answering, in the order of Hugging Face's modeling_bert.py. "resnet50": arXiv
/// 1512.03385, table 1, in the order of torchvision's resnet.py, which halves the picture in the 3x3
/// matrices.
/// A matrix' work is its multiplications for one token or picture, and so in proportion to those of its
/// backward; vectors have one for each parameter. Embeddings, which are looked up, and the pooler,
/// which question answering does not use, have none; attention's scores are left out.
std::optional<std::vector<NetworkTensor>> find_network(std::string_view name);

/// PyTorch's rule: tensors from the last one on, a bucket is full with `first` bytes (the first one) or
/// `full` (all others) or more. GradientBucket::ready is the share of the backward that is over then;
/// of the last one 1, and of all where no tensor has any work. `bytes` of a parameter: at least 1.
std::vector<GradientBucket> replica_buckets(std::span<const NetworkTensor> tensors, uint64_t bytes,
                                            uint64_t first, uint64_t full);

}  // namespace understudy
