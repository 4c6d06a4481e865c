#include "ctrl/jobs/plan_estimate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "collective_model/plan/pair_hops.h"
#include "ctrl/compile/ways/inner_way.h"
#include "ctrl/config/network_wanted.h"
#include "ctrl/config/shared_place.h"
#include "ctrl/network/rate_times.h"
#include "ctrl/report/text.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

/// Of an operation that is followed: a second at most.
constexpr uint64_t kMostMessagesOfFlows = 20'000;
constexpr int kSteps = 12;  ///< of the search, each halves the range

std::string why_not_packets(const Config& config, const JobConfig& job) {
  if (job.inner) return "inner = \"times\" asks for them";
  if (job.operations == OperationsMode::kInferred) {
    return "what is sent for a guess (operations = \"inferred\") cannot go packet by packet";
  }
  if (config.fabric.fidelity == FabricFidelity::kFlow) return "fidelity = \"flow\" has no packets";
  if (is_fed_chain(job)) {
    return "a feed tells the first ranks of a chain of an operation too late for packets";
  }
  if (!may_go_by_packets(config, job)) {
    return "a network of packets needs pacing, a link rate for every NIC, and no control class of "
           "its own";
  }
  return "in real time this machine does not carry as many packets (inner = \"packets\" says how "
         "many)";
}

/// `rate` times `factor`, up to `most`; not below itself.
Rate raised(Rate rate, double factor, Rate most) {
  if (rate.is_unlimited() || rate >= most) return rate;
  const double bps =
      std::min(static_cast<double>(rate.bps()) * factor, static_cast<double>(most.bps()));
  return Rate::bits_per_second(static_cast<uint64_t>(bps));
}

class RaisedHops final : public PairHops {
 public:
  RaisedHops(std::shared_ptr<const PairHops> hops, double factor, Rate most)
      : hops_(std::move(hops)), factor_(factor), most_(most) {}
  Hop hop(uint32_t from, uint32_t to) const override {
    Hop hop = hops_->hop(from, to);
    hop.rate = raised(hop.rate, factor_, most_);
    return hop;
  }

 private:
  const std::shared_ptr<const PairHops> hops_;
  const double factor_;
  const Rate most_;
};

PlanInput raised(const PlanInput& input, double factor, Rate most) {
  PlanInput out = input;
  for (auto& hops : out.hops) {
    for (Hop& hop : hops) hop.rate = raised(hop.rate, factor, most);
  }
  if (input.pair_hops) {
    out.pair_hops = std::make_shared<RaisedHops>(input.pair_hops, factor, most);
  }
  return out;
}

/// From all ranks' entry to the last one's end.
std::optional<Duration> time_of(const PlanInput& input) {
  auto plan = make_uncongested_plan(input);
  if (!plan) return std::nullopt;
  const auto ranks = static_cast<uint32_t>(input.ranks.size());
  (*plan)->begin();
  for (uint32_t rank = 0; rank < ranks; ++rank) (*plan)->enter(rank, Time::zero());
  Time end;
  for (uint32_t rank = 0; rank < ranks; ++rank) end = std::max(end, (*plan)->completion(rank));
  return end - Time::zero();
}

/// Of one operation's times: of flows, of the estimate, and those between which packets' are.
struct Fit {
  double factor = 1;
  Duration flows, took, least, most;
  double off() const {
    return std::max(most.seconds() / took.seconds() - 1, 1 - least.seconds() / took.seconds());
  }
};

/// The factor with which the plan comes to `flows`.
std::optional<Fit> fit(const PlanInput& input, Duration flows, Rate most, bool fitted) {
  Fit out;
  double low = 1, high = 1e6;  // every rate is `most`
  const auto even = time_of(input), alone = time_of(raised(input, high, most));
  if (!even || !alone || *even <= Duration()) return std::nullopt;
  out.flows = flows;
  out.least = std::min(*even, *alone);
  out.most = out.took = *even;
  if (flows >= *even || !fitted) return out;
  for (int step = 0; step < kSteps; ++step) {
    // Rates are shared by tens of connections at most.
    const double middle = step == 0 ? 64 : std::sqrt(low * high);
    const auto took = time_of(raised(input, middle, most));
    if (!took) return std::nullopt;
    (*took > flows ? low : high) = middle;
    if (*took <= flows) {
      out.factor = middle;
      out.took = *took;
    }
  }
  return out;
}

/// The fastest NIC of the job's nodes, or all of those that NCCL merged there.
Rate fastest(const Config& config, const JobConfig& job) {
  Rate most = Rate::bits_per_second(1);
  for (const NodeId node : job.ranks) {
    for (const NicConfig& nic : config.nodes[node].nics) most = std::max(most, nic.link_rate);
  }
  return Rate::bits_per_second(most.bps() * job.merged_nics);
}

std::string text_of(uint64_t bytes, const Fit& fit, bool fitted) {
  std::string text =
      "; as flows all ranks take " + duration_text(fit.flows) + " for " + size_text(bytes) + ", ";
  text +=
      fitted ? "to which the plan's rates are fitted" : "by the plan " + duration_text(fit.took);
  return text + ". Packets take " + duration_text(fit.least) + " to " + duration_text(fit.most) +
         ", so times may be up to " + format_text("%.0f", std::ceil(100 * fit.off())) + " % off";
}

}  // namespace

PlanEstimate plan_estimate(const Config& config, const JobConfig& job,
                           const CollectiveSetup& setup) {
  PlanEstimate out;
  if (!setup.is_doubtful()) return out;
  const bool related = has_relatives(config, job);
  const bool shares = related || shares_place(config, job);
  out.doubt = std::string("messages between emulated ranks take the plan's times, which ") +
              (related  ? "know nothing of what the other communicators of these ranks do: "
               : shares ? "know nothing of the other jobs that join at the same place: "
                        : "are estimates where several connections share a link: ") +
              why_not_packets(config, job);
  if (job.group || job.operations != OperationsMode::kTold || !can_have_network(config)) return out;
  auto topology = build_topology(config);
  if (!topology) return out;
  const Rate most = fastest(config, job);
  std::optional<std::pair<uint64_t, Fit>> worst;
  const bool fitted = !job.inner;  // else the plan as it is was asked for
  if (fitted) out.inputs = setup.inputs;
  for (uint32_t size = 0; size < setup.sizes.size(); ++size) {
    const uint64_t bytes = setup.sizes[size];
    const auto flows = time_by_rates(config, job, bytes, *topology, kMostMessagesOfFlows);
    if (!flows || !*flows) continue;
    const auto found = fit(setup.inputs[size], (*flows)->longest, most, fitted);
    if (!found) continue;
    if (found->factor > 1) out.inputs[size] = raised(setup.inputs[size], found->factor, most);
    if (!worst || found->off() > worst->second.off()) worst = {bytes, *found};
  }
  if (worst && !shares) out.doubt += text_of(worst->first, worst->second, fitted);
  return out;
}

}  // namespace understudy
