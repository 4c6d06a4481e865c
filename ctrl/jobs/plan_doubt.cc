#include "ctrl/jobs/plan_doubt.h"

#include <cmath>

#include "ctrl/compile/inner_way.h"
#include "ctrl/config/network_wanted.h"
#include "ctrl/network/rate_times.h"
#include "ctrl/report/text.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

/// Of an operation that is followed: a second at most.
constexpr uint64_t kMostMessagesOfFlows = 20'000;

struct Difference {
  uint64_t bytes = 0;
  Duration flows, plan;
  double share() const { return plan.seconds() / flows.seconds() - 1; }
};

std::string text_of(const Difference& d) {
  return "; as flows all ranks take " + duration_text(d.flows) + " for " + size_text(d.bytes) +
         ", by the plan " + duration_text(d.plan) + " (" + format_text("%+.1f", 100 * d.share()) +
         " %), so times may be as far off";
}

std::string why_not_packets(const Config& config, const JobConfig& job) {
  if (job.inner) return "inner = \"times\" asks for them";
  if (job.operations == OperationsMode::kInferred) {
    return "what is sent for a guess (operations = \"inferred\") cannot go packet by packet";
  }
  if (config.fabric.fidelity == FabricFidelity::kFlow) return "fidelity = \"flow\" has no packets";
  if (!may_go_by_packets(config, job)) {
    return "a network of packets needs pacing, a link rate for every NIC, and no control class of "
           "its own";
  }
  return "in real time this machine does not carry as many packets (inner = \"packets\" says how "
         "many)";
}

/// Of all sizes the one that is furthest off; with 0 bytes: none could be followed.
Difference worst(const Config& config, const JobConfig& job, const JobState& state,
                 const Topology& topology) {
  Difference found;
  const CollectiveSetup& setup = *state.setup;
  for (uint32_t size = 0; size < setup.sizes.size(); ++size) {
    const uint64_t bytes = setup.sizes[size];
    const auto took = time_by_rates(config, job, bytes, topology, kMostMessagesOfFlows);
    if (!took || !*took) continue;
    for (size_t o = 0; o < setup.operations.size(); ++o) {
      if (setup.operations[o].size != size) continue;
      const Difference d{bytes, (*took)->longest, state.modelled[o]};
      if (found.bytes == 0 || std::abs(d.share()) > std::abs(found.share())) found = d;
      break;
    }
  }
  return found;
}

}  // namespace

std::string plan_doubt(const Config& config, const JobConfig& job, const JobState& state) {
  if (!state.setup->is_doubtful()) return {};
  std::string text =
      "messages between emulated ranks take the plan's times, which are estimates where several "
      "connections share a NIC: " +
      why_not_packets(config, job);
  if (job.group || !can_have_network(config)) return text;
  auto topology = build_topology(config);
  if (!topology) return text;
  const Difference found = worst(config, job, state, *topology);
  return found.bytes == 0 ? text : text + text_of(found);
}

}  // namespace understudy
