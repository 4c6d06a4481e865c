#include <CLI/CLI.hpp>
#include <memory>

#include "ctrl/cli/commands.h"
#include "ctrl/partition/layer_file.h"
#include "ctrl/partition/partition_text.h"
#include "ctrl/simai/text_lines.h"

namespace understudy {
namespace {

struct PartitionArguments {
  std::string file;
  LayerOptions options;
  bool json = false;
};

Result<std::string> divided_text(const PartitionArguments& arguments) {
  const auto text = read_whole(arguments.file);
  if (!text) return fail(text.error().text());
  auto layers = parse_layers(*text, arguments.options);
  if (!layers) return fail(arguments.file + ": " + layers.error().text);
  std::vector<DividedLayer> divided;
  for (PartitionedLayer& layer : *layers) divided.push_back(divide(std::move(layer)));
  return arguments.json ? partition_json(divided) : partition_text(divided);
}

}  // namespace

void add_workload_partition(CLI::App& workload, int& status) {
  CLI::App* command = workload.add_subcommand(
      "partition", "Divides a layer's neurons over workers so that little crosses between them");
  auto arguments = std::make_shared<PartitionArguments>();
  LayerOptions& options = arguments->options;
  command->add_option("file", arguments->file, "Weights: CSV, a row for each neuron; or JSON")
      ->required();
  command->add_option("--workers", options.workers, "How many there are")
      ->check(CLI::Range(1U, 2048U, "COUNT"));
  auto* lambda = command->add_option("--lambda", options.lambda,
                                     "What a weight that crosses costs, as a squared weight");
  command->add_flag("--cut", options.cut, "Change no weight: count those that cross")
      ->excludes(lambda);
  command->add_option("--inputs", options.inputs,
                      "Worker of each input, as 0,0,1,1 (default: in order, as many on each)");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(
      "Example: understudy workload partition tests/data/workloads/partition/layer.csv --workers 2 "
      "--lambda 4");
  command->callback([arguments, &status] { status = print_or_refuse(divided_text(*arguments)); });
}

}  // namespace understudy
