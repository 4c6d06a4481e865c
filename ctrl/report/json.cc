#include "ctrl/report/json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "ctrl/report/json/job_json.h"
#include "ctrl/report/json/parts.h"
#include "ctrl/report/json/traffic_json.h"
#include "ctrl/report/validity_json.h"
#include "dataplane/base/output_file.h"

namespace understudy {
namespace {

using report_parts::counts;
using report_parts::Json;
using report_parts::list;
using report_parts::or_null;

Json lateness_json(const LatenessReport& lateness) {
  Json out;
  out["frames"] = lateness.frames;
  out["p50_ps"] = lateness.p50.ps();
  out["p90_ps"] = lateness.p90.ps();
  out["p99_ps"] = lateness.p99.ps();
  out["p999_ps"] = lateness.p999.ps();
  out["max_ps"] = lateness.max.ps();
  return out;
}

Json link_json(const LinkReport& link) {
  Json out;
  out["node"] = link.node;
  out["direction"] = link.up ? "up" : "down";
  out["packets"] = link.packets;
  out["wire_bytes"] = link.wire_bytes;
  out["queue_peak"] = link.queue_peak;
  out["dropped"] = link.dropped;
  return out;
}

Json fault_json(const FaultReport& fault) {
  Json out;
  out["name"] = fault.name;
  out["matched"] = fault.matched;
  out["acted"] = fault.acted;
  out["skipped"] = fault.skipped;
  return out;
}

Json sender_json(const SenderReport& sender) {
  Json out;
  out["user"] = sender.user;
  out["reference_node"] = sender.reference;
  out["control"] = sender.control;
  out["queue_pairs"] = sender.queue_pairs;
  out["cnps"] = sender.cnps;
  out["rate_cuts"] = sender.rate_cuts;
  out["lowest_rate_bits_per_second"] = sender.lowest.bps();
  out["final_rate_bits_per_second"] = sender.final.bps();
  return out;
}

Json pacing_json(const std::optional<PacingReport>& pacing) {
  if (!pacing) return nullptr;
  Json out;
  out["by"] = pacing->by_device ? "transmit time stamps"
              : pacing->naps    ? "naps and spinning"
                                : "spinning";
  out["device_has_time_stamps"] = pacing->device_time_stamps;
  out["threads"] = pacing->threads;
  return out;
}

Json pfc_json(const PfcReport& pfc) {
  Json out;
  out["on"] = pfc.on;
  out["sent"] = pfc.sent;
  out["received"] = pfc.received;
  out["told_to_pause_ps"] = pfc.told.ps();
  out["paused_by_node_ps"] = pfc.heard.ps();
  out["most_late_ps"] = pfc.late.ps();
  return out;
}

Json port_json(const PortReport& port) {
  Json out;
  out["name"] = port.name;
  out["device"] = port.device;
  out["node"] = port.node;
  out["counters"] = counts(port.counters);
  out["drops"] = counts(port.drops);
  out["rc_events"] = counts(port.rc_events);
  out["cm"] = counts(port.cm);
  out["device_counters"] = counts(port.device_counters);
  out["lateness"] = lateness_json(port.lateness);
  out["pacing"] = pacing_json(port.pacing);
  out["pfc"] = pfc_json(port.pfc);
  out["links"] = list(port.links, link_json);
  out["faults"] = list(port.faults, fault_json);
  out["senders"] = list(port.senders, sender_json);
  return out;
}

Json loop_json(const LoopReport& loop) {
  Json out;
  out["loops"] = loop.loops;
  out["bursts"] = loop.bursts;
  out["naps"] = loop.naps;
  out["gaps"] = loop.gaps;
  out["longest_gaps"] = list(loop.kept, [](const GapReport& gap) {
    return Json{{"from_ps", gap.from.ps()}, {"length_ps", gap.length.ps()}};
  });
  return out;
}

Json service_json(const ServiceReport& service) {
  Json out;
  out["node"] = service.node;
  out["port"] = service.port;
  out["kind"] = service.kind;
  out["client"] = service.client;
  out["from_ps"] = service.from.ps();
  out["to_ps"] = service.to.ps();
  out["error"] = service.error.empty() ? Json() : Json(service.error);
  return out;
}

Json client_json(const ClientReport& client) {
  Json out;
  out["node"] = client.node;
  out["server"] = client.server;
  out["port"] = client.port;
  out["kind"] = client.kind;
  out["message_bytes"] = client.bytes;
  out["messages"] = client.messages;
  out["queue_pairs"] = client.queue_pairs;
  out["completed"] = client.completed;
  out["from_ps"] = client.from.ps();
  out["to_ps"] = client.to.ps();
  out["error"] = client.error.empty() ? Json() : Json(client.error);
  return out;
}

Json kernel_json(const KernelReport& kernel) {
  Json out;
  out["node"] = kernel.node;
  out["exit_status"] = or_null(kernel.exit_status);
  out["counters"] = counts(kernel.counters);
  return out;
}

Json outage_json(const OutageReport& outage) {
  Json out;
  out["event"] = outage.event;
  out["at_ps"] = outage.at.ps();
  out["rerouted_ps"] = outage.rerouted ? Json(outage.rerouted->ps()) : Json();
  out["stopped"] = outage.stopped;
  out["again"] = outage.again;
  out["longest_ps"] = outage.again != 0 ? Json(outage.longest.ps()) : Json();
  return out;
}

Json drill_json(const DrillReport& drill) {
  Json out;
  out["name"] = drill.name;
  out["from_ps"] = drill.from.is_never() ? Json() : Json(drill.from.ps());
  out["until_ps"] = drill.until ? Json(drill.until->ps()) : Json();
  switch (drill.expected) {
    case DrillExpectation::kRecovers:
      out["recovers_within_ps"] = drill.within.ps();
      break;
    case DrillExpectation::kReports:
      out["reports_within_ps"] = drill.within.ps();
      break;
    case DrillExpectation::kSlower:
      out["slower_by_at_most"] = drill.slower;
      break;
  }
  out["passed"] = drill.passed;
  out["text"] = drill.text;
  out["found_ps"] = drill.found ? Json(drill.found->ps()) : Json();
  out["slowest"] = or_null(drill.slowest);
  return out;
}

Json run_json(const RunReport& report) {
  Json out;
  out["schema"] = kReportSchema;
  out["program"] = {{"name", "understudy"}, {"version", report.program_version}};
  out["dpdk"] = or_null(report.dpdk_version);
  out["configuration"] = {{"path", report.configuration_path}, {"hash", report.configuration_hash}};
  out["scenarios"] = list(report.scenarios, [](const auto& scenario) {
    return Json{{"path", scenario.first}, {"hash", scenario.second}};
  });
  out["seed"] = report.seed;
  out["clock"] = report.virtual_clock ? "virtual" : "real";
  out["started_unix_seconds"] = or_null(report.started);
  out["duration_ps"] = report.duration.ps();
  out["ended_by"] = or_null(report.ended_by);
  out["tolerance"] = report.tolerance;
  out["verdict"] = {{"faithful", report.verdict.faithful},
                    {"judged", report.verdict.judged},
                    {"reasons", report.verdict.reasons}};
  if (report.verdict.not_judged) out["verdict"]["not_judged"] = true;
  out["validity"] = validity_json(report.validity);
  out["commands"] = list(report.commands, [](const CommandReport& command) {
    return Json{{"at_ps", command.at.ps()}, {"text", command.text}};
  });
  if (!report.outages.empty()) out["outages"] = list(report.outages, outage_json);
  if (!report.drills.empty()) out["drills"] = list(report.drills, drill_json);
  if (report.broken_off) {
    out["broken_off"] = {{"at_ps", report.broken_off->at.ps()}, {"text", report.broken_off->text}};
  }
  if (!report.closed.empty()) out["closed"] = report.closed;
  out["jobs"] =
      list(report.jobs, [&](const JobReport& job) { return job_json(job, !report.virtual_clock); });
  out["traffic"] = report.traffic ? traffic_json(*report.traffic) : Json();
  out["services"] = list(report.services, service_json);
  out["services_left_out"] = {{"clients", report.services_left_out.clients},
                              {"failed", report.services_left_out.failed}};
  out["clients"] = list(report.clients, client_json);
  out["kernels"] = list(report.kernels, kernel_json);
  out["ports"] = list(report.ports, port_json);
  out["loop"] = report.loop ? loop_json(*report.loop) : Json();
  out["capture_drops"] = or_null(report.capture_drops);
  return out;
}

}  // namespace

std::string report_json(const RunReport& report) {
  // Texts may come from clients: bytes that are not UTF-8 are replaced, never an error.
  return run_json(report).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<void> write_report(const RunReport& report, const std::string& path) {
  // A reader, or a run that dies here, sees the old report or the whole new one.
  return replace_file(path, report_json(report));
}

}  // namespace understudy
