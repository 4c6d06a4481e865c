#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>

#include "ctrl/cli/commands.h"
#include "ctrl/schedule/schedule_text.h"

namespace understudy {
namespace {

struct ScheduleArguments {
  std::string config, job;
  std::optional<uint32_t> rank;
  bool json = false, messages = false;
};

/// The first rank on a real node, or 0.
uint32_t interesting_rank(const Config& config, const JobConfig& job, const Communicator& c) {
  for (uint32_t node = 0; node < job.ranks.size(); ++node) {
    if (config.nodes[job.ranks[node]].real) return node * c.gpus;
  }
  return 0;
}

int schedule(const ScheduleArguments& arguments) {
  const auto config = load_or_complain(arguments.config);
  if (!config || !lists_operations(*config, "schedule")) return kExitBadInput;
  std::vector<ScheduleView> views;
  for (const JobConfig& job : config->jobs) {
    if (!arguments.job.empty() && job.name != arguments.job) continue;
    ScheduleView view;
    view.job = job.name;
    view.communicator = job_communicator(*config, job);
    auto schedules = job_schedules(*config, job);
    if (!schedules) {
      std::fprintf(stderr, "%s\n", schedules.error().text.c_str());
      return kExitBadInput;
    }
    view.schedules = std::move(*schedules);
    for (const NodeId node : job.ranks) view.nodes.push_back(config->nodes[node].name);
    view.rank = arguments.rank.value_or(interesting_rank(*config, job, view.communicator));
    view.messages = arguments.messages;
    if (view.rank >= view.communicator.ranks()) {
      std::fprintf(stderr, "--rank %u: the ranks of job %s are 0 to %u\n", view.rank,
                   job.name.c_str(), view.communicator.ranks() - 1);
      return kExitBadInput;
    }
    views.push_back(std::move(view));
  }
  if (views.empty()) {
    if (arguments.job.empty()) {
      std::fprintf(stderr, "%s: schedule needs at least one [[job]]\n", config->path.c_str());
    } else {
      std::fprintf(stderr, "--job %s: %s has no job of this name\n", arguments.job.c_str(),
                   config->path.c_str());
    }
    return kExitBadInput;
  }
  const std::string text = arguments.json ? schedule_json(views) : schedule_text(views);
  std::fputs(text.c_str(), stdout);
  return kExitOk;
}

}  // namespace

void add_schedule(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "schedule", "Says which messages NCCL sends for the jobs: channels, connections, sizes");
  auto arguments = std::make_shared<ScheduleArguments>();
  command->add_option("config", arguments->config, "Configuration (TOML)")->required();
  command->add_option("--job", arguments->job, "Only this job");
  command->add_option("--rank", arguments->rank,
                      "Whose connections (default: the first rank on a real node, else 0)");
  command->add_flag("--messages", arguments->messages,
                    "Each message: its bytes, where they lie, and what it waits for");
  command->add_flag("--json", arguments->json, "Print it as JSON");
  command->footer("Example: understudy schedule configs/quickstart.toml --rank 1 --messages");
  command->callback([arguments, &status] { status = schedule(*arguments); });
}

}  // namespace understudy
