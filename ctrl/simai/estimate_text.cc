#include "ctrl/simai/estimate_text.h"

#include <nlohmann/json.hpp>

#include "ctrl/report/text.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

using Json = nlohmann::ordered_json;

struct Part {
  const char* key;   ///< in JSON
  const char* name;  ///< in the text
  double us;
};

std::vector<Part> parts_of(const SimaiEstimate& estimate) {
  return {{"compute_us", "computing", estimate.compute_us},
          {"exposed_dp_us", "data parallelism", estimate.dp_us},
          {"exposed_dp_ep_us", "data parallelism of experts", estimate.dp_ep_us},
          {"exposed_tp_us", "tensor parallelism", estimate.tp_us},
          {"exposed_ep_us", "expert parallelism", estimate.ep_us},
          {"bubble_us", "bubble of the pipeline", estimate.bubble_us},
          {"exposed_pp_us", "messages of the pipeline", estimate.pp_us}};
}

double us(uint64_t ns) { return static_cast<double>(ns) / 1000; }

std::string layers_text(const SimaiResult& result) {
  std::string text =
      "layer                     computing (us)                     collectives (us)\n"
      "                          forward   weights     input        forward   weights     input\n";
  for (size_t i = 0; i < result.estimate.layers.size(); ++i) {
    const SimaiLayer& layer = result.file.workload.layers[i];
    const SimaiLayerTimes& times = result.estimate.layers[i];
    text += format_text("%-22.60s %10.0f%10.0f%10.0f     %10.0f%10.0f%10.0f\n", layer.name.c_str(),
                        us(layer.forward.compute_ns), us(layer.weight_gradient.compute_ns),
                        us(layer.input_gradient.compute_ns), times.forward / 1000,
                        times.weight_gradient / 1000, times.input_gradient / 1000);
  }
  return text;
}

Json layers_json(const SimaiResult& result) {
  Json layers = Json::array();
  for (size_t i = 0; i < result.estimate.layers.size(); ++i) {
    const SimaiLayer& layer = result.file.workload.layers[i];
    const SimaiLayerTimes& times = result.estimate.layers[i];
    layers.push_back({{"name", layer.name},
                      {"compute_us",
                       {{"forward", us(layer.forward.compute_ns)},
                        {"weight_gradient", us(layer.weight_gradient.compute_ns)},
                        {"input_gradient", us(layer.input_gradient.compute_ns)}}},
                      {"collective_us",
                       {{"forward", times.forward / 1000},
                        {"weight_gradient", times.weight_gradient / 1000},
                        {"input_gradient", times.input_gradient / 1000}}}});
  }
  return layers;
}

}  // namespace

std::vector<std::string> simai_notes(const SimaiResult& result) {
  std::vector<std::string> notes = result.file.notes;
  const SimaiEstimate& estimate = result.estimate;
  if (estimate.lone_tensor > 0) {
    notes.push_back(
        "no time for " + count_text(estimate.lone_tensor, "collective") +
        " of tensor groups of one rank; SimAI divides by zero there and says 9.2e18 ns");
  }
  if (estimate.small > 0) {
    notes.push_back("no time for " + count_text(estimate.small, "collective") +
                    " below 1 MiB, as in SimAI: its table has groups of 2, 4, 8 .. 128 ranks only");
  }
  if (estimate.broadcasts > 0) {
    notes.push_back("no time for " + count_text(estimate.broadcasts, "broadcast") +
                    ", as in SimAI");
  }
  if (!result.cluster.ratios) {
    notes.push_back(
        "without --ratios every collective of 1 MiB or more has the full bandwidth; SimAI always "
        "has its tables");
  }
  return notes;
}

std::string simai_text(const SimaiResult& result, bool layers) {
  const SimaiParallel& p = result.file.workload.parallel;
  const SimaiEstimate& estimate = result.estimate;
  std::string text = format_text(
      "SimAI's analytical estimate of an iteration: %zu layers, %u GPUs: TP %u, EP %u, PP %u with "
      "%u "
      "chunks, DP %u; %u micro-batches\n",
      estimate.layers.size(), p.gpus, p.tp, p.ep, p.pp, p.vpp, p.dp(), p.ga);
  if (layers) text += layers_text(result);
  const double total = estimate.total_us();
  text += "                                       us       share\n";
  for (const Part& part : parts_of(estimate)) {
    text += format_text("%-28s %12.0f    %7.2f %%\n", part.name, part.us,
                        total > 0 ? 100 * part.us / total : 0);
  }
  text += format_text("%-28s %12.0f\n", "total", total);
  for (const std::string& note : simai_notes(result)) text += "note: " + note + "\n";
  return text;
}

std::string simai_json(const SimaiResult& result, bool layers) {
  const SimaiParallel& p = result.file.workload.parallel;
  const SimaiEstimate& estimate = result.estimate;
  Json json{{"file", result.path}, {"layers", estimate.layers.size()},
            {"gpus", p.gpus},      {"tp", p.tp},
            {"ep", p.ep},          {"pp", p.pp},
            {"vpp", p.vpp},        {"dp", p.dp()},
            {"ga", p.ga}};
  for (const Part& part : parts_of(estimate)) json[part.key] = part.us;
  json["exposed_us"] = estimate.exposed_us();
  json["total_us"] = estimate.total_us();
  if (layers) json["layer_times"] = layers_json(result);
  json["notes"] = simai_notes(result);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace understudy
