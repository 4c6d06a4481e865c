#include "ctrl/simai/compute_times.h"

#include <cmath>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr double kMostUs = 1e12;

void give(SimaiLayer& layer, uint64_t ns) {
  layer.forward.compute_ns = layer.input_gradient.compute_ns = layer.weight_gradient.compute_ns =
      ns;
}

/// Gives one list its times, layer by layer.
class Giver {
 public:
  explicit Giver(const AiobTimes& times) : times_(times), back_(times.parameters) {}

  Result<void> give_to(SimaiLayer& layer) {
    const std::string& name = layer.name;
    const bool first_of_experts = name == "mlp_moelayer" && before_ != name;
    before_ = name;
    if (name == "attention_layer") {
      return matrices(layer, times_.attention);
    }
    if (name == "attention_column" || name == "attention_row" || name == "final_column") {
      return matrices(layer, times_.attention / 2);
    }
    if (name == "mlp_layer") return matrices(layer, times_.network);
    if (name == "mlp_column" || name == "mlp_row") return matrices(layer, times_.network / 2);
    if (name == "mlp_moelayer") {
      if (!first_of_experts) return {};
      const uint64_t weights = layer.weight_gradient.compute_ns;
      TRY(matrices(layer, times_.network));
      layer.weight_gradient.compute_ns = weights;
      return {};
    }
    if (name == "embedding_layer") {
      layer.forward.compute_ns = times_.embedding;
      layer.weight_gradient.compute_ns = back_;  // AICB writes what the layer before took
    } else if (name == "grad_param_compute") {
      layer.input_gradient.compute_ns = times_.parameters + times_.parameters_least;
    } else if (name.starts_with("attention") || name.starts_with("mlp")) {
      return fail("layer " + name + " is not one that the table of compute times is for");
    }
    return {};
  }

  bool gave() const { return gave_; }

 private:
  Result<void> matrices(SimaiLayer& layer, uint64_t ns) {
    give(layer, ns);
    back_ = ns;
    gave_ = true;
    return {};
  }

  const AiobTimes& times_;
  uint64_t back_;  ///< of the layer before, on its way back
  std::string before_;
  bool gave_ = false;
};

}  // namespace

tl::expected<AiobTimes, ConfigError> parse_aiob(std::string_view text, const std::string& path) {
  AiobTimes times;
  const std::vector<std::string_view> lines = lines_of(text);
  std::string_view section;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::vector<std::string_view> words = words_of(lines[i]);
    if (words.empty()) continue;
    if (lines[i].front() != ' ' && lines[i].front() != '\t') {
      section = words[0].substr(0, words[0].find(':'));
      continue;
    }
    const bool least = words[0] == "time_gpu_min:";
    if (!least && words[0] != "time_gpu_avg:") continue;
    const auto us = words.size() == 2 ? number_of(words[1], kMostUs) : std::nullopt;
    if (!us) {
      return tl::unexpected(ConfigError{
          path, static_cast<unsigned>(i + 1),
          std::string(section) + "." + std::string(words[0].substr(0, words[0].size() - 1)),
          words.size() < 2 ? "" : '"' + std::string(words[1]) + '"',
          "expected a time in microseconds"});
    }
    const auto ns = static_cast<uint64_t>(std::round(*us * 1000));
    if (section == "param_time") (least ? times.parameters_least : times.parameters) = ns;
    if (least) continue;
    if (section.find("atten") != std::string_view::npos || section == "layernorm") {
      times.attention += ns;
    } else if (section.find("mlp") != std::string_view::npos || section == "layernorm2") {
      times.network += ns;
    } else if (section == "Emb") {
      times.embedding = ns;
    }
  }
  const auto lacks = [&](const char* what) {
    return tl::unexpected(ConfigError{path, 0, "", std::string("no time of ") + what,
                                      "expected AIOB's table of compute times"});
  };
  if (times.attention == 0) return lacks("attention");
  if (times.network == 0) return lacks("mlp");
  if (times.embedding == 0) return lacks("Emb");
  if (times.parameters == 0) return lacks("param_time");
  return times;
}

tl::expected<AiobTimes, ConfigError> read_aiob(const std::string& path) {
  const std::string text = TRY(read_whole(path));
  return parse_aiob(text, path);
}

Result<void> give_times(const AiobTimes& times, SimaiWorkload& workload) {
  Giver giver(times);
  for (SimaiLayer& layer : workload.layers) TRY(giver.give_to(layer));
  if (giver.gave()) return {};
  return fail("none of the layers is one that the table of compute times is for");
}

}  // namespace understudy
