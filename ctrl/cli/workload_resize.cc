#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <utility>

#include "ctrl/cli/commands.h"
#include "ctrl/traces/astra_json.h"
#include "ctrl/traces/et_write.h"
#include "ctrl/traces/trace_files.h"
#include "ctrl/traces/trace_output.h"
#include "ctrl/traces/trace_resize.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

struct ResizeArguments {
  std::string trace, output, groups, format;
  ResizeOptions options;
};

/// The .et file of a rank of the input; empty: there is none.
std::string et_path(const std::string& trace, uint32_t rank) {
  const std::string of_rank = trace + "." + std::to_string(rank) + ".et";
  if (std::filesystem::is_regular_file(trace)) return trace.ends_with(".et") ? trace : "";
  return std::filesystem::exists(of_rank) ? of_rank : "";
}

Result<std::string> resized(const ResizeArguments& arguments) {
  TraceJob job = TRY(read_traces(arguments.trace, {}));
  if (!arguments.groups.empty()) {
    job.groups = TRY(read_astra_groups(TRY(read_whole_file(arguments.groups)), arguments.groups));
  }
  const auto made = TraceResize::make(job, arguments.options);
  if (!made) return fail(arguments.trace + ": " + made.error().text);
  const bool from_et = !et_path(arguments.trace, 0).empty();
  const std::string format = !arguments.format.empty() ? arguments.format : from_et ? "et" : "json";
  const TraceJob wanted = made->job();
  std::string said;
  if (format == "et" && from_et) {
    // Attributes that graphs do not have stay.
    said = TRY(write_traces(
        wanted, TraceFormat::kEt, arguments.output, [&](size_t number) -> Result<std::string> {
          const auto rank = static_cast<uint32_t>(number);
          const std::string bytes =
              TRY(read_whole_file(et_path(arguments.trace, made->model(rank))));
          return rewrite_et({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                            [&](TraceNode& node) { made->change(rank, node); });
        }));
  } else {
    said = TRY(write_traces(wanted, format == "et" ? TraceFormat::kEt : TraceFormat::kJson,
                            arguments.output));
  }
  std::string text = std::to_string(wanted.ranks.size()) + " ranks: " + said + "\n";
  for (const std::string& sentence : made->assumed()) text += "assumed: " + sentence + "\n";
  return text;
}

}  // namespace

void add_workload_resize(CLI::App& workload, int& status) {
  CLI::App* command = workload.add_subcommand(
      "resize", "Repeats what the replicas of a data-parallel job do, for another number of ranks");
  auto arguments = std::make_shared<ResizeArguments>();
  const CLI::Range counts(1U, 1U << 20, "COUNT");
  command->add_option("trace", arguments->trace, "Traces as `workload stats` takes them")
      ->required();
  command->add_option("--ranks", arguments->options.ranks, "Ranks wanted")
      ->required()
      ->check(counts);
  command->add_option("--output", arguments->output, "The prefix of PREFIX.RANK.et")->required();
  command->add_option(
      "--comm-groups", arguments->groups,
      "ASTRA-sim's file of communicator groups; PREFIX.groups.json gets the new ones");
  command
      ->add_option("--replicas", arguments->options.replicas,
                   "How many replicas the traces have (default: what repeats is looked for)")
      ->check(counts);
  command
      ->add_option("--inner", arguments->options.inner,
                   "Neighbouring ranks that are of one replica, before the next one's come")
      ->check(counts);
  command->add_option("--format", arguments->format, "et or json (default: as the traces have it)")
      ->check(CLI::IsMember({"et", "json"}));
  command->footer(
      "Example: understudy workload resize traces/gpt --ranks 64 --output traces/gpt64");
  command->callback([arguments, &status] { status = print_or_refuse(resized(*arguments)); });
}

}  // namespace understudy
