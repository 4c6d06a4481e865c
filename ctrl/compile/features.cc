#include "ctrl/compile/features.h"

#include <algorithm>
#include <string>

#include "ctrl/config/job_operation.h"
#include "ctrl/config/kernel_nodes.h"
#include "ctrl/config/network_wanted.h"
#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

bool is_kernel(const Config& config, NodeId node) { return config.nodes[node].kernel.has_value(); }

size_t real_nodes(const Config& config, const JobConfig& job) {
  return static_cast<size_t>(
      std::ranges::count_if(job.ranks, [&](NodeId node) { return config.nodes[node].real; }));
}

size_t kernels(const Config& config, const JobConfig& job) {
  return static_cast<size_t>(
      std::ranges::count_if(job.ranks, [&](NodeId node) { return is_kernel(config, node); }));
}

/// The job has ranks on a real node of this side, or there is none of any.
bool is_of(const Config& config, const JobConfig& job, RealSide side) {
  if (side == RealSide::kKernel) return kernels(config, job) > 0;
  if (side == RealSide::kReference) return has_reference_ranks(config, job);
  return true;
}

/// The first job of this side that is so.
template <typename Is>
Found first_job(const Asked& asked, RealSide side, const char* found, const Is& is) {
  for (const JobConfig& job : asked.config.jobs) {
    if (is_of(asked.config, job, side) && is(job)) return Place{job.line, "job", found};
  }
  return std::nullopt;
}

std::string counted(size_t count, const char* what) { return std::to_string(count) + " " + what; }

}  // namespace

Found find_kernel(const Asked& asked, RealSide) {
  for (const NodeConfig& node : asked.config.nodes) {
    if (node.kernel) return Place{node.line, "node", "\"" + node.name + "\", a kernel"};
  }
  return std::nullopt;
}

Found find_plain_ring(const Asked& asked, RealSide side) {
  return first_job(asked, side, "a plain ring", [&](const JobConfig& job) {
    return !job.join && is_plain_ring(asked.config, job);
  });
}

Found find_other_job(const Asked& asked, RealSide side) {
  return first_job(asked, side, "no plain ring", [&](const JobConfig& job) {
    return !job.join && !is_plain_ring(asked.config, job);
  });
}

Found find_join(const Asked& asked, RealSide side) {
  return first_job(asked, side, "join", [](const JobConfig& job) { return job.join.has_value(); });
}

Found find_communicators(const Asked& asked, RealSide side) {
  return first_job(asked, side, "communicators in join",
                   [](const JobConfig& job) { return job.join && !job.join->joins_once(); });
}

Found find_children(const Asked& asked, RealSide side) {
  return first_job(asked, side, "child_of",
                   [](const JobConfig& job) { return job.child.has_value(); });
}

Found find_dimensions(const Asked& asked, RealSide side) {
  return first_job(asked, side, "an algorithm for each dimension",
                   [](const JobConfig& job) { return !job.dimensions.empty(); });
}

namespace {

Found find_algorithms(const Asked& asked, RealSide side, bool (*is)(Algorithm)) {
  for (const JobConfig& job : asked.config.jobs) {
    if (!job.algorithm || !is(*job.algorithm) || !is_of(asked.config, job, side)) continue;
    std::string name = "\"";
    name.append(name_of(kAlgorithmNames, job.algorithm)).append("\"");
    return Place{job.line, "job.algorithm", name};
  }
  return std::nullopt;
}

}  // namespace

Found find_nvls(const Asked& asked, RealSide side) { return find_algorithms(asked, side, is_nvls); }

Found find_collnet(const Asked& asked, RealSide side) {
  return find_algorithms(asked, side, is_collnet);
}

Found find_queue_pairs(const Asked& asked, RealSide side) {
  return first_job(asked, side, "queue_pairs",
                   [](const JobConfig& job) { return job.queue_pairs > 1; });
}

Found find_period(const Asked& asked, RealSide side) {
  return first_job(asked, side, "period",
                   [](const JobConfig& job) { return job.period > Duration(); });
}

Found find_start(const Asked& asked, RealSide side) {
  return first_job(asked, side, "start",
                   [](const JobConfig& job) { return job.start > Time::zero(); });
}

/// A job of this side waits for another one, or is waited for.
Found find_after(const Asked& asked, RealSide side) {
  const Config& config = asked.config;
  for (const JobConfig& job : config.jobs) {
    const bool found = std::ranges::any_of(job.after, [&](uint32_t former) {
      return is_of(config, job, side) || is_of(config, config.jobs[former], side);
    });
    if (found) return Place{job.line, "job", "after"};
  }
  return std::nullopt;
}

Found find_compute(const Asked& asked, RealSide side) {
  return first_job(asked, side, "compute",
                   [](const JobConfig& job) { return job.iteration.computes(); });
}

Found find_ddp(const Asked& asked, RealSide side) {
  return first_job(asked, side, "ddp", [](const JobConfig& job) { return job.iteration.ddp; });
}

Found find_several(const Asked& asked, RealSide side) {
  for (const JobConfig& job : asked.config.jobs) {
    const size_t count = real_nodes(asked.config, job);
    if (count < 2 || !is_of(asked.config, job, side)) continue;
    return Place{job.line, "job", counted(count, "real nodes in the job")};
  }
  return std::nullopt;
}

Found find_several_not_told(const Asked& asked, RealSide side) {
  for (const JobConfig& job : asked.config.jobs) {
    const size_t count = real_nodes(asked.config, job);
    if (count < 2 || job.operations == OperationsMode::kTold) continue;
    if (!is_of(asked.config, job, side)) continue;
    return Place{job.line, "job", counted(count, "real nodes in the job")};
  }
  return std::nullopt;
}

Found find_all_real_not_told(const Asked& asked, RealSide side) {
  for (const JobConfig& job : asked.config.jobs) {
    const size_t count = real_nodes(asked.config, job);
    if (count != job.ranks.size() || job.operations == OperationsMode::kTold) continue;
    if (!is_of(asked.config, job, side)) continue;
    return Place{job.line, "job", counted(count, "real nodes and no emulated rank")};
  }
  return std::nullopt;
}

namespace {

Found find_both_kinds(const Asked& asked, bool joined) {
  for (const JobConfig& job : asked.config.jobs) {
    if (kernels(asked.config, job) == 0 || !has_reference_ranks(asked.config, job)) continue;
    if (job.join.has_value() != joined) continue;
    return Place{job.line, "job", "ranks on kernels and on nodes with real = true"};
  }
  return std::nullopt;
}

}  // namespace

Found find_communicators_of_both_kinds(const Asked& asked, RealSide side) {
  const Found both = find_both_kinds(asked, true);
  return both && find_communicators(asked, side) ? both : std::nullopt;
}

Found find_both_kinds_alone(const Asked& asked, RealSide) { return find_both_kinds(asked, false); }

Found find_both_kinds_joined(const Asked& asked, RealSide) { return find_both_kinds(asked, true); }

Found find_several_joined(const Asked& asked, RealSide side) {
  for (const JobConfig& job : asked.config.jobs) {
    const size_t count = real_nodes(asked.config, job);
    if (!job.join || count < 2 || !is_of(asked.config, job, side)) continue;
    const char* what = side == RealSide::kKernel ? "kernels" : "real nodes in the job";
    return Place{job.line, "job", counted(count, what)};
  }
  return std::nullopt;
}

namespace {

Found find_all_real(const Asked& asked, RealSide side, bool untold) {
  for (const JobConfig& job : asked.config.jobs) {
    if (untold && (job.join || is_plain_ring(asked.config, job))) continue;
    const bool kernel = side == RealSide::kKernel;
    const size_t count = kernel ? kernels(asked.config, job) : real_nodes(asked.config, job);
    if (count != job.ranks.size() || !is_of(asked.config, job, side)) continue;
    const char* what = kernel ? "kernels and no emulated rank" : "real nodes and no emulated rank";
    return Place{job.line, "job", counted(count, what)};
  }
  return std::nullopt;
}

}  // namespace

Found find_any_all_real(const Asked& asked, RealSide side) {
  return find_all_real(asked, side, false);
}
/// No NCCL of its own and no options of ring_node tell it.
Found find_untold_all_real(const Asked& asked, RealSide side) {
  return find_all_real(asked, side, true);
}

namespace {

Found find_operations(const Asked& asked, RealSide side, OperationsMode mode, const char* found) {
  return first_job(asked, side, found,
                   [&](const JobConfig& job) { return job.operations == mode; });
}

}  // namespace

Found find_fed(const Asked& asked, RealSide side) {
  return find_operations(asked, side, OperationsMode::kFed, "operations = \"fed\"");
}

Found find_inferred(const Asked& asked, RealSide side) {
  return find_operations(asked, side, OperationsMode::kInferred, "operations = \"inferred\"");
}

Found find_unlisted(const Asked& asked, RealSide side) {
  return first_job(asked, side, "a [[job]] without sizes",
                   [](const JobConfig& job) { return !job.listed; });
}

Found find_exact(const Asked& asked, RealSide side) {
  return first_job(asked, side, "payload = \"exact\"",
                   [](const JobConfig& job) { return job.payload == PayloadMode::kExact; });
}

Found find_merged(const Asked& asked, RealSide side) {
  return first_job(asked, side, "NICs that are merged",
                   [](const JobConfig& job) { return job.merged_nics > 1; });
}

Found find_merged_of_gpus(const Asked& asked, RealSide side) {
  return first_job(asked, side, "NICs that are merged, of several ranks a node",
                   [&](const JobConfig& job) {
                     return job.merged_nics > 1 && gpus_per_node(asked.config, job) > 1;
                   });
}

Found find_inner_packets(const Asked& asked, RealSide side) {
  return first_job(asked, side, "inner = \"packets\"", [&](const JobConfig& job) {
    return job.inner == InnerMode::kPackets && can_carry(asked.config, job);
  });
}

namespace {

/// A job with inner = "packets" of which `is` says yes.
template <typename Is>
Found find_inner(const Asked& asked, Is is) {
  for (const JobConfig& job : asked.config.jobs) {
    if (job.inner != InnerMode::kPackets || !is(job)) continue;
    return Place{job.line, "job.inner", "\"packets\""};
  }
  return std::nullopt;
}

}  // namespace

Found find_inner_as_rates(const Asked& asked, RealSide) {
  return find_inner(asked, [&](const JobConfig&) {
    return asked.config.fabric.fidelity != FabricFidelity::kPacket;
  });
}

Found find_inner_inferred(const Asked& asked, RealSide) {
  return find_inner(
      asked, [](const JobConfig& job) { return job.operations == OperationsMode::kInferred; });
}

Found find_jobs_as_rates(const Asked& asked, RealSide) {
  const Config& config = asked.config;
  if (config.jobs.empty() || config.fabric.fidelity == FabricFidelity::kPacket) return std::nullopt;
  return Place{config.jobs.front().line, "job", "fabric.fidelity = \"flow\""};
}

Found find_topology(const Asked& asked, RealSide) {
  if (!asked.config.topology) return std::nullopt;
  return Place{0, "topology", "one"};
}

Found find_model(const Asked& asked, RealSide) {
  if (!asked.config.training) return std::nullopt;
  return Place{asked.config.training->line, "model", "a training job"};
}

Found find_workload(const Asked& asked, RealSide) {
  if (!asked.config.workload) return std::nullopt;
  return Place{asked.config.workload->line, "workload", "traces"};
}

Found find_reconverge(const Asked& asked, RealSide) {
  const auto& topology = asked.config.topology;
  if (!topology || !topology->reconverge) return std::nullopt;
  return Place{topology->line, "topology.reconverge", "a time"};
}

Found find_several_ports(const Asked& asked, RealSide) {
  const Config& config = asked.config;
  if (config.ports.size() < 2 || !asks_for_network(config)) return std::nullopt;
  return Place{config.ports[1].line, "port", "a second one in a network"};
}

namespace {

Found find_traffic(const Asked& asked, FabricFidelity fidelity) {
  const Config& config = asked.config;
  if (config.traffic.empty() || config.fabric.fidelity != fidelity) return std::nullopt;
  return Place{config.traffic.front().line, "traffic", "one"};
}

}  // namespace

Found find_traffic_packets(const Asked& asked, RealSide) {
  return find_traffic(asked, FabricFidelity::kPacket);
}

Found find_traffic_rates(const Asked& asked, RealSide) {
  return find_traffic(asked, FabricFidelity::kFlow);
}

Found find_nics(const Asked& asked, RealSide) {
  for (const NodeConfig& node : asked.config.nodes) {
    const bool any =
        std::ranges::any_of(node.nics, [](const NicConfig& nic) { return nic.limits.any(); });
    if (any) return Place{node.line, "node", "a [[nic]]"};
  }
  return std::nullopt;
}

Found find_real_nics(const Asked& asked, RealSide) {
  for (const NodeConfig& node : asked.config.nodes) {
    const bool any =
        std::ranges::any_of(node.nics, [](const NicConfig& nic) { return nic.limits.any(); });
    if (any && node.real) return Place{node.line, "node", "a [[nic]] of a real node"};
  }
  return std::nullopt;
}

Found find_separate_queue(const Asked& asked, RealSide) {
  if (asked.config.fabric.control_class != ControlClass::kSeparate) return std::nullopt;
  for (const NicKind& kind : asked.config.nic_kinds) {
    if (kind.limits.acks_wait()) return Place{kind.line, "nic.acks", "\"behind_data\""};
  }
  return std::nullopt;
}

Found find_slowdown(const Asked& asked, RealSide) {
  for (const TrafficConfig& traffic : asked.config.traffic) {
    if (traffic.slowdown) return Place{traffic.line, "traffic", "slowdown"};
  }
  return std::nullopt;
}

namespace {

/// The network and somebody who uses it by frames.
bool has_framed_network(const Config& config) {
  const bool users = !config.jobs.empty() || !config.services.empty() || !config.clients.empty();
  return (users || has_kernels(config)) && asks_for_network(config);
}

}  // namespace

Found find_no_pacing(const Asked& asked, RealSide) {
  if (!has_framed_network(asked.config) || asked.config.fabric.pacing) return std::nullopt;
  return Place{0, "fabric.pacing", "false"};
}

Found find_separate_class(const Asked& asked, RealSide) {
  const Config& config = asked.config;
  if (!has_framed_network(config)) return std::nullopt;
  if (config.fabric.control_class != ControlClass::kSeparate) return std::nullopt;
  return Place{0, "fabric.control_class", "\"separate\""};
}

Found find_unlimited(const Asked& asked, RealSide) {
  if (!has_framed_network(asked.config)) return std::nullopt;
  for (const NodeConfig& node : asked.config.nodes) {
    for (const NicConfig& nic : node.nics) {
      if (nic.link_rate.is_unlimited()) return Place{node.line, "node.link.rate", "\"unlimited\""};
    }
  }
  return std::nullopt;
}

Found find_event(const Asked& asked, RealSide) {
  if (asked.config.events.empty()) return std::nullopt;
  return Place{0, "event", "one"};
}

Found find_service(const Asked& asked, RealSide) {
  if (asked.config.services.empty()) return std::nullopt;
  return Place{0, "service", "one"};
}

namespace {

Found option(bool is, const char* name) {
  if (!is) return std::nullopt;
  return Place{0, name, ""};
}

}  // namespace

Found find_capture(const Asked& asked, RealSide) { return option(asked.capture, "--capture"); }

Found find_series(const Asked& asked, RealSide) { return option(asked.series, "--series, --plot"); }

Found find_feed(const Asked& asked, RealSide) { return option(asked.feed, "--feed"); }

}  // namespace understudy
