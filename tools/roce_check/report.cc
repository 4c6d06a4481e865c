#include "tools/roce_check/report.h"

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

namespace understudy {
namespace {

constexpr const char* kNakNames[] = {"psn_sequence", "invalid_request", "remote_access",
                                     "remote_operational", "invalid_rd_request"};

const char* kind_name(OpKind kind) {
  switch (kind) {
    case OpKind::kSend:
      return "send";
    case OpKind::kWrite:
      return "write";
    case OpKind::kReadRequest:
      return "read";
    case OpKind::kAtomicRequest:
      return "atomic";
    default:
      return "other";
  }
}

struct MessageSums {
  uint64_t messages = 0, bytes = 0;
};

struct Totals {
  StreamCounts counts;
  MessageSums by_kind[4];
  uint64_t broken = 0, one_way = 0;

  static constexpr OpKind kKinds[4] = {OpKind::kSend, OpKind::kWrite, OpKind::kReadRequest,
                                       OpKind::kAtomicRequest};

  void add(const DirectionResult& d) {
    counts.requests += d.counts.requests;
    counts.retransmissions += d.counts.retransmissions;
    counts.responses += d.counts.responses;
    counts.repeated_responses += d.counts.repeated_responses;
    counts.acks += d.counts.acks;
    counts.rnr_naks += d.counts.rnr_naks;
    counts.unanswered += d.counts.unanswered;
    for (size_t i = 0; i < std::size(counts.naks); ++i) counts.naks[i] += d.counts.naks[i];
    for (const AcceptedMessage& m : d.messages) {
      const auto at = std::ranges::find(kKinds, m.kind) - std::begin(kKinds);
      if (at == std::ssize(kKinds)) continue;
      ++by_kind[at].messages;
      by_kind[at].bytes += m.bytes;
    }
  }
};

Totals totals_of(const Analysis& analysis) {
  Totals out;
  for (const ConnectionResult& c : analysis.connections) {
    out.add(c.forward);
    out.add(c.reverse);
    out.broken += c.broken ? 1 : 0;
    out.one_way += c.connection.reverse == kNoFlow ? 1 : 0;
  }
  return out;
}

nlohmann::ordered_json counts_json(const StreamCounts& counts) {
  nlohmann::ordered_json out = {{"request_packets", counts.requests},
                                {"retransmissions", counts.retransmissions},
                                {"response_packets", counts.responses},
                                {"repeated_responses", counts.repeated_responses},
                                {"acks", counts.acks},
                                {"rnr_naks", counts.rnr_naks}};
  for (size_t i = 0; i < std::size(counts.naks); ++i) {
    out["naks"][kNakNames[i]] = counts.naks[i];
  }
  out["unanswered"] = counts.unanswered;
  return out;
}

nlohmann::ordered_json direction_json(const PacketTable& table, const DirectionResult& d) {
  nlohmann::ordered_json out;
  if (d.flow != kNoFlow) {
    out["src"] = table.flows[d.flow].src.text();
    out["dst"] = table.flows[d.flow].dst.text();
    out["dest_qpn"] = table.flows[d.flow].dest_qpn;
  }
  out.update(counts_json(d.counts));
  MessageSums sums;
  for (const AcceptedMessage& m : d.messages) {
    ++sums.messages;
    sums.bytes += m.bytes;
  }
  out["messages"] = sums.messages;
  out["bytes"] = sums.bytes;
  return out;
}

}  // namespace

std::string report_text(const Analysis& analysis, const std::string& path) {
  const Totals totals = totals_of(analysis);
  const PacketCounts& counts = analysis.table.counts;
  std::ostringstream out;
  out << path << ": " << analysis.source.format << ", " << analysis.source.frames << " frames in "
      << std::fixed << std::setprecision(6)
      << (analysis.table.last - analysis.table.first).seconds() << " s\n";
  out << "  RoCEv2 packets   " << counts.roce << " (RC " << counts.rc << ", UC " << counts.uc
      << ", UD " << counts.ud << ", CNP " << counts.cnp << "), other frames " << counts.other
      << ", CE-marked " << counts.congestion_marked << '\n';
  out << "  connections      " << analysis.connections.size() << " RC";
  if (totals.one_way != 0) out << ", " << totals.one_way << " seen in one direction only";
  if (totals.broken != 0) out << ", " << totals.broken << " ended by a NAK";
  out << '\n';
  for (size_t i = 0; i < std::size(Totals::kKinds); ++i) {
    const MessageSums& sums = totals.by_kind[i];
    if (sums.messages == 0) continue;
    out << "  " << std::left << std::setw(17) << kind_name(Totals::kKinds[i]) << sums.messages
        << " messages, " << sums.bytes << " bytes\n";
  }
  out << "  retransmissions  " << totals.counts.retransmissions << " packets, repeated responses "
      << totals.counts.repeated_responses << '\n';
  out << "  answers          ACK " << totals.counts.acks << ", RNR NAK " << totals.counts.rnr_naks;
  for (size_t i = 0; i < std::size(totals.counts.naks); ++i) {
    if (totals.counts.naks[i] != 0) out << ", NAK " << kNakNames[i] << ' ' << totals.counts.naks[i];
  }
  out << '\n';
  for (size_t i = 0; i < kChecks; ++i) {
    const auto check = static_cast<Check>(i);
    const CheckInfo& info = check_info(check);
    const Verdict verdict = analysis.findings.verdict(check);
    out << "  " << std::left << std::setw(13) << info.name << std::setw(6) << info.rule
        << std::setw(12) << verdict_name(verdict) << info.text;
    if (analysis.findings.count(check) != 0) out << ": " << analysis.findings.count(check);
    out << '\n';
    for (const std::string& text : analysis.findings.notes(check)) out << "      " << text << '\n';
    for (const std::string& text : analysis.findings.examples(check)) {
      out << "    ! " << text << '\n';
    }
    if (analysis.findings.count(check) > Findings::kExamples) out << "    ! ...\n";
  }
  out << (analysis.findings.hold() ? "the capture holds\n" : "the capture does NOT hold\n");
  return out.str();
}

std::string report_json(const Analysis& analysis, const std::string& path) {
  const Totals totals = totals_of(analysis);
  const PacketCounts& counts = analysis.table.counts;
  nlohmann::ordered_json out;
  out["schema"] = "understudy-roce-check/1";
  out["capture"] = path;
  out["format"] = analysis.source.format;
  out["interfaces"] = analysis.source.interfaces;
  out["frames"] = analysis.source.frames;
  out["duration_ps"] = (analysis.table.last - analysis.table.first).ps();
  out["capture_drops"] = analysis.source.drops;
  out["packets"] = {{"roce", counts.roce},
                    {"rc", counts.rc},
                    {"uc", counts.uc},
                    {"ud", counts.ud},
                    {"cnp", counts.cnp},
                    {"other", counts.other},
                    {"ce_marked", counts.congestion_marked}};
  for (size_t i = 0; i < std::size(Totals::kKinds); ++i) {
    out["messages"][kind_name(Totals::kKinds[i])] = {{"count", totals.by_kind[i].messages},
                                                     {"bytes", totals.by_kind[i].bytes}};
  }
  out["totals"] = counts_json(totals.counts);
  out["connections"] = nlohmann::ordered_json::array();
  for (const ConnectionResult& c : analysis.connections) {
    nlohmann::ordered_json connection;
    connection["path_mtu"] = c.connection.pmtu;
    connection["broken"] = c.broken;
    connection["forward"] = direction_json(analysis.table, c.forward);
    connection["reverse"] = direction_json(analysis.table, c.reverse);
    out["connections"].push_back(std::move(connection));
  }
  for (size_t i = 0; i < kChecks; ++i) {
    const auto check = static_cast<Check>(i);
    const CheckInfo& info = check_info(check);
    out["checks"].push_back({{"name", info.name},
                             {"rule", info.rule},
                             {"verdict", verdict_name(analysis.findings.verdict(check))},
                             {"violations", analysis.findings.count(check)},
                             {"examples", analysis.findings.examples(check)},
                             {"notes", analysis.findings.notes(check)}});
  }
  out["holds"] = analysis.findings.hold();
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace understudy
