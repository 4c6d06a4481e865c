#include "ctrl/compile/traces/trace_plan.h"

#include <filesystem>
#include <string>

#include "ctrl/traces/astra_json.h"
#include "ctrl/traces/trace_files.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// Of so many nodes of all ranks times are kept, for the timeline: some 200 MB.
constexpr size_t kMostRecorded = 8'000'000;

class TracePlanner {
 public:
  explicit TracePlanner(const Config& config) : config_(config), workload_(*config.workload) {}

  Result<std::shared_ptr<const TracePlan>> run() {
    TRY(check_nodes());
    auto plan = std::make_shared<TracePlan>();
    plan->gpus_per_node = config_.nodes.front().gpus;
    TraceRunSettings& settings = plan->settings;
    settings.rules = workload_.rules;
    if (workload_.system) {
      settings.system =
          TRY(read_astra_system(TRY(read_whole_file(*workload_.system)), *workload_.system));
    }
    if (workload_.memory) {
      settings.memory =
          TRY(read_astra_memory(TRY(read_whole_file(*workload_.memory)), *workload_.memory));
    }
    TraceFilesOptions options;
    options.ranks = workload_.ranks;
    if (!options.ranks && std::filesystem::is_regular_file(workload_.traces)) {
      options.ranks = static_cast<uint32_t>(config_.nodes.size()) * plan->gpus_per_node;
    }
    options.passes = workload_.passes;
    plan->job = TRY(read_traces(workload_.traces, options));
    if (workload_.groups) {
      plan->job.groups =
          TRY(read_astra_groups(TRY(read_whole_file(*workload_.groups)), *workload_.groups));
    }
    plan->job.dimensions = workload_.dimensions;
    TRY(check_ranks(*plan));
    TRY(check_memory(*plan));
    add_slow(*plan);
    size_t nodes = 0;
    for (const auto& graph : plan->job.ranks) nodes += graph->nodes().size();
    settings.recorded = nodes <= kMostRecorded;
    auto orders = order_job(plan->job, settings.rules);
    if (!orders) return fail(workload_.traces + ": " + orders.error().text + hint(plan->job));
    plan->orders = *std::move(orders);
    auto found = TraceCommunicators::find(plan->job, plan->orders, settings.rules,
                                          TraceComputing(settings.rules, settings.system));
    if (!found) return fail(workload_.traces + ": " + found.error().text);
    plan->found = *std::move(found);
    return std::shared_ptr<const TracePlan>(std::move(plan));
  }

 private:
  tl::unexpected<Error> no(unsigned line, const std::string& text) const {
    return fail(config_.path + ":" + std::to_string(line) + ": " + text);
  }

  /// What would help where dependencies contradict each other.
  std::string hint(const TraceJob& job) const {
    if (workload_.rules != TraceRules::kStreams || !order_job(job, TraceRules::kDataStreams)) {
      return "";
    }
    return " (by data dependencies alone none do: rules = \"data-streams\")";
  }

  Result<void> check_nodes() const {
    if (config_.nodes.empty()) {
      return no(workload_.line, "workload: there is no [[node]] to carry it out on");
    }
    if (config_.training) {
      return no(workload_.line,
                "workload: with [model]: both fill the nodes from the first one on; give each a "
                "file of its own");
    }
    return {};
  }

  Result<void> check_ranks(const TracePlan& plan) const {
    const size_t ranks = plan.job.ranks.size();
    if (plan.nodes() > config_.nodes.size()) {
      return no(workload_.line, "workload: " + std::to_string(ranks) + " ranks need " +
                                    std::to_string(plan.nodes()) + " nodes of " +
                                    std::to_string(plan.gpus_per_node) + " GPUs; there are " +
                                    std::to_string(config_.nodes.size()));
    }
    size_t product = 1;
    for (const uint32_t size : workload_.dimensions) product *= size;
    if (!workload_.dimensions.empty() && product != ranks) {
      return no(workload_.line, "workload.dimensions: together they have " +
                                    std::to_string(product) + " ranks; there are " +
                                    std::to_string(ranks));
    }
    TRY(check_equal_nodes(config_, plan.nodes(), "a [workload]"));
    for (const auto& [node, factor] : workload_.slow) {
      if (node < plan.nodes()) continue;
      return no(workload_.line, "workload.slow: node \"" + config_.nodes[node].name +
                                    "\" has no rank: there are " + std::to_string(ranks));
    }
    return {};
  }

  Result<void> check_memory(const TracePlan& plan) const {
    const TraceMemory& memory = plan.settings.memory;
    for (uint32_t rank = 0; rank < plan.job.ranks.size(); ++rank) {
      for (const TraceNode& node : plan.job.ranks[rank]->nodes()) {
        if (node.kind != TraceNodeKind::kMemoryLoad && node.kind != TraceNodeKind::kMemoryStore) {
          continue;
        }
        const std::string at = workload_.traces + ": " + place_text(plan.job, rank, node) + ": ";
        if (memory.kind == TraceMemory::Kind::kNone) {
          return fail(at + "there is no memory beyond the devices: give workload.remote_memory");
        }
        if (memory.kind == TraceMemory::Kind::kPerNode &&
            rank / memory.ranks_per_node >= memory.nodes) {
          return fail(at + "num-nodes and num-npus-per-node have no place for this rank");
        }
      }
    }
    return {};
  }

  void add_slow(TracePlan& plan) const {
    if (workload_.slow.empty()) return;
    plan.settings.slower.assign(plan.job.ranks.size(), 1);
    for (uint32_t rank = 0; rank < plan.job.ranks.size(); ++rank) {
      for (const auto& [node, factor] : workload_.slow) {
        if (plan.place(rank).node == node) plan.settings.slower[rank] *= factor;
      }
    }
  }

  const Config& config_;
  const WorkloadConfig& workload_;
};

}  // namespace

Result<std::shared_ptr<const TracePlan>> plan_traces(const Config& config) {
  return TracePlanner(config).run();
}

}  // namespace understudy
