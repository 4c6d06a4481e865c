#include "tools/roce_check/analysis.h"

#include <algorithm>
#include <utility>

#include "tools/roce_check/collective_check.h"
#include "tools/roce_check/rate_check.h"

namespace understudy {
namespace {

ConnectionResult follow(const PacketTable& table, const Connection& connection, bool open_end,
                        Findings& findings) {
  const uint32_t f = connection.forward;
  const uint32_t r = connection.reverse;
  static const std::vector<uint32_t> kNothing;
  const auto& there = table.flows[f].packets;
  const auto& back = r != kNoFlow && r != f ? table.flows[r].packets : kNothing;
  RequestStream forward(table.flows[f].name(), connection.pmtu, findings);
  RequestStream reverse(r != kNoFlow ? table.flows[r].name() : "answer to " + table.flows[f].name(),
                        connection.pmtu, findings);
  size_t i = 0, j = 0;
  while (i < there.size() || j < back.size()) {
    const bool take_there = j == back.size() || (i < there.size() && there[i] < back[j]);
    const PacketRecord& p = table.packets[take_there ? there[i++] : back[j++]];
    RequestStream& asks = take_there ? forward : reverse;
    RequestStream& answered = take_there && r != f ? reverse : forward;
    if (p.info().is_request()) {
      asks.request(p);
    } else {
      answered.response(p);
    }
  }
  ConnectionResult out;
  out.connection = connection;
  out.broken = forward.broken() || reverse.broken();
  forward.finish(out.broken || open_end);
  reverse.finish(out.broken || open_end);
  out.forward = {f, forward.counts(), forward.messages()};
  out.reverse = {r, reverse.counts(), reverse.messages()};
  return out;
}

void check_completeness(const SourceSummary& source, const PacketTable& table, Findings& findings) {
  findings.checked(Check::kComplete);
  if (source.truncated) {
    findings.add(Check::kComplete, 0, "the file ends inside a packet");
  }
  if (source.cut_frames != 0) {
    findings.add(Check::kComplete, 0,
                 std::to_string(source.cut_frames) + " frames were cut by a snap length");
  }
  if (source.drops != 0) {
    findings.add(Check::kComplete, 0,
                 std::to_string(source.drops) + " frames were dropped by the capture");
  }
  if (!source.has_drop_counts && source.has_run_times) {
    findings.add(Check::kComplete, 0, "no statistics block: the capture was not closed");
  }
  if (table.counts.roce == 0) findings.add(Check::kComplete, 0, "no RoCEv2 packet");
}

}  // namespace

Result<Analysis> analyse(const std::string& path, const AnalysisOptions& options) {
  auto source = open_capture_source(path);
  if (!source) return tl::unexpected(source.error());
  Analysis out;
  auto table = read_packets(**source, out.findings);
  if (!table) return tl::unexpected(table.error());
  out.table = std::move(*table);
  out.source = (*source)->summary();
  for (const Connection& connection : pair_flows(out.table)) {
    out.connections.push_back(follow(out.table, connection, options.open_end, out.findings));
  }
  check_completeness(out.source, out.table, out.findings);
  if (options.config != nullptr) {
    check_rates(*options.config, out);
    check_collectives(*options.config, options.open_end, out);
  }
  return out;
}

}  // namespace understudy
