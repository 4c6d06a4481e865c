#include "collective_model/training/replicas.h"

#include <algorithm>

namespace understudy {
namespace {

using Tensors = std::vector<NetworkTensor>;

void add_vector(Tensors& out, uint64_t size) { out.push_back({size, static_cast<double>(size)}); }

/// Multiplied with `columns` columns of its input.
void add_matrix(Tensors& out, uint64_t size, uint64_t columns = 1) {
  out.push_back({size, static_cast<double>(size * columns)});
}

/// Nothing is multiplied with it.
void add_idle(Tensors& out, uint64_t size) { out.push_back({size, 0}); }

Tensors bert_large() {
  constexpr uint64_t kHidden = 1024, kWide = 4096, kVocabulary = 30528, kPositions = 512;
  constexpr int kLayers = 24;
  Tensors out;
  for (const uint64_t rows : {kVocabulary, kPositions, uint64_t{2}}) add_idle(out, rows * kHidden);
  const auto norm = [&] {
    add_vector(out, kHidden);
    add_vector(out, kHidden);
  };
  const auto linear = [&](uint64_t from, uint64_t to) {
    add_matrix(out, from * to);
    add_vector(out, to);
  };
  norm();
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int matrix = 0; matrix < 4; ++matrix) linear(kHidden, kHidden);
    norm();
    linear(kHidden, kWide);
    linear(kWide, kHidden);
    norm();
  }
  add_idle(out, kHidden * kHidden);  // the pooler's
  add_idle(out, kHidden);
  linear(kHidden, 2);
  return out;
}

Tensors resnet50() {
  Tensors out;
  // Without a shift of its own, and a norm's two vectors behind it.
  const auto convolution = [&](uint64_t from, uint64_t to, uint64_t kernel, uint64_t side) {
    add_matrix(out, from * to * kernel * kernel, side * side);
    add_vector(out, to);
    add_vector(out, to);
  };
  uint64_t channels = 64, side = 112;
  convolution(3, channels, 7, side);
  side = 56;
  constexpr int kBlocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const uint64_t width = uint64_t{64} << stage;
    for (int block = 0; block < kBlocks[stage]; ++block) {
      const uint64_t in = side;
      if (stage > 0 && block == 0) side /= 2;
      convolution(channels, width, 1, in);
      convolution(width, width, 3, side);
      convolution(width, 4 * width, 1, side);
      if (block == 0) convolution(channels, 4 * width, 1, side);
      channels = 4 * width;
    }
  }
  constexpr uint64_t kClasses = 1000;
  add_matrix(out, channels * kClasses);
  add_vector(out, kClasses);
  return out;
}

struct Preset {
  std::string_view name;
  Tensors (*tensors)();
};
constexpr Preset kPresets[] = {{"bert-large", bert_large}, {"resnet50", resnet50}};

}  // namespace

std::vector<std::string_view> network_presets() {
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

std::optional<std::vector<NetworkTensor>> find_network(std::string_view name) {
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return preset.tensors();
  }
  return std::nullopt;
}

std::vector<GradientBucket> replica_buckets(std::span<const NetworkTensor> tensors, uint64_t bytes,
                                            uint64_t first, uint64_t full) {
  double all = 0, over = 0;
  for (const NetworkTensor& tensor : tensors) all += tensor.work;
  std::vector<TrainedTensor> last_first;
  for (size_t i = tensors.size(); i-- > 0;) {
    over += tensors[i].work;
    // The sum in the other order may end beside the whole.
    const double ready = all > 0 && over < all && i > 0 ? over / all : 1;
    last_first.push_back({tensors[i].parameters, ready});
  }
  const auto parameters = [&](uint64_t limit) { return (limit + bytes - 1) / bytes; };
  return fill_buckets(last_first, parameters(first), parameters(full));
}

}  // namespace understudy
