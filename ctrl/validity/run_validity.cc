#include <algorithm>
#include <optional>
#include <unordered_set>

#include "ctrl/compile/collective.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/config/network_wanted.h"
#include "ctrl/report/text.h"
#include "ctrl/validity/drawn_paths.h"
#include "ctrl/validity/validity.h"
#include "dataplane/collective/packet_level_ranks.h"

namespace understudy {
namespace {

/// What may wait somewhere before it counts as contention: about 16 full packets, more than an
/// acknowledgement and a credit in front of a message, less than switches begin to mark at.
constexpr uint64_t kQueuedBytes = 64 << 10;
constexpr uint64_t kQueuedPackets = 16;

uint64_t count_of(const NamedCounts& counts, std::string_view name) {
  const auto it = std::ranges::find(counts, name, [](const auto& entry) { return entry.first; });
  return it == counts.end() ? 0 : it->second;
}

struct Queue {
  std::string place, length;
};

class RunLines {
 public:
  RunLines(const Scenario& scenario, const RunReport& report, std::span<const FlowSpec> flows)
      : scenario_(scenario), config_(scenario.config), report_(report), flows_(flows) {}

  std::vector<ValidityLine> take() {
    for (size_t j = 0; j < config_.jobs.size(); ++j) add_job(config_.jobs[j], scenario_.jobs[j]);
    add_machines(lines_, config_);
    add_training(lines_, config_);
    add_traces(lines_, config_);
    if (as_rates()) add_training_rates(lines_, config_);
    add_network();
    add_draws();
    return lines_.take(config_.jobs.size());
  }

 private:
  bool as_rates() const {
    return config_.fabric.fidelity == FabricFidelity::kFlow && !flows_.empty();
  }
  void add_job(const JobConfig& job, const ScenarioJob& made);
  void add_network();
  void add_contention(bool limited);
  void add_draws();
  bool has_limited_buffers() const;
  bool has_uncontrolled_sender() const;
  std::optional<Queue> longest_queue() const;
  std::vector<NicPair> pairs() const;
  bool lost_by_chance() const;
  bool marked_by_chance() const;
  bool links_change() const;

  const Scenario& scenario_;
  const Config& config_;
  const RunReport& report_;
  std::span<const FlowSpec> flows_;
  ValidityLines lines_;
};

void RunLines::add_job(const JobConfig& job, const ScenarioJob& made) {
  const auto emulated =
      std::ranges::count_if(job.ranks, [&](NodeId node) { return !config_.nodes[node].real; });
  if (emulated > 0 && job.step_cost <= Duration()) {
    lines_.add("gpu-costs", "emulated GPUs take no time for a step: step_cost is 0", job.name);
  }
  add_nic_costs(lines_, config_, job, job.name);
  add_nccl_limits(lines_, config_, job);
  if (gpus_per_node(config_, job) > 1 && !config_.intra_node) {
    lines_.add("intra-node", "links inside nodes take no time (give [intra_node])", job.name);
  }
  const CollectiveSetup* setup = made.setup.get();
  if (setup != nullptr && setup->is_doubtful()) {
    lines_.add("inner-times",
               "messages between emulated ranks take the plan's times, as if each NIC were shared "
               "evenly all the time (inner = \"packets\")",
               job.name);
  }
}

bool RunLines::has_limited_buffers() const {
  const NetworkSettings& network = config_.queues.network;
  return network.buffer > 0 || std::ranges::any_of(network.classes, [](const ClassSettings& c) {
           return c.pfc && c.pfc->xoff > 0;
         });
}

void RunLines::add_network() {
  if (!config_.topology) {
    lines_.add("no-topology", scenario_.topology == nullptr
                                  ? "no switches: a path is its two ends' links (give [topology])"
                                  : "one ideal switch joins all nodes (give [topology])");
  }
  if (has_unlimited_link(config_)) {
    lines_.add("unlimited-links", "links of unlimited rate: bytes on them take no time");
  }
  if (as_rates()) {
    lines_.add("flow-fidelity",
               "flows are rates: no queues, marks, pauses or losses (fidelity = \"packet\")");
    add_acks_first(lines_, config_);
  }
  const bool limited = scenario_.topology != nullptr && has_limited_buffers();
  const bool packets = !as_rates() || scenario_.real_side;
  if (scenario_.topology != nullptr && packets && !limited) {
    lines_.add("buffers", "switches have unlimited buffers (give [queues] a buffer)");
  }
  add_contention(limited);
}

/// Of links behind switches; without switches of those to nodes.
std::optional<Queue> RunLines::longest_queue() const {
  uint64_t most = kQueuedBytes;
  std::optional<Queue> longest;
  if (scenario_.topology != nullptr && report_.traffic) {
    const Topology& topology = *scenario_.topology;
    for (const TrafficLinkReport& link : report_.traffic->links) {
      const uint64_t peak = count_of(link.counters, "queue_peak_bytes");
      if (peak <= most) continue;
      const auto from = topology.by_name.find(link.name.substr(0, link.name.find(" -> ")));
      if (from == topology.by_name.end() ||
          topology.graph.vertices()[from->second].kind != VertexKind::kSwitch) {
        continue;
      }
      most = peak;
      longest = {link.name, size_text(peak >> 10 << 10)};
    }
    return longest;
  }
  most = kQueuedPackets;
  for (const PortReport& port : report_.ports) {
    for (const LinkReport& link : port.links) {
      if (link.up || link.queue_peak <= most) continue;
      most = link.queue_peak;
      longest = {"the link to " + link.node, count_text(most, "packet")};
    }
  }
  return longest;
}

bool RunLines::has_uncontrolled_sender() const {
  const auto none = [&](uint32_t control) {
    return control == kNoControl ||
           std::holds_alternative<NoControlParameters>(config_.controls[control].parameters);
  };
  const auto sender = [&](const auto& user) { return none(user.sender.control); };
  return std::ranges::any_of(config_.jobs, sender) ||
         std::ranges::any_of(config_.services, sender) ||
         std::ranges::any_of(config_.clients, sender) ||
         std::ranges::any_of(config_.traffic,
                             [&](const TrafficConfig& t) { return none(t.control); });
}

void RunLines::add_contention(bool limited) {
  if (as_rates() && scenario_.topology != nullptr) {
    const std::string link = shared_link(*scenario_.topology, config_.seed, pairs());
    if (link.empty()) return;
    lines_.add("contention", "senders share " + link +
                                 ", at fair rates and without queues (fidelity = \"packet\")");
    return;
  }
  const std::optional<Queue> queue = longest_queue();
  if (!queue) return;
  if (has_uncontrolled_sender()) {
    lines_.add("congestion-control",
               "queues grew, and some senders have no congestion control (give [[control]])");
  }
  if (limited) return;
  lines_.add("contention", "up to " + queue->length + " waited in front of " + queue->place +
                               ", and no buffer was too small for it (give [queues] a buffer)");
}

/// What went through the network of switches.
std::vector<NicPair> RunLines::pairs() const {
  std::vector<NicPair> pairs;
  const auto& nics = scenario_.topology->nics;
  std::unordered_set<uint32_t> connections;  // whose flows go one after another, on one way
  for (const FlowSpec& flow : flows_) {
    if (!flow.path.empty() || flow.from == flow.to || is_credit(flow)) continue;
    if (flow.connection != kNoConnection && !connections.insert(flow.connection).second) continue;
    pairs.push_back({flow.from, flow.to});
  }
  for (size_t j = 0; j < scenario_.jobs.size(); ++j) {
    const CollectiveSetup* setup = scenario_.jobs[j].setup.get();
    if (setup == nullptr) continue;
    const JobConfig& job = config_.jobs[j];
    for (const CollectiveConnection& c : setup->job.links) {
      const VertexId real = nics[job.ranks[c.real / setup->communicator.gpus]][c.real_nic];
      const VertexId far = nics[job.ranks[c.far / setup->communicator.gpus]][c.far_nic];
      pairs.push_back(c.real_sends ? NicPair{real, far} : NicPair{far, real});
    }
  }
  // A service's clients may be on any real node.
  for (const NodeConfig& real : config_.nodes) {
    if (!real.real) continue;
    for (const ServiceConfig& service : config_.services) {
      pairs.push_back({nics[real.index][0], nics[service.node][0]});
      pairs.push_back({nics[service.node][0], nics[real.index][0]});
    }
  }
  for (const ClientConfig& client : config_.clients) {
    pairs.push_back({nics[client.node][0], nics[client.server][0]});
    pairs.push_back({nics[client.server][0], nics[client.node][0]});
  }
  return pairs;
}

bool RunLines::links_change() const {
  return std::ranges::any_of(scenario_.changes, [](const EventConfig& event) {
    return event.link.has_value() || event.of_switch;
  });
}

bool RunLines::lost_by_chance() const {
  const auto& faults = config_.faults;
  for (const PortReport& port : report_.ports) {
    if (count_of(port.drops, "link_loss") > 0) return true;
    for (size_t i = 0; i < std::min(port.faults.size(), faults.size()); ++i) {
      if (port.faults[i].matched > 0 && faults[i].fault.probability < Fault::kAlways) return true;
    }
  }
  return report_.traffic &&
         std::ranges::any_of(report_.traffic->links, [](const TrafficLinkReport& link) {
           return count_of(link.counters, "lost_on_link") > 0;
         });
}

bool RunLines::marked_by_chance() const {
  return report_.traffic &&
         std::ranges::any_of(report_.traffic->links, [](const TrafficLinkReport& link) {
           return count_of(link.counters, "marked") > 0;
         });
}

void RunLines::add_draws() {
  std::string drawn;
  const auto add = [&](bool is, const char* what) {
    if (is) drawn.append(drawn.empty() ? "" : ", ").append(what);
  };
  add(scenario_.topology != nullptr && paths_matter(*scenario_.topology, pairs(), links_change()),
      "paths by hash");
  add(std::ranges::any_of(
          config_.traffic,
          [](const TrafficConfig& t) { return t.pattern == TrafficPattern::kPermutation; }),
      "who sends to whom");
  add(std::ranges::any_of(
          config_.traffic,
          [](const TrafficConfig& t) { return t.pattern == TrafficPattern::kPoisson; }),
      "when flows start, from where to where, and how large they are");
  add(lost_by_chance(), "losses and faults");
  add(marked_by_chance(), "marks");
  add(std::ranges::any_of(config_.jobs,
                          [](const JobConfig& job) { return job.iteration.jitter.has_value(); }),
      "jitter");
  if (drawn.empty()) return;
  lines_.add("one-seed", "drawn once, from seed " + std::to_string(config_.seed) + ": " + drawn +
                             "; other seeds may give other times (--seed)");
}

}  // namespace

std::vector<ValidityLine> run_validity(const Scenario& scenario, const RunReport& report,
                                       std::span<const FlowSpec> flows) {
  return RunLines(scenario, report, flows).take();
}

}  // namespace understudy
