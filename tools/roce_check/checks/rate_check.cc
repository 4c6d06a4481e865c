#include "tools/roce_check/checks/rate_check.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "ctrl/config/network_wanted.h"
#include "dataplane/base/text_format.h"
#include "tools/roce_check/checks/answer_times.h"
#include "tools/roce_check/checks/link_timeline.h"
#include "tools/roce_check/packets/node_addresses.h"

namespace understudy {
namespace {

constexpr double kSlowest = 0.98;
constexpr size_t kPaceSamples = 32;        // fewer gaps say nothing
constexpr double kUplinkBurst = 16 << 10;  // bytes
/// Time stamps of others are taken where packets come in bunches: a guest that was not scheduled
/// takes at once what came in the meantime. Longer delays show, see receiver_delay().
constexpr Duration kForeignJitter = Duration::ms(10);

/// One packet where its link's rate shows.
struct Passage {
  Time at;
  const PacketRecord* packet;
};

/// A token bucket that fills at the link's rate: how far the packets ever ran ahead of it.
struct Excess {
  double bytes = 0;
  uint64_t frame = 0, since = 0;
};
Excess largest_excess(const std::vector<Passage>& passages, const LinkTimeline& link) {
  Excess worst;
  double ahead = 0;
  uint64_t since = 0;
  for (size_t i = 0; i < passages.size(); ++i) {
    const Passage& p = passages[i];
    if (i != 0) {
      const Time before = passages[i - 1].at;
      ahead -= (1 + kRateTolerance) * link.capacity(before, p.at);
      if (ahead < 0 || link.shortened(before, p.at)) ahead = 0;
    }
    if (ahead == 0) since = p.packet->frame;
    ahead += p.packet->wire_bytes;
    if (ahead > worst.bytes) worst = {ahead, p.packet->frame, since};
  }
  return worst;
}

/// How late a slow receiver may have stamped packets: its longest pause inside a message, and how
/// far it ever fell behind the link, as far as that is not an idle sender.
Duration receiver_delay(const std::vector<Passage>& passages, const LinkTimeline& link) {
  constexpr Duration kIdle = Duration::ms(5);
  constexpr Duration kMostBehind = Duration::ms(100);
  Duration pause, behind, most_behind;
  for (size_t i = 1; i < passages.size(); ++i) {
    const Duration gap = passages[i].at - passages[i - 1].at;
    const bool start = passages[i].packet->info().start;
    if (!start) pause = std::max(pause, gap);
    const Duration pace = link.rate_at(passages[i].at).time_for(passages[i].packet->wire_bytes);
    behind = start && gap > kIdle ? Duration() : std::max(Duration(), behind + gap - pace);
    most_behind = std::max(most_behind, behind);
  }
  return pause + std::min(most_behind, kMostBehind);
}

class RateCheck {
 public:
  RateCheck(const Config& config, Analysis& analysis)
      : config_(config),
        analysis_(analysis),
        findings_(analysis.findings),
        addresses_(config),
        changes_(all_changes(config, analysis.table.changes)),
        run_times_(analysis.source.has_run_times) {}

  void run() {
    if (!run_times_ && !changes_.empty()) {
      findings_.note(Check::kRate,
                     "not checked: links change, and the capture does not know the run's time");
      return;
    }
    for (const PortConfig& port : config_.ports) check_port(port);
    if (!any_ && !analysis_.table.packets.empty()) {
      findings_.add(Rule::kRate, {},
                    "no packet goes between a real and an emulated node of the configuration");
    }
  }

 private:
  /// By node and NIC.
  using Links = std::map<std::pair<NodeId, unsigned>, std::vector<Passage>>;

  void check_port(const PortConfig& port) {
    const std::string name = config_.nodes[port.node].name;
    const Rate rate = config_.nodes[port.node].nics[port.nic].link_rate;
    std::vector<Passage> out;
    Links by_sender;
    collect(port, out, by_sender);
    if (out.empty()) {
      findings_.note(Check::kRate, name + ": no packets");
      return;
    }
    any_ = true;
    if (!port.physical.is_unlimited() && rate >= port.physical) {
      findings_.note(Check::kRate, name + ": the wire is the link, nothing to check");
    } else {
      const LinkTimeline down = link_timeline(config_, port.node, port.nic, changes_, true);
      check_excess(name + " down", out, down, 0);
      check_pace(name + " down", port, out, down);
      check_answer_times(config_, port, changes_, analysis_);
    }
    for (const auto& [end, passages] : by_sender) {
      const auto& [node, nic] = end;
      const NicConfig& sender = config_.nodes[node].nics[nic];
      if (rate.bps() != 0 && (sender.link_rate >= rate || sender.link_rate.is_unlimited()))
        continue;
      check_excess(config_.nodes[node].name + " up", passages,
                   link_timeline(config_, node, nic, changes_, true), kUplinkBurst);
    }
    note_lateness(name, out);
  }

  void collect(const PortConfig& port, std::vector<Passage>& out, Links& by_sender) const {
    for (const PacketRecord& p : analysis_.table.packets) {
      const Flow& flow = analysis_.table.flows[p.flow];
      const auto from = addresses_.find(flow.src);
      const auto to = addresses_.find(flow.dst);
      if (!from || to != NodePort{port.node, port.nic, true}) continue;
      if (from->real && p.direction != CaptureDirection::kOut) continue;  // in front of its sender
      if (!takes_rate(config_, p)) continue;
      const Passage passage{p.scheduled.is_never() ? p.at : p.scheduled, &p};
      out.push_back(passage);
      by_sender[{from->node, from->nic}].push_back(passage);
    }
    std::ranges::stable_sort(out, {}, &Passage::at);
    for (auto& [end, passages] : by_sender) std::ranges::stable_sort(passages, {}, &Passage::at);
  }

  void check_excess(const std::string& name, const std::vector<Passage>& passages,
                    const LinkTimeline& link, double burst) {
    findings_.examined(Rule::kRate);
    uint32_t largest = 0;
    for (const Passage& p : passages) largest = std::max(largest, p.packet->wire_bytes);
    const Excess worst = largest_excess(passages, link);
    double allowed = 2.0 * largest + burst;
    if (!run_times_) {
      const Time first = passages.front().at;
      allowed +=
          link.capacity(first, first + std::max(kForeignJitter, receiver_delay(passages, link)));
    }
    findings_.note(
        Check::kRate,
        format_text("%s: %zu packets, at most %.0f bytes ahead of the link, %.0f allowed",
                    name.c_str(), passages.size(), worst.bytes, allowed));
    if (worst.bytes <= allowed) return;
    findings_.add(
        Rule::kRate, {worst.frame, worst_time(passages, worst)},
        format_text("%s: since frame %llu %.0f bytes more than %.6g Mbit/s and 1 %% allow",
                    name.c_str(), static_cast<unsigned long long>(worst.since),
                    worst.bytes - largest,
                    static_cast<double>(link.rate_at(worst_time(passages, worst)).bps()) * 1e-6));
  }

  static Time worst_time(const std::vector<Passage>& passages, const Excess& worst) {
    for (const Passage& p : passages) {
      if (p.packet->frame == worst.frame) return p.at;
    }
    return Time::zero();
  }

  /// Between two packets of one message nothing but the links makes the sender wait. The median
  /// forgives it the stalls of a full window.
  void check_pace(const std::string& name, const PortConfig& port,
                  const std::vector<Passage>& passages, const LinkTimeline& down) {
    if (!run_times_) return;  // the stamps of others say when a guest took packets, not the link
    std::map<std::pair<NodeId, unsigned>, LinkTimeline> senders;
    std::vector<double> paces;
    size_t messages = 0;  // of several packets
    for (size_t i = 1; i < passages.size(); ++i) {
      const PacketRecord& p = *passages[i].packet;
      const PacketRecord& before = *passages[i - 1].packet;
      const bool data = p.info().kind == OpKind::kWrite || p.info().kind == OpKind::kSend ||
                        p.info().kind == OpKind::kReadResponse;
      if (data && p.info().start && !p.info().end) ++messages;
      if (!data || p.info().start) continue;
      if (p.wire_bytes != before.wire_bytes) continue;
      const NodePort end = *addresses_.find(analysis_.table.flows[p.flow].src);
      const auto sender =
          senders
              .try_emplace({end.node, end.nic},
                           link_timeline(config_, end.node, end.nic, changes_, true))
              .first;
      const Time from = passages[i - 1].at;
      const Time to = passages[i].at;
      const double could =
          std::min(down.capacity(from, to), sender->second.capacity(from, to, p.wire_bytes));
      paces.push_back(could > 0 ? p.wire_bytes / could : std::numeric_limits<double>::infinity());
    }
    if (paces.size() < kPaceSamples) return;
    const auto middle = paces.begin() + static_cast<std::ptrdiff_t>(paces.size() / 2);
    std::nth_element(paces.begin(), middle, paces.end());
    findings_.note(Check::kRate,
                   format_text("%s: median pace inside messages %.3f %% of the link's",
                               name.c_str(), *middle * 100));
    if (*middle >= kSlowest * share_beside_acknowledgements(port, paces.size(), messages)) return;
    if (const char* why = shared_by(port)) {
      findings_.note(Check::kRate, name + ": pace not judged: " + why);
    } else {
      findings_.add(Rule::kRate, {},
                    format_text("%s: messages leave at %.2f %% of the configured rate",
                                name.c_str(), *middle * 100));
    }
  }

  /// Of a sender's link, where messages among emulated ranks go packet by packet: each message that
  /// it receives meanwhile has an acknowledgement, which may go between two packets that it sends.
  /// Of messages of up to three packets that may be every other gap, of longer ones the median has
  /// none.
  double share_beside_acknowledgements(const PortConfig& port, size_t gaps, size_t messages) const {
    constexpr double kAcknowledgement = 86;
    if (gaps > 2 * messages) return 1;
    const bool may = std::ranges::any_of(config_.jobs, [&](const JobConfig& job) {
      if (std::ranges::find(job.ranks, port.node) == job.ranks.end()) return false;
      const bool packets = job.inner.value_or(InnerMode::kPackets) == InnerMode::kPackets;
      return packets && can_carry(config_, job) && (asks_for_network(config_) || job.channels > 1);
    });
    return may ? config_.fabric.mtu / (config_.fabric.mtu + kAcknowledgement) : 1;
  }

  /// What else than both links' rates may keep messages to this node apart, null if nothing does.
  const char* shared_by(const PortConfig& port) const {
    if (!config_.traffic.empty()) return "[[traffic]] shares the network";
    if (config_.topology) return "paths of the topology may be slower, or shared";
    if (!config_.controls.empty()) return "a [[control]] may slow its senders";
    if (!config_.faults.empty()) return "a [[fault]] may hold packets back";
    if (config_.nodes[port.node].nics.size() > 1 && config_.jobs.size() > 1) {
      return "jobs share its NICs";
    }
    size_t users = config_.clients.size() + config_.services.size();
    for (const JobConfig& job : config_.jobs) {
      if (std::ranges::find(job.ranks, port.node) == job.ranks.end()) continue;
      ++users;
      // In rings the next node is the same on all channels.
      const bool ring = job.algorithm == Algorithm::kRing && !is_p2p(job.collective);
      if (!ring) return "its senders' links carry messages to others, too";
    }
    return users > 1 ? "jobs, services and clients share its link" : nullptr;
  }

  void note_lateness(const std::string& name, const std::vector<Passage>& passages) {
    if (!run_times_) return;
    std::vector<Duration> late;
    late.reserve(passages.size());
    for (const Passage& p : passages) late.push_back(p.packet->at - p.at);
    std::ranges::sort(late);
    findings_.note(
        Check::kRate,
        format_text("%s down: handed over %.1f us after the schedule in the median, %.1f us at "
                    "most",
                    name.c_str(), late[late.size() / 2].microseconds(),
                    late.back().microseconds()));
  }

  const Config& config_;
  Analysis& analysis_;
  Findings& findings_;
  NodeAddresses addresses_;
  std::vector<LinkChange> changes_;
  bool run_times_;
  bool any_ = false;  ///< some port has packets
};

}  // namespace

void check_rates(const Config& config, Analysis& analysis) { RateCheck(config, analysis).run(); }

}  // namespace understudy
