#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "ctrl/cli/commands.h"
#include "ctrl/simai/compute_times.h"
#include "ctrl/simai/estimate_text.h"
#include "ctrl/simai/ratio_files.h"

namespace understudy {
namespace {

struct SimaiArguments {
  std::string file, ratios, compute_times;
  SimaiCluster cluster;
  std::optional<uint32_t> gpus;
  bool layers = false, json = false;
};

int complain(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  return kExitBadInput;
}

int estimate(const SimaiArguments& arguments) {
  auto file = read_simai(arguments.file, arguments.gpus);
  if (!file) return complain(file.error().text());
  SimaiResult result{arguments.file, *std::move(file), arguments.cluster, {}};
  if (!arguments.ratios.empty()) {
    auto ratios = read_ratios(arguments.ratios);
    if (!ratios) return complain(ratios.error().text());
    result.cluster.ratios = *std::move(ratios);
  }
  if (!arguments.compute_times.empty()) {
    const auto times = read_aiob(arguments.compute_times);
    if (!times) return complain(times.error().text());
    const auto given = give_times(*times, result.file.workload);
    if (!given) return complain(arguments.file + ": " + given.error().text);
  }
  auto found = simai_estimate(result.file.workload, result.cluster);
  if (!found) return complain(arguments.file + ": " + found.error().text);
  result.estimate = *std::move(found);
  const std::string text =
      arguments.json ? simai_json(result, arguments.layers) : simai_text(result, arguments.layers);
  std::fputs(text.c_str(), stdout);
  return kExitOk;
}

}  // namespace

void add_workload_simai(CLI::App& workload, int& status) {
  CLI::App* command = workload.add_subcommand(
      "simai", "SimAI's analytical estimate of a list of layers that AICB wrote");
  auto arguments = std::make_shared<SimaiArguments>();
  SimaiCluster& cluster = arguments->cluster;
  command->add_option("file", arguments->file, "List of layers (text of AICB)")->required();
  const CLI::Range rates(0.01, 1e6, "RATE");
  command->add_option("--nvlink", cluster.nvlink, "GB/s of a GPU's NVLink, as SimAI's -nv")
      ->required()
      ->check(rates);
  command->add_option("--nic", cluster.nic, "GB/s of a NIC, as SimAI's -nic")
      ->required()
      ->check(rates);
  const CLI::Range counts(1U, 1U << 20, "COUNT");
  command->add_option("--gpus", arguments->gpus, "All GPUs (default: the file's all_gpus)")
      ->check(CLI::Range(1U, 1U << 30, "COUNT"));
  command->add_option("--gpus-per-node", cluster.gpus_per_node, "default 8")->check(counts);
  command->add_option("--nics-per-node", cluster.nics_per_node, "default 8")->check(counts);
  command->add_option("--ratios", arguments->ratios,
                      "Folder of SimAI's nic_ratio.csv, nvlink_ratio.csv and ata_ratio.csv");
  command->add_option("--compute-times", arguments->compute_times,
                      "Table of AICB's AIOB, for a list that was written without");
  const CLI::Range shares(0.0, 1.0, "SHARE");
  command->add_option("--dp-overlap", cluster.dp_overlap, "Share that computing hides, default 0")
      ->check(shares);
  command->add_option("--tp-overlap", cluster.tp_overlap, "default 0")->check(shares);
  command->add_option("--ep-overlap", cluster.ep_overlap, "default 0")->check(shares);
  command->add_option("--pp-overlap", cluster.pp_overlap, "default 1: all of it")
      ->check(CLI::Range(0.01, 1.0, "SHARE"));
  command->add_flag("--layers", arguments->layers, "Also each layer");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(
      "Example: understudy workload simai workload_analytical.txt --nvlink 360 --nic 48.5 "
      "--ratios inputs/ratio");
  command->callback([arguments, &status] { status = estimate(*arguments); });
}

}  // namespace understudy
