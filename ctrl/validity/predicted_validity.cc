#include <algorithm>

#include "ctrl/config/job_operation.h"
#include "ctrl/config/merged_nics.h"
#include "ctrl/report/text.h"
#include "ctrl/validity/validity.h"

namespace understudy {
namespace {

/// Of a job by dimensions, whose ranks have costs of their own.
bool has_dimension_costs(const Config& config) {
  return config.dimension_costs.endpoint > Duration() ||
         !config.dimension_costs.memory.is_unlimited();
}

void add_gpu_costs(ValidityLines& lines, const Config& config, const PredictedJob& predicted) {
  if (!predicted.job.dimensions.empty()) {
    if (has_dimension_costs(config)) return;
    lines.add("gpu-costs", "GPUs take no time: there is no [dimension_costs]");
    return;
  }
  if (config.calibration) return add_calibration(lines, config, predicted);
  lines.add("gpu-costs", predicted.job.step_cost > Duration()
                             ? "GPUs take step_cost for a step and nothing else: there is no "
                               "[calibration]"
                             : "GPUs take no time: there is no [calibration] (understudy "
                               "calibrate)");
}

}  // namespace

void add_nic_costs(ValidityLines& lines, const Config& config, const JobConfig& job,
                   const std::string& name) {
  const auto ideal = [](const NicConfig& nic) {
    return nic.limits.lead + nic.limits.tail == Duration();
  };
  const bool any = job.ranks.size() > 1 && std::ranges::any_of(job.ranks, [&](NodeId id) {
                     const NodeConfig& node = config.nodes[id];
                     return !node.real && std::ranges::any_of(node.nics, ideal);
                   });
  if (any) {
    lines.add("nic-costs", "NICs take no time of their own for a message (give [[nic]])", name);
  }
}

void add_acks_first(ValidityLines& lines, const Config& config) {
  for (const NodeConfig& node : config.nodes) {
    if (std::ranges::none_of(node.nics, [](const NicConfig& n) { return n.limits.acks_wait(); })) {
      continue;
    }
    return lines.add("acks-first",
                     "acknowledgements and credits go first here; in NICs like that of '" +
                         node.name + "' they queue behind data (understudy simulate, packets)");
  }
}

namespace {

void add_others(ValidityLines& lines, const Config& config, const JobConfig& job) {
  const std::string beside = runs_beside(config, job);
  if (beside.empty()) return;
  lines.add("alone", "the job has the network alone here, and " + beside +
                         " beside it (understudy simulate, compare)");
}

/// A calibration was measured with all NICs of a node; ranks that are emulated take one each.
void add_nics(ValidityLines& lines, const Config& config, const PredictedJob& predicted) {
  const uint32_t all = job_nics(config, predicted.job), used = used_nics(config, predicted.job);
  if (!config.calibration || predicted.communicator.nodes < 2 || all <= used) return;
  lines.add("nics", "a node's " + std::to_string(all) + " NICs carry its messages here, and " +
                        std::to_string(used) + " of them, one a GPU, in understudy simulate");
}

void add_network(ValidityLines& lines, const Config& config, const PredictedJob& predicted) {
  const JobConfig& job = predicted.job;
  if (predicted.communicator.nodes < 2) return;
  if (!predicted.switches) {
    lines.add("no-topology", "no switches: a path is its two ends' links (give [topology])");
  }
  if (predicted.unlimited) {
    lines.add("unlimited-links", "links of unlimited rate: bytes on them take no time");
  }
  lines.add("closed-form",
            std::string(predicted.as_flows ? "as flows" : "closed form") +
                ": no queues, losses, other jobs or [[traffic]] (understudy simulate has them)");
  add_acks_first(lines, config);
  if (!predicted.beyond.empty()) {
    lines.add(
        "beyond-closed-form",
        (predicted.in_switches && is_collnet(*predicted.in_switches)
             ? "the closed form is rough, and of what the network's switches reduce there are no "
               "messages to follow: "
             : "the closed form does not hold, and messages are too many to follow as flows, or in "
               "a group: ") +
            size_text(predicted.beyond.front()) +
            (predicted.beyond.size() == 1
                 ? ""
                 : " and " + std::to_string(predicted.beyond.size() - 1) + " more sizes"));
  }
  if (!predicted.counted) {
    lines.add("uncounted-links", "too many pairs to route: links between switches do not count");
  }
  const bool to_one = (job.collective == Collective::kGather) && predicted.communicator.nodes > 2;
  if (to_one) {
    lines.add("contention",
              "all nodes send to one at the same time, and their queues are not in the times "
              "(understudy simulate)");
  } else if (predicted.share < 0.9999) {
    lines.add("contention", "transfers share links and get " +
                                decimal_text(100 * predicted.share, 1) +
                                " % of the NICs' rate, without queues (understudy simulate)");
  }
}

void add_draws(ValidityLines& lines, const Config& config, const PredictedJob& predicted) {
  const IterationConfig& iteration = predicted.job.iteration;
  std::string drawn = predicted.drawn ? "paths by hash" : "";
  if (iteration.stated() && iteration.jitter) {
    drawn.append(drawn.empty() ? "" : ", ").append("jitter");
  }
  if (drawn.empty()) return;
  lines.add("one-seed", "drawn once, from seed " + std::to_string(config.seed) + ": " + drawn +
                            "; other seeds may give other times");
}

/// Without switches jobs on different NICs have no link in common.
bool may_meet(const Config& config, const JobConfig& a, const JobConfig& b) {
  const bool one_each = gpus_per_node(config, a) == 1 && gpus_per_node(config, b) == 1;
  return config.topology || !one_each || a.merged_nics > 1 || b.merged_nics > 1 || a.nic == b.nic;
}

}  // namespace

void add_nccl_limits(ValidityLines& lines, const Config& config, const JobConfig& job) {
  const uint32_t gpus = gpus_per_node(config, job);
  if (gpus < 2 || !job.dimensions.empty()) return;
  const Collective c = job.collective;
  const bool reduced_by_switches =
      c == Collective::kAllReduce || c == Collective::kAllGather || c == Collective::kReduceScatter;
  const bool real =
      std::ranges::any_of(job.ranks, [&](NodeId node) { return config.nodes[node].real; });
  const bool modelled =
      c == Collective::kAllReduce && config.nccl && config.nccl->system.nvls && !real;
  // Where nothing is said of GPUs they may be any.
  const bool may = !config.nccl || config.nccl->system.gpu >= GpuGeneration::kHopper;
  const bool asked = !job.algorithm || is_nvls(*job.algorithm);
  if (modelled && asked) {
    lines.add(
        "nvswitch",
        "what NVSwitches reduce takes shares of GPUs' links, at NCCL's efficiency: no packets "
        "or delays of the switches");
  }
  if (reduced_by_switches && may && !modelled) {
    lines.add("nvls", "NVLS is not modelled, which NCCL may choose on Hopper and later");
  }
  if (function_name(c).empty() && job.ranks.size() > 1 &&
      !(config.nccl && config.nccl->pxn && !real)) {
    lines.add("pxn",
              "PXN is not modelled, by which NCCL sends between nodes over another GPU's "
              "NIC");
  }
}

void add_machines(ValidityLines& lines, const Config& config) {
  for (const std::string& note : config.machine_notes) lines.add("machine", note);
}

std::string runs_beside(const Config& config, const JobConfig& job) {
  if (!config.traffic.empty()) return "[[traffic]] runs";
  if (!config.events.empty()) return "[[event]] acts";
  const auto self = static_cast<uint32_t>(&job - config.jobs.data());
  for (uint32_t j = 0; j < config.jobs.size(); ++j) {
    const JobConfig& other = config.jobs[j];
    const auto waits = [](const JobConfig& of, uint32_t for_job) {
      return std::ranges::find(of.after, for_job) != of.after.end();
    };
    if (j != self && !waits(job, j) && !waits(other, self) && may_meet(config, job, other))
      return "job '" + other.name + "' runs";
  }
  return "";
}

std::vector<ValidityLine> predicted_validity(const Config& config, const PredictedJob& predicted) {
  ValidityLines lines;
  const JobConfig& job = predicted.job;
  add_gpu_costs(lines, config, predicted);
  if (job.dimensions.empty() && !config.calibration) add_nic_costs(lines, config, job);
  add_machines(lines, config);
  add_nccl_limits(lines, config, job);
  const bool by_dimensions = !job.dimensions.empty();
  if (!by_dimensions && !config.calibration && !predicted.inside &&
      predicted.communicator.gpus_per_node() > 1) {
    lines.add("intra-node", "links inside nodes take no time");
  }
  add_draws(lines, config, predicted);
  if (by_dimensions) {
    lines.add("closed-form", "closed form of a stack of dimensions: no NCCL, queues or losses");
  } else {
    add_network(lines, config, predicted);
    add_others(lines, config, job);
    add_nics(lines, config, predicted);
  }
  return lines.take(0);
}

std::vector<ValidityLine> joined_validity(const std::vector<NamedValidity>& named) {
  ValidityLines lines;
  for (const NamedValidity& one : named) lines.add(one.lines, one.job);
  return lines.take(named.size());
}

}  // namespace understudy
