// The report for people.
#include <algorithm>
#include <iomanip>
#include <sstream>

#include "dataplane/base/text_format.h"
#include "tools/roce_check/output/report.h"
#include "tools/roce_check/output/report_totals.h"

namespace understudy {
namespace {

constexpr size_t kShownQueues = 8;
constexpr size_t kPeakWindow = 2;  // 1 ms

std::string times_text(const char* name, const DurationSamples& samples) {
  if (samples.count() == 0) return "";
  return format_text("; %s %llu, %.1f us in the median, %.1f us at most", name,
                     static_cast<unsigned long long>(samples.count()),
                     samples.quantile(500).microseconds(), samples.quantile(1000).microseconds());
}

std::string queue_text(const PacketTable& table, const DirectionResult& d) {
  const QueueRate& r = d.rate;
  std::string out = table.flows[d.flow].name() + ": ";
  out += std::to_string(r.packets) + " packets";
  if (r.mean_bps > 0) {
    const Duration window = kPeakWindows[kPeakWindow];
    out += format_text(", %.6g Mbit/s", r.mean_bps * 1e-6);
    if (r.active > window) {
      out += format_text(", at most %.6g in 1 ms",
                         static_cast<double>(r.peak_bytes[kPeakWindow]) * 8e-6 / window.seconds());
    }
    out += ", bursts of " + std::to_string(r.burst_bytes) + " bytes";
  }
  out += times_text("ACKs", d.times.ack);
  out += times_text("READs and ATOMICs", d.times.read);
  out += times_text("NAKs", d.times.nak);
  for (size_t i = 0; i < kRetryCauses; ++i) {
    const std::string name =
        std::string("retries by ") + retry_cause_name(static_cast<RetryCause>(i));
    out += times_text(name.c_str(), d.times.retry[i]);
  }
  return out;
}

void queues(const Analysis& analysis, std::ostream& out) {
  std::vector<const DirectionResult*> all;
  for (const ConnectionResult& c : analysis.connections) {
    for (const DirectionResult* d : {&c.forward, &c.reverse}) {
      if (d->flow != kNoFlow) all.push_back(d);
    }
  }
  std::ranges::stable_sort(all, std::greater{},
                           [](const DirectionResult* d) { return d->rate.wire_bytes; });
  if (all.empty()) return;
  out << "  queue pairs      " << all.size();
  if (all.size() > kShownQueues) out << ", the busiest " << kShownQueues;
  out << '\n';
  for (size_t i = 0; i < std::min(all.size(), kShownQueues); ++i) {
    out << "      " << queue_text(analysis.table, *all[i]) << '\n';
  }
}

void checks(const Findings& findings, std::ostream& out) {
  for (size_t i = 0; i < kChecks; ++i) {
    const auto check = static_cast<Check>(i);
    out << "  " << std::left << std::setw(14) << check_info(check).name << std::setw(12)
        << verdict_name(findings.verdict(check)) << check_info(check).text;
    if (findings.count(check) != 0) out << ": " << findings.count(check);
    out << '\n';
    for (const std::string& text : findings.notes(check)) out << "      " << text << '\n';
    const auto examples = findings.examples(check);
    for (const Finding& finding : examples) {
      out << "    ! " << finding.line() << " [by " << basis_text(finding.basis) << "]\n";
    }
    if (findings.count(check) > examples.size()) out << "    ! ...\n";
    const auto remarks = findings.remarks(check);
    for (const Finding& remark : remarks) {
      out << "    note: " << remark.line() << " [by " << basis_text(remark.basis) << "]\n";
    }
    if (findings.remark_count(check) > remarks.size()) {
      out << "    note: " << findings.remark_count(check) - remarks.size() << " more\n";
    }
  }
}

/// Which rules the capture gave no occasion to break.
void unmet(const Findings& findings, std::ostream& out) {
  std::string names;
  for (size_t i = 0; i < kRules; ++i) {
    const auto rule = static_cast<Rule>(i);
    const std::string id = rule_info(rule).id;
    if (id == "-" || findings.verdict(rule) != Verdict::kNotChecked) continue;
    names += " " + id;
  }
  if (!names.empty()) out << "  no occasion for " << names << '\n';
}

}  // namespace

std::string report_text(const Analysis& analysis, const std::string& path) {
  const Totals totals(analysis);
  const PacketCounts& counts = analysis.table.counts;
  std::ostringstream out;
  out << path << ": " << analysis.source.format << ", " << analysis.source.frames << " frames in "
      << std::fixed << std::setprecision(6)
      << (analysis.table.last - analysis.table.first).seconds() << " s\n";
  for (const CapturedFile& file : analysis.source.files) {
    out << "      " << file.path << ": " << file.frames << " frames, from frame " << file.before + 1
        << '\n';
  }
  out << "  RoCEv2 packets   " << counts.roce << " (RC " << counts.rc << ", UC " << counts.uc
      << ", UD " << counts.ud << ", CNP " << counts.cnp;
  if (counts.other_services != 0) out << ", not judged " << counts.other_services;
  out << "), other frames " << counts.other << ", CE-marked " << counts.congestion_marked << '\n';
  out << "  connections      " << analysis.connections.size() << " RC";
  if (totals.one_way != 0) out << ", " << totals.one_way << " seen in one direction only";
  if (totals.broken != 0) out << ", " << totals.broken << " ended by a NAK";
  out << '\n';
  for (size_t i = 0; i < std::size(Totals::kKinds); ++i) {
    const MessageSums& sums = totals.by_kind[i];
    if (sums.messages == 0) continue;
    out << "  " << std::left << std::setw(17) << Totals::kKindNames[i] << sums.messages
        << " messages, " << sums.bytes << " bytes\n";
  }
  out << "  retransmissions  " << totals.counts.retransmissions << " packets, repeated responses "
      << totals.counts.repeated_responses << '\n';
  if (totals.counts.late != 0) {
    out << "  late             " << totals.counts.late
        << " packets, lost before the capture and sent again, or overtaken\n";
  }
  if (totals.counts.not_captured != 0) {
    out << "  not captured     " << totals.counts.not_captured << " packets\n";
  }
  out << "  answers          ACK " << totals.counts.acks << ", RNR NAK " << totals.counts.rnr_naks;
  for (size_t i = 0; i < std::size(totals.counts.naks); ++i) {
    if (totals.counts.naks[i] != 0) out << ", NAK " << kNakNames[i] << ' ' << totals.counts.naks[i];
  }
  out << '\n';
  queues(analysis, out);
  checks(analysis.findings, out);
  unmet(analysis.findings, out);
  out << (analysis.findings.hold() ? "the capture holds\n" : "the capture does NOT hold\n");
  return out.str();
}

}  // namespace understudy
