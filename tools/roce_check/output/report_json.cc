// The report for programs.
#include <nlohmann/json.hpp>

#include "tools/roce_check/output/report.h"
#include "tools/roce_check/output/report_totals.h"

namespace understudy {
namespace {

using Json = nlohmann::ordered_json;

Json counts_json(const StreamCounts& counts) {
  Json out = {{"request_packets", counts.requests},
              {"retransmissions", counts.retransmissions},
              {"response_packets", counts.responses},
              {"repeated_responses", counts.repeated_responses},
              {"acks", counts.acks},
              {"rnr_naks", counts.rnr_naks}};
  for (size_t i = 0; i < std::size(counts.naks); ++i) {
    out["naks"][kNakNames[i]] = counts.naks[i];
  }
  out["unanswered"] = counts.unanswered;
  out["late"] = counts.late;
  out["not_captured"] = counts.not_captured;
  return out;
}

Json times_json(const DurationSamples& samples) {
  return {{"count", samples.count()},
          {"min", samples.quantile(0).ps()},
          {"median", samples.quantile(500).ps()},
          {"p99", samples.quantile(990).ps()},
          {"max", samples.quantile(1000).ps()}};
}

Json rate_json(const QueueRate& rate) {
  Json out = {{"wire_bytes", rate.wire_bytes},
              {"active_ps", rate.active.ps()},
              {"mean_bps", rate.mean_bps},
              {"burst_bytes", rate.burst_bytes}};
  for (size_t i = 0; i < kPeakWindows.size(); ++i) {
    out["peaks"].push_back({{"window_ps", kPeakWindows[i].ps()}, {"bytes", rate.peak_bytes[i]}});
  }
  return out;
}

Json direction_json(const PacketTable& table, const DirectionResult& d) {
  Json out;
  if (d.flow != kNoFlow) {
    out["src"] = table.flows[d.flow].src.text();
    out["dst"] = table.flows[d.flow].dst.text();
    out["dest_qpn"] = table.flows[d.flow].dest_qpn;
  }
  out.update(counts_json(d.counts));
  const MessageSums sums = d.messages.total();
  out["messages"] = sums.messages;
  out["bytes"] = sums.bytes;
  out["times_ps"]["ack"] = times_json(d.times.ack);
  out["times_ps"]["read"] = times_json(d.times.read);
  out["times_ps"]["nak"] = times_json(d.times.nak);
  for (size_t i = 0; i < kRetryCauses; ++i) {
    const std::string name =
        std::string("retry_by_") + retry_cause_name(static_cast<RetryCause>(i));
    out["times_ps"][name] = times_json(d.times.retry[i]);
  }
  if (d.flow != kNoFlow) out["rate"] = rate_json(d.rate);
  return out;
}

Json finding_json(const Finding& f) {
  return {{"rule", rule_info(f.rule).id},
          {"check", check_info(rule_info(f.rule).check).name},
          {"severity", severity_name(f.severity)},
          {"frame", f.stamp.frame},
          {"time_ps", f.stamp.at.ps()},
          {"rests_on", basis_text(f.basis)},
          {"text", f.text}};
}

void findings_json(const Findings& findings, Json& out) {
  out["violations"] = Json::array();
  out["remarks"] = Json::array();
  for (size_t i = 0; i < kChecks; ++i) {
    const auto check = static_cast<Check>(i);
    Json lines = Json::array();
    for (const Finding& f : findings.examples(check)) {
      lines.push_back(f.line());
      out["violations"].push_back(finding_json(f));
    }
    for (const Finding& f : findings.remarks(check)) out["remarks"].push_back(finding_json(f));
    out["checks"].push_back({{"name", check_info(check).name},
                             {"verdict", verdict_name(findings.verdict(check))},
                             {"violations", findings.count(check)},
                             {"remarks", findings.remark_count(check)},
                             {"examples", std::move(lines)},
                             {"notes", findings.notes(check)}});
  }
  for (size_t i = 0; i < kRules; ++i) {
    const auto rule = static_cast<Rule>(i);
    out["rules"].push_back({{"rule", rule_info(rule).id},
                            {"check", check_info(rule_info(rule).check).name},
                            {"text", rule_info(rule).text},
                            {"verdict", verdict_name(findings.verdict(rule))},
                            {"violations", findings.count(rule)}});
  }
  out["undecided"] = findings.undecided();
  out["holds"] = findings.hold();
}

std::string written(const Json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Json capture_json(const Analysis& analysis, const std::string& path) {
  const Totals totals(analysis);
  const PacketCounts& counts = analysis.table.counts;
  Json out;
  out["schema"] = "understudy-roce-check/2";
  out["capture"] = path;
  out["format"] = analysis.source.format;
  out["interfaces"] = analysis.source.interfaces;
  for (const CapturedFile& file : analysis.source.files) {
    out["files"].push_back(
        {{"path", file.path}, {"frames_before", file.before}, {"frames", file.frames}});
  }
  out["frames"] = analysis.source.frames;
  out["duration_ps"] = (analysis.table.last - analysis.table.first).ps();
  out["capture_drops"] = analysis.source.drops;
  out["packets"] = {{"roce", counts.roce},   {"rc", counts.rc},
                    {"uc", counts.uc},       {"ud", counts.ud},
                    {"cnp", counts.cnp},     {"other_services", counts.other_services},
                    {"other", counts.other}, {"ce_marked", counts.congestion_marked}};
  for (size_t i = 0; i < std::size(Totals::kKinds); ++i) {
    out["messages"][Totals::kKindNames[i]] = {{"count", totals.by_kind[i].messages},
                                              {"bytes", totals.by_kind[i].bytes}};
  }
  out["totals"] = counts_json(totals.counts);
  out["connections"] = Json::array();
  for (const ConnectionResult& c : analysis.connections) {
    Json connection;
    connection["path_mtu"] = c.connection.pmtu;
    connection["broken"] = c.broken;
    connection["forward"] = direction_json(analysis.table, c.forward);
    connection["reverse"] = direction_json(analysis.table, c.reverse);
    out["connections"].push_back(std::move(connection));
  }
  findings_json(analysis.findings, out);
  return out;
}

Json way_json(const WayBetween& way) {
  Json out = {{"name", way.name},           {"sent_at", way.from_a ? "first" : "second"},
              {"sent", way.sent},           {"came", way.came},
              {"lost", way.lost},           {"unseen", way.unseen},
              {"overtaken", way.overtaken}, {"delay_ps", times_json(way.delay)}};
  out["first_lost"] = Json::array();
  for (const Stamp& stamp : way.first_lost) {
    out["first_lost"].push_back({{"frame", stamp.frame}, {"time_ps", stamp.at.ps()}});
  }
  return out;
}

}  // namespace

std::string report_json(const Analysis& analysis, const std::string& path) {
  return written(capture_json(analysis, path));
}

std::string ends_json(const Analysis& a, const std::string& path_a, const Analysis& b,
                      const std::string& path_b, const Between& between) {
  Json out;
  out["schema"] = "understudy-roce-check-ends/1";
  out["captures"] = {capture_json(a, path_a), capture_json(b, path_b)};
  Json& found = out["between"];
  found["clock_ahead_ps"] = between.clock_ahead ? Json(between.clock_ahead->ps()) : Json();
  found["lost"] = between.lost();
  found["not_judged"] = between.unjudged;
  found["queue_pairs"] = Json::array();
  for (const WayBetween& way : between.ways) found["queue_pairs"].push_back(way_json(way));
  return written(out);
}

}  // namespace understudy
