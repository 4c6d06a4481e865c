#include "tools/roce_check/checks/congestion_check.h"

#include <algorithm>

#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

constexpr uint8_t kNotCapable = 0;
constexpr uint8_t kCongestionExperienced = 3;
constexpr int64_t kStampTolerancePercent = 10;

std::string name_of(const IpAddress& src, const IpAddress& dst, Qpn qpn) {
  return src.text() + " -> " + dst.text() + " QP " + std::to_string(qpn);
}

}  // namespace

CongestionCheck::CongestionCheck(const PacketTable& table, const CongestionOptions& options,
                                 Findings& findings)
    : table_(table), options_(options), least_(options.least_interval), findings_(findings) {
  if (options.config != nullptr) addresses_.emplace(*options.config);
}

void CongestionCheck::add() {
  for (size_t f = flows_.size(); f < table_.flows.size(); ++f) {
    const Flow& flow = table_.flows[f];
    Way& way = ways_[{flow.src, flow.dst}];
    way.queue_pairs.push_back(flow.dest_qpn);
    flows_.push_back({&way, false, {}});
  }
  for (size_t i = table_.newest; i < table_.packets.size(); ++i) marks(table_.packets[i]);
  for (const CnpRecord& cnp : table_.cnps) notification(cnp);
}

void CongestionCheck::finish() {
  for (size_t f = 0; f < flows_.size(); ++f) {
    if (!flows_[f].incapable || flows_[f].marked.frame == 0) continue;
    findings_.add(
        Rule::kA6_1, flows_[f].marked,
        table_.flows[f].name() + ": marked, but its sender's packets are not ECN-capable");
  }
  receivers();
  for (const auto& [addresses, way] : ways_) answers(addresses, way);
  note_intervals();
}

void CongestionCheck::marks(const PacketRecord& p) {
  OfFlow& flow = flows_[p.flow];
  Way& way = *flow.way;
  way.first = std::min(way.first, p.at);
  flow.incapable |= p.ecn == kNotCapable;
  if (p.ecn != kNotCapable) findings_.examined(Rule::kA6_1);
  if (p.ecn != kCongestionExperienced) return;
  if (flow.marked.frame == 0) flow.marked = p.stamp();
  if (way.marked++ == 0) way.first_marked = p.stamp();
  way.read_data |= p.info().kind == OpKind::kReadResponse;
}

void CongestionCheck::notification(const CnpRecord& cnp) {
  Told& told = told_[{cnp.src, cnp.dst, cnp.dest_qpn}];
  const Duration since = cnp.stamp.at - told.last;
  told.last = cnp.stamp.at;
  if (told.first.size() < Findings::kExamples) told.first.push_back(cnp.stamp);
  if (told.cnps++ == 0) return;
  intervals_.add(since);
  if (least_) interval(cnp, told, since);
}

void CongestionCheck::interval(const CnpRecord& cnp, const Told& told, Duration interval) {
  findings_.examined(Rule::kA6_4);
  const Duration least = *least_ * (100 - kStampTolerancePercent) / 100;
  if (!crossed_network(cnp.src)) {
    if (interval >= least) return;
    return findings_.add(
        Rule::kA6_4, cnp.stamp,
        name_of(cnp.src, cnp.dst, cnp.dest_qpn) +
            format_text(": CNP %.2f us after the one before, at least %.2f us agreed",
                        interval.microseconds(), least_->microseconds()));
  }
  // From the receiver back to the sender of what was marked.
  const auto way = ways_.find({cnp.dst, cnp.src});
  if (way == ways_.end()) return;
  const Duration passed = cnp.stamp.at - way->second.first;
  if (passed >= least * static_cast<int64_t>(told.cnps - 1)) return;
  findings_.add(Rule::kA6_4, cnp.stamp,
                name_of(cnp.src, cnp.dst, cnp.dest_qpn) +
                    format_text(": CNP number %llu within %.2f us, at least %.2f us apart agreed",
                                static_cast<unsigned long long>(told.cnps), passed.microseconds(),
                                least_->microseconds()));
}

/// Were CNPs for queue pairs that send something? That shows when the capture is over.
void CongestionCheck::receivers() {
  struct Silent {
    Stamp stamp;
    Rule rule;
    std::string name;
  };
  std::vector<Silent> silent_ones;
  for (const auto& [key, told] : told_) {
    const auto& [src, dst, qpn] = key;
    const auto way = ways_.find({dst, src});
    const bool read_data = way != ways_.end() && way->second.read_data;
    if (way != ways_.end()) way->second.notified += told.cnps;
    const auto known = ways_.find({src, dst});
    if (known == ways_.end()) continue;
    const Rule rule = read_data ? Rule::kA6_5 : Rule::kA6_3;
    findings_.examined(rule, told.cnps);
    const auto& queue_pairs = known->second.queue_pairs;
    if (std::ranges::find(queue_pairs, qpn) != queue_pairs.end()) continue;
    for (const Stamp& stamp : told.first) {
      silent_ones.push_back({stamp, rule, name_of(src, dst, qpn)});
    }
    findings_.add_if_gapless(rule, told.cnps - told.first.size());
  }
  std::ranges::sort(silent_ones, {}, [](const Silent& s) { return s.stamp.frame; });
  for (const Silent& s : silent_ones) {
    findings_.add_if_gapless(s.rule, s.stamp, s.name + ": CNP to a queue pair that sends nothing");
  }
}

/// The capture saw it behind the emulated network, and not where it left.
bool CongestionCheck::crossed_network(const IpAddress& sender) const {
  const auto node = addresses_ ? addresses_->find(sender) : std::nullopt;
  return node && !node->real;
}

/// It is known that this receiver sends no CNPs.
bool CongestionCheck::silent(const IpAddress& receiver) const {
  if (std::ranges::find(options_.silent, receiver) != options_.silent.end()) return true;
  const auto node = addresses_ ? addresses_->find(receiver) : std::nullopt;
  return node && options_.config->nodes[node->node].kernel;
}

void CongestionCheck::answers(const Addresses& addresses, const Way& way) {
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
                               std::to_string(way.marked) + " packets marked, and no CNP came back",
                           table_.last);
}

void CongestionCheck::note_intervals() {
  if (intervals_.count() == 0) return;
  findings_.note(
      Check::kEcn,
      format_text("CNPs to one queue pair: %.2f us apart at least, %.2f us in the median",
                  intervals_.quantile(0).microseconds(), intervals_.quantile(500).microseconds()));
}

void check_congestion(const PacketTable& table, const CongestionOptions& options,
                      Findings& findings) {
  CongestionCheck check(table, options, findings);
  check.add();
  check.finish();
}

}  // namespace understudy
