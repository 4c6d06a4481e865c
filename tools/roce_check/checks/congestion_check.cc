#include "tools/roce_check/checks/congestion_check.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "dataplane/base/text_format.h"
#include "tools/roce_check/findings/stream_results.h"
#include "tools/roce_check/packets/node_addresses.h"

namespace understudy {
namespace {

constexpr uint8_t kNotCapable = 0;
constexpr uint8_t kCongestionExperienced = 3;
constexpr int64_t kStampTolerancePercent = 10;

/// What went from one address to another.
struct Way {
  uint64_t marked = 0;     ///< packets
  bool read_data = false;  ///< among them READ responses
  Stamp first_marked;
  Time first = Time::never();  ///< packet
  uint64_t notified = 0;       ///< CNPs that came back
};

class CongestionCheck {
 public:
  CongestionCheck(const PacketTable& table, const CongestionOptions& options, Findings& findings)
      : table_(table), options_(options), least_(options.least_interval), findings_(findings) {
    if (options.config != nullptr) addresses_.emplace(*options.config);
  }

  void run() {
    for (const Flow& flow : table_.flows) marks(flow);
    for (const CnpRecord& cnp : table_.cnps) notification(cnp);
    for (const auto& [addresses, way] : ways_) answers(addresses, way);
    note_intervals();
  }

 private:
  using Addresses = std::pair<IpAddress, IpAddress>;

  void marks(const Flow& flow) {
    queue_pairs_[{flow.src, flow.dst}].push_back(flow.dest_qpn);
    bool incapable = false;
    Stamp marked;
    Way& way = ways_[{flow.src, flow.dst}];
    for (uint32_t index : flow.packets) {
      const PacketRecord& p = table_.packets[index];
      way.first = std::min(way.first, p.at);
      incapable |= p.ecn == kNotCapable;
      if (p.ecn != kNotCapable) findings_.examined(Rule::kA6_1);
      if (p.ecn != kCongestionExperienced) continue;
      if (marked.frame == 0) marked = p.stamp();
      if (way.marked++ == 0) way.first_marked = p.stamp();
      way.read_data |= p.info().kind == OpKind::kReadResponse;
    }
    if (incapable && marked.frame != 0) {
      findings_.add(Rule::kA6_1, marked,
                    flow.name() + ": marked, but its sender's packets are not ECN-capable");
    }
  }

  void notification(const CnpRecord& cnp) {
    // From the receiver back to the sender of what was marked.
    const auto way = ways_.find({cnp.dst, cnp.src});
    const bool read_data = way != ways_.end() && way->second.read_data;
    if (way != ways_.end()) ++way->second.notified;
    const auto known = queue_pairs_.find({cnp.src, cnp.dst});
    const Rule rule = read_data ? Rule::kA6_5 : Rule::kA6_3;
    const std::string name =
        cnp.src.text() + " -> " + cnp.dst.text() + " QP " + std::to_string(cnp.dest_qpn);
    if (known != queue_pairs_.end()) {
      findings_.examined(rule);
      if (std::ranges::find(known->second, cnp.dest_qpn) == known->second.end()) {
        findings_.add_if_gapless(rule, cnp.stamp,
                                 name + ": CNP to a queue pair that sends nothing");
      }
    }
    ToQueuePair& before = told_[{cnp.src, cnp.dst, cnp.dest_qpn}];
    const Duration interval = cnp.stamp.at - before.last;
    before.last = cnp.stamp.at;
    if (before.cnps++ == 0) return;
    intervals_.add(interval);
    if (!least_) return;
    findings_.examined(Rule::kA6_4);
    const Duration least = *least_ * (100 - kStampTolerancePercent) / 100;
    if (!crossed_network(cnp.src)) {
      if (interval >= least) return;
      return findings_.add(
          Rule::kA6_4, cnp.stamp,
          name + format_text(": CNP %.2f us after the one before, at least %.2f us agreed",
                             interval.microseconds(), least_->microseconds()));
    }
    if (way == ways_.end()) return;
    const Duration passed = cnp.stamp.at - way->second.first;
    if (passed >= least * static_cast<int64_t>(before.cnps - 1)) return;
    findings_.add(
        Rule::kA6_4, cnp.stamp,
        name + format_text(": CNP number %llu within %.2f us, at least %.2f us apart agreed",
                           static_cast<unsigned long long>(before.cnps), passed.microseconds(),
                           least_->microseconds()));
  }

  /// The capture saw it behind the emulated network, and not where it left.
  bool crossed_network(const IpAddress& sender) const {
    const auto node = addresses_ ? addresses_->find(sender) : std::nullopt;
    return node && !node->real;
  }

  /// It is known that this receiver sends no CNPs.
  bool silent(const IpAddress& receiver) const {
    if (std::ranges::find(options_.silent, receiver) != options_.silent.end()) return true;
    const auto node = addresses_ ? addresses_->find(receiver) : std::nullopt;
    return node && options_.config->nodes[node->node].kernel;
  }

  void answers(const Addresses& addresses, const Way& way) {
    if (way.marked == 0) return;
    if (way.notified == 0 && silent(addresses.second)) {
      return findings_.note(
          Check::kEcn, addresses.second.text() + " sends no CNPs: " + std::to_string(way.marked) +
                           " marks from " + addresses.first.text() + " were not answered");
    }
    findings_.examined(Rule::kA6_2);
    if (way.notified != 0) return;
    findings_.add_if_gapless(Rule::kA6_2, way.first_marked,
                             addresses.first.text() + " -> " + addresses.second.text() + ": " +
                                 std::to_string(way.marked) +
                                 " packets marked, and no CNP came back");
  }

  void note_intervals() {
    if (intervals_.count() == 0) return;
    findings_.note(
        Check::kEcn,
        format_text("CNPs to one queue pair: %.2f us apart at least, %.2f us in the median",
                    intervals_.quantile(0).microseconds(),
                    intervals_.quantile(500).microseconds()));
  }

  const PacketTable& table_;
  const CongestionOptions& options_;
  std::optional<Duration> least_;
  Findings& findings_;
  std::map<Addresses, Way> ways_;
  std::map<Addresses, std::vector<Qpn>> queue_pairs_;
  struct ToQueuePair {
    Time last;
    uint64_t cnps = 0;
  };
  std::optional<NodeAddresses> addresses_;
  std::map<std::tuple<IpAddress, IpAddress, Qpn>, ToQueuePair> told_;
  DurationSamples intervals_;
};

}  // namespace

void check_congestion(const PacketTable& table, const CongestionOptions& options,
                      Findings& findings) {
  CongestionCheck(table, options, findings).run();
}

}  // namespace understudy
