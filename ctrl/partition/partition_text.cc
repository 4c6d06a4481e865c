#include "ctrl/partition/partition_text.h"

#include <nlohmann/json.hpp>

#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

using Json = nlohmann::ordered_json;

std::string number_text(double value) { return format_text("%.10g", value); }

std::string cost_line(const char* name, const PlacementCost& cost) {
  return format_text("  %-11s %14s %10llu %10llu %10llu\n", name, number_text(cost.cost).c_str(),
                     static_cast<unsigned long long>(cost.kept),
                     static_cast<unsigned long long>(cost.dropped),
                     static_cast<unsigned long long>(cost.values));
}

std::string layer_text(const DividedLayer& divided) {
  const PartitionedLayer& layer = divided.layer;
  std::string text = std::to_string(layer.weights.size()) + " neurons of " +
                     std::to_string(layer.input_workers.size()) + " inputs on " +
                     std::to_string(layer.workers) + " workers; ";
  text += layer.lambda ? "a weight across costs " + number_text(*layer.lambda) +
                             ", or its square if it becomes zero\n"
                       : "each weight across costs 1, none is changed\n";
  text += format_text("%-13s %14s %10s %10s %10s\n", "", "cost", "across", "dropped", "values");
  text += cost_line("in order", divided.contiguous) + cost_line("cheapest", divided.cheapest);
  text += "neurons of each worker, and the values that it sends to worker 0, 1, ..\n";
  for (uint32_t worker = 0; worker < layer.workers; ++worker) {
    text += "  " + std::to_string(worker) + ":";
    for (size_t i = 0; i < divided.places.size(); ++i) {
      if (divided.places[i] == worker) text += " " + std::to_string(i);
    }
    text += "  ->";
    for (const uint64_t values : divided.cheapest.sent[worker])
      text += " " + std::to_string(values);
    text += "\n";
  }
  return text;
}

Json cost_json(const PlacementCost& cost) {
  return {{"cost", cost.cost},
          {"weights_across", cost.kept},
          {"weights_dropped", cost.dropped},
          {"values_sent", cost.values},
          {"values_between", cost.sent}};
}

}  // namespace

DividedLayer divide(PartitionedLayer layer) {
  DividedLayer out;
  out.places = cheapest_placement(layer);
  out.cheapest = placement_cost(layer, out.places);
  out.contiguous = placement_cost(layer, contiguous_placement(layer));
  out.layer = std::move(layer);
  return out;
}

std::string partition_text(const std::vector<DividedLayer>& layers) {
  std::string text;
  for (const DividedLayer& layer : layers) text += (text.empty() ? "" : "\n") + layer_text(layer);
  return text;
}

std::string partition_json(const std::vector<DividedLayer>& layers) {
  Json json = {{"schema", "understudy-partition/1"}, {"layers", Json::array()}};
  for (const DividedLayer& divided : layers) {
    json["layers"].push_back(
        {{"neurons", divided.layer.weights.size()},
         {"inputs", divided.layer.input_workers.size()},
         {"workers", divided.layer.workers},
         {"lambda", divided.layer.lambda ? Json(*divided.layer.lambda) : Json()},
         {"in_order", cost_json(divided.contiguous)},
         {"cheapest", cost_json(divided.cheapest)},
         {"worker_of_neuron", divided.places}});
  }
  return json.dump(2) + "\n";
}

}  // namespace understudy
