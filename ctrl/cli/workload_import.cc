#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "ctrl/cli/commands.h"
#include "ctrl/traces/pytorch/job_import.h"
#include "ctrl/traces/trace_output.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

struct ImportArguments {
  RecordedFiles files;
  std::string output, format = "json";
};

/// Returns what to print.
Result<std::string> imported(const ImportArguments& arguments) {
  const bool as_et = arguments.format == "et";
  const std::string other = arguments.output + (as_et ? ".0.json" : ".0.et");
  if (std::filesystem::exists(other)) {
    return fail(other + ": it would be read in place of what is to be written, or beside it");
  }
  ImportedJob job = TRY(import_job(arguments.files));
  const std::string text = import_text(job);
  TraceJob traces;
  traces.groups = std::move(job.groups);
  for (ImportedRank& rank : job.ranks) {
    traces.ranks.push_back(std::make_shared<const TraceGraph>(std::move(rank.made.graph)));
  }
  const TraceFormat format = as_et ? TraceFormat::kEt : TraceFormat::kJson;
  return text + "written: " + TRY(write_traces(traces, format, arguments.output)) + "\n";
}

}  // namespace

void add_workload_import(CLI::App& workload, int& status) {
  CLI::App* command = workload.add_subcommand(
      "import", "Makes execution traces of what PyTorch recorded of a job's ranks");
  auto arguments = std::make_shared<ImportArguments>();
  command
      ->add_option("hosts", arguments->files.hosts,
                   "Host trace of each rank (JSON of torch's execution trace observer)")
      ->required();
  command->add_option("--device", arguments->files.devices,
                      "Device trace of each rank, in the same order: JSON that torch.profiler "
                      "exports; without it nodes on the CPU take no time");
  command
      ->add_option("--output", arguments->output,
                   "Prefix of what is written: PREFIX.RANK.json, and PREFIX.groups.json")
      ->required();
  command
      ->add_option("--format", arguments->format, "json: what Chakra's feeder reads; et: Chakra's")
      ->check(CLI::IsMember({"json", "et"}))
      ->capture_default_str();
  command->footer(
      "Example: understudy workload import host0.json host1.json --device kineto0.json "
      "kineto1.json --output traces/job");
  command->callback([arguments, &status] { status = print_or_refuse(imported(*arguments)); });
}

}  // namespace understudy
