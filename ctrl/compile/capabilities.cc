#include "ctrl/compile/capabilities.h"

#include <algorithm>
#include <map>

#include "ctrl/config/job_operation.h"
#include "ctrl/config/kernel_nodes.h"
#include "ctrl/config/network_wanted.h"
#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

using Found = std::optional<Place>;

// --- Features, as a configuration asks for them ---

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

Found find_dimensions(const Asked& asked, RealSide side) {
  return first_job(asked, side, "an algorithm for each dimension",
                   [](const JobConfig& job) { return !job.dimensions.empty(); });
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

Found find_both_kinds(const Asked& asked, bool joined) {
  for (const JobConfig& job : asked.config.jobs) {
    if (kernels(asked.config, job) == 0 || !has_reference_ranks(asked.config, job)) continue;
    if (job.join.has_value() != joined) continue;
    return Place{job.line, "job", "ranks on kernels and on nodes with real = true"};
  }
  return std::nullopt;
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

Found find_any_all_real(const Asked& asked, RealSide side) {
  return find_all_real(asked, side, false);
}
/// No NCCL of its own and no options of ring_node tell it.
Found find_untold_all_real(const Asked& asked, RealSide side) {
  return find_all_real(asked, side, true);
}

Found find_operations(const Asked& asked, RealSide side, OperationsMode mode, const char* found) {
  return first_job(asked, side, found,
                   [&](const JobConfig& job) { return job.operations == mode; });
}
Found find_fed(const Asked& asked, RealSide side) {
  return find_operations(asked, side, OperationsMode::kFed, "operations = \"fed\"");
}
Found find_inferred(const Asked& asked, RealSide side) {
  return find_operations(asked, side, OperationsMode::kInferred, "operations = \"inferred\"");
}

Found find_exact(const Asked& asked, RealSide side) {
  return first_job(asked, side, "payload = \"exact\"",
                   [](const JobConfig& job) { return job.payload == PayloadMode::kExact; });
}

/// Of these, what ring_node would have to carry out as a whole node.
Found find_exact_alone(const Asked& asked, RealSide side) {
  return first_job(asked, side, "payload = \"exact\"", [&](const JobConfig& job) {
    return job.payload == PayloadMode::kExact && !job.join &&
           !is_ring_of_neighbours(asked.config, job);
  });
}

Found find_merged_alone(const Asked& asked, RealSide side) {
  return first_job(asked, side, "NICs that are merged",
                   [](const JobConfig& job) { return job.merged_nics > 1 && !job.join; });
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

/// A job with inner = "packets" of which `is` says yes.
template <typename Is>
Found find_inner(const Asked& asked, Is is) {
  for (const JobConfig& job : asked.config.jobs) {
    if (job.inner != InnerMode::kPackets || !is(job)) continue;
    return Place{job.line, "job.inner", "\"packets\""};
  }
  return std::nullopt;
}
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

Found find_several_ports(const Asked& asked, RealSide) {
  const Config& config = asked.config;
  if (config.ports.size() < 2 || !asks_for_network(config)) return std::nullopt;
  return Place{config.ports[1].line, "port", "a second one in a network"};
}

Found find_traffic(const Asked& asked, FabricFidelity fidelity) {
  const Config& config = asked.config;
  if (config.traffic.empty() || config.fabric.fidelity != fidelity) return std::nullopt;
  return Place{config.traffic.front().line, "traffic", "one"};
}
Found find_traffic_packets(const Asked& asked, RealSide) {
  return find_traffic(asked, FabricFidelity::kPacket);
}
Found find_traffic_rates(const Asked& asked, RealSide) {
  return find_traffic(asked, FabricFidelity::kFlow);
}

/// The network and somebody who uses it by frames.
bool has_framed_network(const Config& config) {
  const bool users = !config.jobs.empty() || !config.services.empty() || !config.clients.empty();
  return (users || has_kernels(config)) && asks_for_network(config);
}

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

Found option(bool is, const char* name) {
  if (!is) return std::nullopt;
  return Place{0, name, ""};
}
Found find_capture(const Asked& asked, RealSide) { return option(asked.capture, "--capture"); }
Found find_series(const Asked& asked, RealSide) { return option(asked.series, "--series, --plot"); }
Found find_feed(const Asked& asked, RealSide) { return option(asked.feed, "--feed"); }

// --- The table ---

constexpr Cell kYes{Cell::Answer::kYes, ""}, kAbsent{Cell::Answer::kAbsent, ""};
constexpr Cell no(std::string_view why) { return {Cell::Answer::kNo, why}; }
/// For an option that can be given all the same.
constexpr Cell absent(std::string_view why) { return {Cell::Answer::kAbsent, why}; }

constexpr Cell kOtherValues =
    no("ring_node moves and verifies values of a ring all-reduce of 2.23 to 2.28 alone; a job of "
       "NCCL's own has a key join");
constexpr Cell kOneNic =
    no("ring_node takes one NIC for a connection; a job of NCCL's own has a key join");
constexpr Cell kUntold =
    no("ring_node is told such a job by a node that is played here, and there is none");
constexpr Cell kNoDimensions =
    no("such a job has no channels and messages of NCCL's: predict alone "
       "has a model of it");
constexpr Cell kOwnBegin = no("when a kernel's program begins its operations is its own");
constexpr Cell kWireBegin = no("when run's real node begins its operations is its own");
constexpr Cell kOneMerged =
    no("NCCL on the real node is told of one merged NIC, the job's (understudy env), and several "
       "ranks a node take all that there are");
constexpr Cell kNoPackets =
    no("rates have no packets: leave inner out, or take fabric.fidelity = \"packet\"");
constexpr Cell kNoGuess =
    no("what emulated ranks send each other for a guess cannot be taken back when another "
       "operation turns out to be right: let a feed tell them, operations = \"fed\"");
constexpr Cell kPaced =
    no("no meaning with [topology], [queues], [[traffic]] or job.inner = "
       "\"packets\": their links are paced");
constexpr Cell kQueues =
    no("no meaning with [topology], [queues], [[traffic]] or job.inner = "
       "\"packets\": classes are those of [queues]");
constexpr Cell kRates =
    no("with [topology], [queues], [[traffic]] or job.inner = \"packets\" every "
       "link has a rate");

//                                                     reference, kernel, none, wire
constexpr Capability kTable[] = {
    {"a kernel as the real node",
     find_kernel,
     {kAbsent, kYes, kAbsent,
      no("its time is virtual, and run is in real time: use understudy simulate, or real = true "
         "for "
         "a node on the wire")}},
    {"kernels and reference nodes in one job with `join`",
     find_both_kinds_joined,
     {kAbsent,
      no("in NCCL's bootstrap the emulator speaks for emulated ranks only: a reference node's rank "
         "would have to be announced as one of these, and its connections handed to its requester"),
      kAbsent, kAbsent}},
    {"an algorithm for each dimension of the network",
     find_dimensions,
     {kNoDimensions, kNoDimensions, kNoDimensions, kNoDimensions}},
    {"`[[job]]`: ring all-reduce (simple, float32, one rank a node)",
     find_plain_ring,
     {kYes, kYes, kYes, kYes}},
    {"`[[job]]`: any other collective, algorithm, protocol or type, without `join`",
     find_other_job,
     {kYes, kYes, kYes, kYes}},
    {"`[[job]]` with `join`: NCCL's own", find_join, {kYes, kYes, kYes, kYes}},
    {"`payload = \"exact\"`", find_exact, {kYes, kYes, kAbsent, kYes}},
    {"`payload = \"exact\"` without `join` of anything but `ring_node`'s own ring",
     find_exact_alone,
     {kYes, kOtherValues, kAbsent, kOtherValues}},
    {"`operations = \"fed\"`", find_fed, {kYes, kYes, kAbsent, kYes}},
    {"`operations = \"inferred\"`", find_inferred, {kYes, kYes, kAbsent, kYes}},
    {"merged NICs", find_merged, {kYes, kYes, kYes, kYes}},
    {"merged NICs of several ranks a node",
     find_merged_of_gpus,
     {kYes, kOneMerged, kYes, kOneMerged}},
    {"merged NICs, without `join`", find_merged_alone, {kYes, kOneNic, kYes, kOneNic}},
    {"`period`",
     find_period,
     {kYes, kYes, kYes, no("run's real node has no clock in common with emulated ones")}},
    {"`start` of a job", find_start, {kYes, kOwnBegin, kYes, kWireBegin}},
    {"`after` another job", find_after, {kYes, kOwnBegin, kYes, kWireBegin}},
    {"`compute`",
     find_compute,
     {kYes, no("what a kernel's program computes is its own"), kYes,
      no("what run's real node computes is its own")}},
    {"several real nodes in one job with `join`", find_several_joined, {kYes, kYes, kAbsent, kYes}},
    {"a job of real nodes only, no ring all-reduce and without `join`",
     find_untold_all_real,
     {kYes, kUntold, kAbsent, kUntold}},
    {"a job of real nodes only",
     find_any_all_real,
     {kYes, no("kernels alone need no [[job]]: ring_node --rank, --ranks, --sizes"), kAbsent,
      no("real nodes alone need no [[job]]: ring_node --rank, --ranks, --sizes")}},
    {"a job of real nodes only, `fed` or `inferred`",
     find_all_real_not_told,
     {no("there is no emulated rank that has to know what the real ones do"), kAbsent, kAbsent,
      kAbsent}},
    {"several real nodes in one job, `fed` or `inferred`",
     find_several_not_told,
     {kYes, kYes, kAbsent, kYes}},
    {"several real nodes in one job", find_several, {kYes, kYes, kAbsent, kYes}},
    {"kernels and reference nodes in one job without `join`",
     find_both_kinds_alone,
     {kAbsent, kYes, kAbsent, kAbsent}},
    {"`[topology]`", find_topology, {kYes, kYes, kYes, kYes}},
    {"several `[[port]]`s in one network", find_several_ports, {kYes, kYes, kAbsent, kYes}},
    {"`[[traffic]]` packet by packet", find_traffic_packets, {kYes, kYes, kYes, kYes}},
    {"`[[traffic]]` as rates (`fidelity = \"flow\"`)",
     find_traffic_rates,
     {kYes, kYes, kYes, kYes}},
    {"`[[job]]` at `fidelity = \"flow\"`", find_jobs_as_rates, {kYes, kYes, kYes, kYes}},
    {"`inner = \"packets\"`", find_inner_packets, {kYes, kYes, kYes, kYes}},
    {"`inner = \"packets\"` at `fidelity = \"flow\"`",
     find_inner_as_rates,
     {kNoPackets, kNoPackets, kAbsent, kNoPackets}},
    {"`inner = \"packets\"` of inferred operations",
     find_inner_inferred,
     {kNoGuess, kNoGuess, kAbsent, kNoGuess}},
    {"`pacing = false` in a network", find_no_pacing, {kPaced, kPaced, kPaced, kPaced}},
    {"`control_class = \"separate\"` in a network",
     find_separate_class,
     {kQueues, kQueues, kQueues, kQueues}},
    {"links of unlimited rate in a network", find_unlimited, {kRates, kRates, kRates, kRates}},
    {"`[[event]]`, `--at`", find_event, {kYes, kYes, kYes, kYes}},
    {"`[[service]]`, `[[client]]`", find_service, {kAbsent, kYes, kAbsent, kYes}},
    {"`--capture`",
     find_capture,
     {kYes, kYes,
      absent(
          "a capture has the frames of ports, and without a real node there is no port; --series "
          "and --timeline show what happens on the network"),
      kYes}},
    {"`--series`, `--plot`", find_series, {kYes, kYes, kYes, kYes}},
    {"`--feed`", find_feed, {kYes, kYes, kAbsent, kAbsent}},
};

std::string refusal(const Asked& asked, const Place& place, std::string_view why) {
  if (place.found.empty()) return place.key + ": " + std::string(why);
  return ConfigError{asked.config.path, place.line, place.key, place.found, std::string(why)}
      .text();
}

}  // namespace

std::span<const Capability> capabilities() { return kTable; }

std::string_view name_of(RealSide side) {
  constexpr std::string_view kNames[] = {"simulate: reference node", "simulate: kernel",
                                         "simulate: no real node", "run"};
  return kNames[static_cast<size_t>(side)];
}

std::vector<RealSide> real_sides(const Config& config, RunClock clock) {
  if (clock == RunClock::kReal) {
    if (all_emulated(config)) return {};
    return {RealSide::kWire};
  }
  const bool reference = std::ranges::any_of(
      config.jobs, [&](const JobConfig& job) { return has_reference_ranks(config, job); });
  if (has_kernels(config)) {
    if (reference) return {RealSide::kKernel, RealSide::kReference};
    return {RealSide::kKernel};
  }
  if (config.jobs.empty() || all_emulated(config)) return {RealSide::kNone};
  return {RealSide::kReference};
}

std::string why_not(const Asked& asked, RunClock clock) {
  for (const RealSide side : real_sides(asked.config, clock)) {
    for (const Capability& row : kTable) {
      const Cell& cell = row.cell(side);
      if (cell.why.empty()) continue;
      if (const auto place = row.find(asked, side)) return refusal(asked, *place, cell.why);
    }
  }
  return "";
}

std::string capabilities_text() {
  std::string head = "| |", rule = "|---|", rows, notes;
  for (size_t side = 0; side < kRealSides; ++side) {
    head += " " + std::string(name_of(static_cast<RealSide>(side))) + " |";
    rule += "---|";
  }
  std::map<std::string_view, size_t> numbers;
  for (const Capability& row : kTable) {
    rows += "| " + std::string(row.feature) + " |";
    for (const Cell& cell : row.cells) {
      constexpr std::string_view kAnswers[] = {"yes", "no", "-"};
      std::string text(kAnswers[static_cast<size_t>(cell.answer)]);
      if (!cell.why.empty()) {
        const auto [at, fresh] = numbers.try_emplace(cell.why, numbers.size() + 1);
        text += " (" + std::to_string(at->second) + ")";
        if (fresh) notes += std::to_string(at->second) + ". " + std::string(cell.why) + "\n";
      }
      rows += " " + text + " |";
    }
    rows += "\n";
  }
  return head + "\n" + rule + "\n" + rows + "\n" + notes;
}

}  // namespace understudy
