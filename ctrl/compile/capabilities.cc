#include "ctrl/compile/capabilities.h"

#include <algorithm>
#include <map>

#include "ctrl/config/job_operation.h"
#include "ctrl/config/kernel_nodes.h"
#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

constexpr Cell kYes{Cell::Answer::kYes, ""}, kAbsent{Cell::Answer::kAbsent, ""};
constexpr Cell no(std::string_view why) { return {Cell::Answer::kNo, why}; }
/// For an option that can be given all the same.
constexpr Cell absent(std::string_view why) { return {Cell::Answer::kAbsent, why}; }

constexpr Cell kUntold =
    no("ring_node is told such a job by a node that is played here, and there is none");
constexpr Cell kNoDimensions =
    no("such a job has no channels and messages of NCCL's: predict alone "
       "has a model of it");
constexpr Cell kOwnQueuePairs =
    no("how many a connection has is the real node's to say, where it can: join = { queue_pairs = "
       "2 }");
constexpr Cell kNoNvls =
    no("emulated ranks turn it off for every communicator that a real node is in: they share no "
       "NVSwitch with it");
constexpr Cell kNoCollnet =
    no("switches that reduce are known to schedule and predict alone: no packets of theirs are "
       "modelled");
constexpr Cell kOwnBegin = no("when a kernel's program begins its operations is its own");
constexpr Cell kWireBegin = no("when run's real node begins its operations is its own");
constexpr Cell kNobodyJoins =
    no("no program makes a communicator: reference nodes and emulated ranks know each other "
       "without one. Leave communicators out of join");
constexpr Cell kNoPackets =
    no("rates have no packets: leave inner out, or take fabric.fidelity = \"packet\"");
constexpr Cell kNoGuess =
    no("what emulated ranks send each other for a guess cannot be taken back when another "
       "operation turns out to be right: let a feed tell them, operations = \"fed\"");
constexpr Cell kNoModel =
    no("its iterations are carried out by emulated nodes alone: simulate without real = true and "
       "[[port]]");
constexpr Cell kNoTraces =
    no("traces are carried out by emulated nodes alone: simulate without real = true and [[port]]");
constexpr Cell kPaced =
    no("no meaning with [topology], [queues], [[traffic]] or job.inner = "
       "\"packets\": their links are paced");
constexpr Cell kQueues =
    no("no meaning with [topology], [queues], [[traffic]] or job.inner = "
       "\"packets\": classes are those of [queues]");
constexpr Cell kOneQueue =
    no("acknowledgements that have a class of their own wait for no data: take \"shared\"");
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
     {kAbsent, kYes, kAbsent, kAbsent}},
    {"an algorithm for each dimension of the network",
     find_dimensions,
     {kNoDimensions, kNoDimensions, kNoDimensions, kNoDimensions}},
    {"`algorithm = \"nvls\"` or `\"nvls-tree\"`", find_nvls, {kNoNvls, kNoNvls, kYes, kNoNvls}},
    {"`algorithm = \"collnet-direct\"` or `\"collnet-chain\"`",
     find_collnet,
     {kNoCollnet, kNoCollnet, kNoCollnet, kNoCollnet}},
    {"`[[job]]`: ring all-reduce (simple, float32, one rank a node)",
     find_plain_ring,
     {kYes, kYes, kYes, kYes}},
    {"`[[job]]`: any other collective, algorithm, protocol or type, without `join`",
     find_other_job,
     {kYes, kYes, kYes, kYes}},
    {"`[[job]]` with `join`: NCCL's own", find_join, {kYes, kYes, kYes, kYes}},
    {"several communicators one after another (`communicators` in `join`)",
     find_communicators,
     {kNobodyJoins, kYes, kNobodyJoins, kYes}},
    {"several communicators with reference nodes among kernels",
     find_communicators_of_both_kinds,
     {kAbsent,
      no("a reference node's ranks keep their queue pairs until the run ends: let kernels or "
         "emulated ranks play them"),
      kAbsent, kAbsent}},
    {"child communicators (`child_of`)", find_children, {kYes, kYes, kYes, kYes}},
    {"`payload = \"exact\"`", find_exact, {kYes, kYes, kAbsent, kYes}},
    {"`operations = \"fed\"`", find_fed, {kYes, kYes, kAbsent, kYes}},
    {"`operations = \"inferred\"`", find_inferred, {kYes, kYes, kAbsent, kYes}},
    {"a `[[job]]` without `sizes`: whatever real ranks' programs do, `fed` or `inferred`",
     find_unlisted,
     {no("a reference node carries out what the [[job]] lists: give sizes"), kYes, kAbsent, kYes}},
    {"merged NICs", find_merged, {kYes, kYes, kYes, kYes}},
    {"merged NICs of several ranks a node", find_merged_of_gpus, {kYes, kYes, kYes, kYes}},
    {"`queue_pairs` of a job",
     find_queue_pairs,
     {kOwnQueuePairs, kOwnQueuePairs, kYes, kOwnQueuePairs}},
    {"`period`",
     find_period,
     {kYes, kYes, kYes, no("run's real node has no clock in common with emulated ones")}},
    {"`start` of a job", find_start, {kYes, kOwnBegin, kYes, kWireBegin}},
    {"`after` another job", find_after, {kYes, kOwnBegin, kYes, kWireBegin}},
    {"`compute`", find_compute, {kYes, kYes, kYes, kYes}},
    {"`ddp`: buckets of gradients of a network that replicas train",
     find_ddp,
     {kYes, kYes, kYes, kYes}},
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
    {"`[[nic]]`: what NICs of emulated nodes take", find_nics, {kYes, kYes, kYes, kYes}},
    {"`[[nic]]` of a real node: how its acknowledgements leave",
     find_real_nics,
     {kYes, kAbsent, kAbsent, no("run's real node has its own NIC, which does that itself")}},
    {"`acks = \"behind_data\"` with `control_class = \"separate\"`",
     find_separate_queue,
     {kOneQueue, kOneQueue, kOneQueue, kOneQueue}},
    {"`[topology]`", find_topology, {kYes, kYes, kYes, kYes}},
    {"`[topology] reconverge`: routes leave out links that are down",
     find_reconverge,
     {kYes, kYes, kYes, kYes}},
    {"`[model]`: iterations of a training job", find_model, {kNoModel, kNoModel, kYes, kNoModel}},
    {"`[workload]`: execution traces", find_workload, {kNoTraces, kNoTraces, kYes, kNoTraces}},
    {"several `[[port]]`s in one network", find_several_ports, {kYes, kYes, kAbsent, kYes}},
    {"`[[traffic]]` packet by packet", find_traffic_packets, {kYes, kYes, kYes, kYes}},
    {"`[[traffic]]` by Poisson arrivals; `slowdown` of flows",
     find_slowdown,
     {kYes, kYes, kYes, kYes}},
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
