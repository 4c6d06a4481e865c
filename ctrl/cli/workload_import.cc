#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "ctrl/cli/commands.h"
#include "ctrl/traces/feeder_json_write.h"
#include "ctrl/traces/pytorch/job_import.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

struct ImportArguments {
  RecordedFiles files;
  std::string output;
};

Result<void> written(std::ofstream& file, const std::string& path) {
  file.close();
  if (!file) return fail(path + ": cannot be written");
  return {};
}

/// Returns what to print.
Result<std::string> imported(const ImportArguments& arguments) {
  const std::string other = arguments.output + ".0.et";
  if (std::filesystem::exists(other)) {
    return fail(other + ": it would be read in place of what is to be written");
  }
  const ImportedJob job = TRY(import_job(arguments.files));
  std::string text = import_text(job);
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const std::string path = arguments.output + "." + std::to_string(rank) + ".json";
    std::ofstream file(path, std::ios::binary);
    write_feeder_json(job.ranks[rank].made.graph, file);
    TRY(written(file, path));
    text += "written: " + path + "\n";
  }
  if (!job.groups.empty()) {
    const std::string path = arguments.output + ".groups.json";
    std::ofstream file(path, std::ios::binary);
    file << groups_json(job.groups);
    TRY(written(file, path));
    text += "written: " + path + ", for --comm-groups\n";
  }
  return text;
}

int run_import(const ImportArguments& arguments) {
  const auto text = imported(arguments);
  if (!text) {
    std::fprintf(stderr, "%s\n", text.error().text.c_str());
    return kExitBadInput;
  }
  std::fputs(text->c_str(), stdout);
  return kExitOk;
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
  command->footer(
      "Example: understudy workload import host0.json host1.json --device kineto0.json "
      "kineto1.json --output traces/job");
  command->callback([arguments, &status] { status = run_import(*arguments); });
}

}  // namespace understudy
