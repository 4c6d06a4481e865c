#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "collective_model/training/iteration_result.h"
#include "ctrl/cli/commands.h"
#include "ctrl/cli/replay_options.h"
#include "ctrl/compile/training/training_job.h"
#include "ctrl/traces/astra_json.h"
#include "ctrl/traces/goal/goal.h"
#include "ctrl/traces/replay_timeline.h"
#include "ctrl/traces/trace_files.h"
#include "ctrl/traces/trace_output.h"
#include "ctrl/traces/training_trace.h"
#include "dataplane/base/assert.h"
#include "dataplane/base/output_file.h"
#include "dataplane/base/text_format.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

struct ExportArguments {
  std::string input, format, output, rank = "gpu";
  ReplayOptions replay;
  uint32_t passes = 1;
  bool json = false;
};

/// What is exported, and what is said of it.
struct Exported {
  TraceJob job;
  std::optional<TrainingPlan> plan;  ///< of a [model], in whole nanoseconds
  std::optional<int64_t> own_finish_ns;
  std::optional<GoalSchedule> schedule;  ///< read, and written as one: nothing of it is lost
};

TrainingRanks ranks_of(const ExportArguments& arguments) {
  return arguments.rank == "gpu" ? TrainingRanks::kGpus : TrainingRanks::kGroups;
}

Result<TraceJob> traces_of(const ExportArguments& arguments, const ReplayFiles* files) {
  TraceFilesOptions options;
  if (files != nullptr) options.ranks = files->settings.network.ranks();
  options.passes = arguments.passes;
  TraceJob job = TRY(read_traces(arguments.input, options));
  const std::string& groups = arguments.replay.groups;
  if (!groups.empty()) job.groups = TRY(read_astra_groups(TRY(read_whole_file(groups)), groups));
  return job;
}

/// What one operation of a family takes by itself on that network, by a replay of nothing else.
Result<ClosedTime> lone_time(const TraceJob& job, const ReplaySettings& settings) {
  const auto done = TRY(replay(job, settings));
  Time last;
  for (size_t rank = 0; rank < done.size(); ++rank) {
    if (job.ranks[rank]->nodes().front().kind == TraceNodeKind::kCompute) continue;
    last = std::max(last, done[rank].finish);
  }
  return ClosedTime{last - Time::zero(), Duration()};
}

/// When the iterations end by this program's own rules, each operation taking what it takes by itself on
/// the network of the settings.
Result<int64_t> own_finish(const Config& config, const TrainingPlan& plan, TrainingRanks ranks,
                           const ReplaySettings& settings) {
  const Parallel& parallel = config.training->parallel;
  const uint64_t all =
      ranks == TrainingRanks::kGpus ? parallel.gpus() : uint64_t{parallel.pp} * parallel.replicas();
  std::vector<std::vector<ClosedTime>> times;
  const std::vector<TrainingFamily>& families = plan.graph.families;
  for (size_t f = 0; f < families.size(); ++f) {
    std::vector<ClosedTime>& own = times.emplace_back();
    std::map<std::pair<TrainingTransfer, uint64_t>, ClosedTime> known;
    for (const FamilyOperation& operation : families[f].operations) {
      const auto [it, fresh] = known.try_emplace({operation.transfer, operation.bytes});
      // A norm of one rank is left out of the traces.
      if (fresh && all > 1) {
        it->second =
            TRY(lone_time(lone_operation(parallel, ranks, families, f, operation), settings));
      }
      own.push_back(it->second);
    }
  }
  size_t next = 0;
  const auto job =
      close_training(config, plan, [&](const TrainingFamily&) { return times[next++]; });
  job->workload->begin();
  const auto iterations = iteration_results(job->plan.graph, *job->workload);
  return (iterations.back().end - Time::zero()).ps() / 1000;
}

Result<Exported> model_of(const ExportArguments& arguments, const Config& config,
                          const ReplayFiles* files) {
  Exported out;
  out.plan = TRY(plan_training(config));
  out.plan->graph = in_whole_ns(out.plan->graph);
  auto job = training_trace(out.plan->graph, config.training->parallel, ranks_of(arguments));
  if (!job) return fail(config.path + ": " + job.error().text);
  out.job = *std::move(job);
  if (files == nullptr) return out;
  const size_t there = files->settings.network.ranks(), needed = out.job.ranks.size();
  if (there != needed) {
    return fail(arguments.replay.network + ": the network has " + std::to_string(there) +
                " ranks, and the job " + std::to_string(needed) + " (" +
                (arguments.rank == "gpu" ? "each a GPU" : "each a tensor-parallel group") + ")");
  }
  auto finish = own_finish(config, *out.plan, ranks_of(arguments), files->settings);
  if (!finish) return fail(config.path + ": " + finish.error().text);
  out.own_finish_ns = *finish;
  return out;
}

bool writes_goal(const ExportArguments& arguments) { return arguments.format.starts_with("goal"); }

/// Nothing where the input is not one file with a schedule.
Result<std::optional<GoalSchedule>> schedule_of(const ExportArguments& arguments) {
  if (!std::filesystem::is_regular_file(arguments.input)) return std::nullopt;
  const std::string bytes = TRY(read_whole_file(arguments.input));
  if (!looks_like_goal(bytes)) return std::nullopt;
  return TRY(read_goal(bytes, arguments.input));
}

Result<std::string> write_goal(const ExportArguments& arguments, const Exported& exported) {
  GoalSchedule made;
  if (!exported.schedule) {
    auto cut = goal_of(exported.job);
    if (!cut) return fail(arguments.input + ": " + cut.error().text);
    made = *std::move(cut);
  }
  const GoalSchedule& schedule = exported.schedule ? *exported.schedule : made;
  TRY(replace_file(arguments.output,
                   arguments.format == "goal" ? goal_text(schedule) : goal_binary(schedule)));
  size_t operations = 0;
  for (const GoalRank& rank : schedule.ranks) operations += rank.operations.size();
  return format_text("%s, %zu operations", arguments.output.c_str(), operations);
}

Result<std::string> write(const ExportArguments& arguments, const Exported& exported,
                          const ReplayFiles* files) {
  const TraceJob& job = exported.job;
  if (writes_goal(arguments)) return write_goal(arguments, exported);
  if (arguments.format == "dot") {
    auto text = traces_dot(job);
    if (!text) return fail(arguments.input + ": " + text.error().text);
    TRY(replace_file(arguments.output, *text));
    return arguments.output;
  }
  if (arguments.format == "perfetto") {
    ASSERT_INVARIANT(files != nullptr);
    const auto ranks = replay(job, files->settings);
    if (!ranks) return fail(arguments.input + ": " + ranks.error().text);
    const ReplayTimeline timeline = replay_timeline(job, *ranks, files->settings);
    TRY(write_timeline(timeline.tracks, timeline.arrows, arguments.output));
    return arguments.output;
  }
  const TraceFormat format = arguments.format == "et" ? TraceFormat::kEt : TraceFormat::kJson;
  return write_traces(job, format, arguments.output);
}

std::string said_text(const ExportArguments& arguments, const Exported& exported,
                      const std::string& files) {
  size_t nodes = 0, ranks = exported.job.ranks.size();
  for (const auto& graph : exported.job.ranks) nodes += graph->nodes().size();
  if (exported.schedule) {
    ranks = exported.schedule->ranks.size();
    for (const GoalRank& rank : exported.schedule->ranks) nodes += rank.operations.size();
  }
  if (arguments.json) {
    nlohmann::ordered_json json = {{"schema", "understudy-trace-export/1"},
                                   {"format", arguments.format},
                                   {"ranks", ranks},
                                   {"nodes", nodes},
                                   {"files", files}};
    if (exported.plan) json["rank"] = arguments.rank;
    if (exported.own_finish_ns) json["own_finish_ns"] = *exported.own_finish_ns;
    return json.dump(2) + "\n";
  }
  std::string text = format_text("%zu ranks, %zu nodes: %s\n", ranks, nodes, files.c_str());
  if (exported.plan) {
    text += arguments.rank == "gpu"
                ? "A rank is a GPU. "
                : "A rank is a tensor-parallel group: the GPUs of one stage and replica. ";
    text +=
        "Operations of tensor parallelism are part of what is computed; times are rounded to "
        "nanoseconds.\n";
  }
  if (exported.own_finish_ns) {
    text += format_text(
        "By this program's own rules, with the times of that network, it ends at "
        "%" PRId64 " ns.\n",
        *exported.own_finish_ns);
  }
  return text;
}

int refused(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  return kExitBadInput;
}

int exported(const ExportArguments& arguments) {
  const bool has_network = !arguments.replay.network.empty();
  if (has_network != !arguments.replay.system.empty()) {
    return refused("--network and --system go together");
  }
  if (arguments.format == "perfetto" && !has_network) {
    return refused(
        "--format perfetto needs times, which are those of a replay: give --network and "
        "--system (of a [model], simulate --timeline writes its own)");
  }
  std::optional<ReplayFiles> files;
  if (has_network) {
    auto read = read_replay_files(arguments.replay);
    if (!read) return refused(read.error().text);
    files = *std::move(read);
  }
  const ReplayFiles* const given = files ? &*files : nullptr;
  Exported made;
  if (arguments.input.ends_with(".toml")) {
    const auto config = load_with_model(arguments.input);
    if (!config) return kExitBadInput;
    if (!config->training) return refused(config->path + ": there is no [model] to export");
    auto model = model_of(arguments, *config, given);
    if (!model) return refused(model.error().text);
    made = *std::move(model);
  } else if (writes_goal(arguments)) {
    auto schedule = schedule_of(arguments);
    if (!schedule) return refused(schedule.error().text);
    made.schedule = *std::move(schedule);
  }
  if (!made.plan && !made.schedule) {
    auto job = traces_of(arguments, given);
    if (!job) return refused(job.error().text);
    made.job = *std::move(job);
    print_notes(made.job);
  }
  const auto written = write(arguments, made, given);
  if (!written) return refused(written.error().text);
  std::fputs(said_text(arguments, made, *written).c_str(), stdout);
  return kExitOk;
}

}  // namespace

void add_workload_export(CLI::App& workload, int& status) {
  CLI::App* command = workload.add_subcommand(
      "export", "Writes execution traces, or the iterations of a [model], for other programs");
  auto arguments = std::make_shared<ExportArguments>();
  command
      ->add_option(
          "input", arguments->input,
          "Traces as `workload stats` takes them, or a configuration (.toml) with a [model]")
      ->required();
  command
      ->add_option(
          "--format", arguments->format,
          "et: Chakra's execution traces; json: what Chakra's feeder reads; dot: a picture "
          "for Graphviz; perfetto: a timeline of a replay, with arrows; goal, goal-binary: a "
          "schedule for LogGOPSim and ATLAHS, collectives cut into messages")
      ->required()
      ->check(CLI::IsMember({"et", "json", "dot", "perfetto", "goal", "goal-binary"}));
  command
      ->add_option("--output", arguments->output,
                   "The file; of et and json the prefix of PREFIX.RANK.et")
      ->required();
  command
      ->add_option("--rank", arguments->rank,
                   "What a rank is, of a [model]: a GPU, or all GPUs of a stage and replica")
      ->check(CLI::IsMember({"gpu", "tensor-group"}))
      ->capture_default_str();
  command->add_option("--passes", arguments->passes, "Iterations of a text workload")
      ->check(CLI::Range(1, 100000));
  add_replay_options(*command, arguments->replay, false);
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(
      "Example: understudy workload export configs/training/llama2_70b.toml --format et --output "
      "llama --rank tensor-group");
  command->callback([arguments, &status] { status = exported(*arguments); });
}

}  // namespace understudy
