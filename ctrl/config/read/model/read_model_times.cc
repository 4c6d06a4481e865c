// Times of a training job that were measured or are assumed: of layers in [gpu], of operations in [operations].
#include <string>
#include <utility>

#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

constexpr const char* kExample = "as \"4.5ms\", of one micro-batch";

/// Of a layer, or of the output layer. The optimizer's step is a layer's alone.
void read_times(TableReader& gpu, std::string_view key, ReadContext& context,
                const Parallel& parallel, std::optional<GivenTimes>& out,
                std::optional<double>* optimizer) {
  const TomlNode* toml = gpu.table(key);
  if (toml == nullptr) return;
  TableReader table(*toml, "gpu." + std::string(key), context.errors);
  table.require("forward", kExample);
  table.require("backward", kExample);
  const auto forward = table.duration("forward"), backward = table.duration("backward"),
             weights = table.duration("weight_gradient");
  if (optimizer != nullptr) {
    if (const auto step = table.duration("optimizer")) *optimizer = step->value.seconds();
  }
  table.finish();
  if (!forward || !backward) return;
  if (weights && weights->value > backward->value) {
    table.error(weights->line, "weight_gradient", table.any("weight_gradient")->describe(),
                "it is a part of backward, and not longer");
  }
  if (!weights && parallel.schedule == PipelineSchedule::kZeroBubbleH1) {
    table.error(table.line(), "weight_gradient", "nothing: the key is missing",
                "with schedule = \"zb-h1\": the part of backward that can wait");
  }
  out = GivenTimes{forward->value.seconds(), backward->value.seconds(),
                   weights ? weights->value.seconds() : 0};
}

void read_factor(TableReader& table, std::string_view key, std::optional<double>& out) {
  const auto factor = table.number(key);
  if (!factor) return;
  out = factor->value;
  if (factor->value >= 1e-6 && factor->value <= 1e6) return;
  table.error(factor->line, key, table.any(key)->describe(),
              "expected how many times an operation's bytes pass, from 0.000001 to 1000000");
}

}  // namespace

void read_given_times(TableReader& gpu, ReadContext& context, TrainingConfig& training,
                      TrainingGpu& out) {
  read_times(gpu, "layer", context, training.parallel, out.layer, &out.layer_optimizer);
  const TomlNode* layer = gpu.any("layer");
  if (layer != nullptr && training.model.experts > 0 && training.model.dense_layers > 0) {
    gpu.error(layer->line, "layer", "one time of a layer",
              "a model with dense_layers and experts has layers of two kinds");
  }
  read_times(gpu, "output", context, training.parallel, out.output, nullptr);
}

void read_operations(const TomlNode& toml, ReadContext& context, TrainingConfig& training) {
  TableReader table(toml, "operations", context.errors);
  training.operations_line = table.line();
  for (const auto& [key, number] :
       {std::pair{"ep", training.parallel.ep}, std::pair{"cp", training.parallel.cp}}) {
    if (number == 1) continue;
    table.error(
        table.line(), "data", std::string(key) + " = " + std::to_string(number),
        "operations of experts and of context parallelism have no formula here: give nodes");
  }
  GivenOperations operations;
  const Parallel& parallel = training.parallel;
  struct Group {
    const char* key;
    OperationTimes* out;
    const char* ranks;
    uint32_t number;
  };
  for (const Group& group : {Group{"tensor", &operations.tensor, "tp", parallel.tp},
                             Group{"pipeline", &operations.pipeline, "pp", parallel.pp},
                             Group{"data", &operations.data, "dp", parallel.dp}}) {
    const TomlNode* own = table.table(group.key);
    if (own == nullptr) {
      if (group.number < 2) continue;
      table.require(group.key, "{ rate = \"180Gbit/s\", latency = \"20us\" }, as " +
                                   std::string(group.ranks) + " is " +
                                   std::to_string(group.number));
      continue;
    }
    TableReader times(*own, "operations." + std::string(group.key), context.errors);
    times.require("rate", "as \"180Gbit/s\"");
    if (const auto rate = times.memory_rate("rate")) group.out->rate = rate->value;
    if (const auto latency = times.duration("latency")) group.out->latency = latency->value;
    read_factor(times, "all_reduce", group.out->all_reduce);
    read_factor(times, "all_gather", group.out->all_gather);
    read_factor(times, "reduce_scatter", group.out->reduce_scatter);
    times.finish();
  }
  table.finish();
  training.operations = operations;
}

}  // namespace understudy
