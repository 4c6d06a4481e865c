#include "ctrl/config/job_operation.h"

#include <algorithm>

#include "ctrl/config/sections.h"

namespace understudy {
namespace {

// Whose cutting ring_node follows: see collective_model/channel_cut.h.
constexpr NcclVersion kOldestToRun{23}, kNewestToRun{28};

constexpr Named<NcclVersion> kVersionNames[] = {
    {"2.8", {8}},   {"2.9", {9}},   {"2.10", {10}}, {"2.11", {11}}, {"2.12", {12}}, {"2.13", {13}},
    {"2.14", {14}}, {"2.15", {15}}, {"2.16", {16}}, {"2.17", {17}}, {"2.18", {18}}, {"2.19", {19}},
    {"2.20", {20}}, {"2.21", {21}}, {"2.22", {22}}, {"2.23", {23}}, {"2.24", {24}}, {"2.25", {25}},
    {"2.26", {26}}, {"2.27", {27}}, {"2.28", {28}}, {"2.29", {29}}, {"2.30", {30}},
};

std::string quoted(std::string_view key, std::string_view value) {
  return std::string(key) + " = \"" + std::string(value) + "\"";
}

/// What about this job is not a plain ring; empty if nothing.
std::string not_plain(const Config& config, const JobConfig& job) {
  if (job.collective != Collective::kAllReduce) {
    return quoted("collective", name_of(kCollectiveNames, job.collective));
  }
  if (job.algorithm != Algorithm::kRing) {
    return quoted("algorithm", name_of(kAlgorithmNames, job.algorithm));
  }
  if (!job.dimensions.empty()) return "an algorithm for each dimension";
  if (job.protocol != Protocol::kSimple) {
    return quoted("protocol", name_of(kProtocolNames, job.protocol));
  }
  if (job.type != DataType::kFloat32) return quoted("type", name_of(kDataTypeNames, job.type));
  if (job.group) return "group = true";
  if (job.iteration.whole) return "order = \"iteration\"";
  const uint32_t gpus = gpus_per_node(config, job);
  if (gpus > 1) return std::to_string(gpus) + " ranks on each node";
  if (job.ranks.size() == 1) return "a single node";
  return "";
}

/// What about it ring_node does not know; empty if nothing.
std::string not_for_ring_node(const Config& config, const JobConfig& job) {
  if (job.nccl < kOldestToRun || job.nccl > kNewestToRun) {
    return quoted("nccl", name_of(kVersionNames, job.nccl));
  }
  return not_plain(config, job);
}

}  // namespace

bool has_root(Collective collective) {
  return is_pipeline(collective) || collective == Collective::kGather ||
         collective == Collective::kScatter;
}

bool has_parts(Collective collective) {
  return has_rank_parts(collective) || collective == Collective::kAllToAll ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

uint32_t gpus_per_node(const Config& config, const JobConfig& job) {
  if (job.gpus) return *job.gpus;
  uint32_t least = static_cast<uint32_t>(kMostGpus);
  for (const NodeId node : job.ranks) least = std::min(least, config.nodes[node].gpus);
  return least;
}

uint64_t job_rank_count(const Config& config, const JobConfig& job) {
  return uint64_t{gpus_per_node(config, job)} * job.ranks.size();
}

bool all_emulated(const Config& config) {
  return std::ranges::none_of(config.nodes, [](const NodeConfig& node) { return node.real; });
}

bool is_plain_ring(const Config& config, const JobConfig& job) {
  return not_plain(config, job).empty();
}

std::string why_not_run(const Config& config) {
  if (all_emulated(config)) return "";  // there is no port
  for (const NodeConfig& node : config.nodes) {
    if (!node.kernel) continue;
    return config.path + ":" + std::to_string(node.line) + ": node: \"" + node.name +
           "\" is a kernel in virtual time, and run is in real time: use understudy simulate, or "
           "real = true for a node on the wire";
  }
  for (const JobConfig& job : config.jobs) {
    const std::string at = config.path + ":" + std::to_string(job.line) + ": job: ";
    const std::string unknown = job.join ? "" : not_for_ring_node(config, job);
    if (!unknown.empty()) {
      return at + "found " + unknown +
             ": ring_node knows \"all_reduce\" by \"ring\" and \"simple\" of float32, with one "
             "rank a node; a job of NCCL's own has a key join";
    }
    if (job.join && !job.dimensions.empty()) {
      return at + "found an algorithm for each dimension: NCCL knows none such";
    }
    if (job.period > Duration()) {
      return at + "found period: run's real node has no clock in common with emulated ones";
    }
    if (job.iteration.computes()) {
      return at + "found compute: what run's real node computes is its own";
    }
    const auto real = std::count_if(job.ranks.begin(), job.ranks.end(),
                                    [&](NodeId node) { return config.nodes[node].real; });
    if (real == 0) {
      return at + "found no real node: run needs one rank on a node with real = true";
    }
    if (real > 1) {
      return at + "found " + std::to_string(real) +
             " real nodes in the job: run's ports have a packet loop each, which share no job and "
             "no links; simulate's do";
    }
  }
  return "";
}

void read_operation(TableReader& table, ReadContext& context, JobConfig& job) {
  table.require("collective", "\"all_reduce\", or another collective");
  table.choice_among("collective", kCollectiveNames, job.collective);
  const TomlNode* algorithm = table.any("algorithm");
  if (algorithm != nullptr && algorithm->kind == TomlNode::Kind::kArray) {
    read_dimension_algorithms(table, context, job);
  } else {
    table.choice_among("algorithm", kAlgorithmNames, job.algorithm);
  }
  table.choice_among("protocol", kProtocolNames, job.protocol);
  table.choice_among("type", kDataTypeNames, job.type);
  table.choice_among("nccl", kVersionNames, job.nccl);
}

}  // namespace understudy
