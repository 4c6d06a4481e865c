#include "ctrl/report/json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "ctrl/report/real_pace.h"
#include "ctrl/report/summary.h"
#include "ctrl/report/validity_json.h"
#include "dataplane/base/output_file.h"

namespace understudy {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

template <typename T, typename Function>
Json list(const std::vector<T>& items, Function&& to_json) {
  Json out = Json::array();
  for (const T& item : items) out.push_back(to_json(item));
  return out;
}

Json counts(const NamedCounts& named) {
  Json out = Json::object();
  for (const auto& [name, count] : named) out[name] = count;
  return out;
}

Json collective_json(const CollectiveReport& c) {
  Json out;
  out["size_bytes"] = c.bytes;
  out["size_index"] = c.size_index;
  out["iteration"] = c.iteration;
  out["warmup"] = c.warmup;
  out["entry_ps"] = c.entry.ps();
  out["modelled_ps"] = c.modelled.ps();
  out["measured_ps"] = c.measured.ps();
  out["node_reported_ps"] = c.node_reported ? Json(c.node_reported->ps()) : Json();
  if (!c.by_node.empty()) {
    out["by_node_ps"] = list(c.by_node, [](Duration took) { return Json(took.ps()); });
  }
  out["lateness_ps"] = c.lateness.ps();
  out["size_mismatches"] = c.size_mismatches;
  out["wrong_elements"] = or_null(c.wrong_elements);
  out["faithful"] = c.faithful;
  return out;
}

Json summary_json(const SizeSummary& s, double bus_factor) {
  const auto whole = [](double value) { return static_cast<uint64_t>(std::llround(value)); };
  Json out;
  out["size_bytes"] = s.bytes;
  out["size_index"] = s.size_index;
  out["timed"] = s.timed;
  out["time_source"] = s.node_reported ? "node" : "environment";
  out["time_ps"] = s.time.ps();
  out["modelled_ps"] = s.modelled.ps();
  out["algbw_bytes_per_second"] = whole(s.algorithm_bandwidth());
  out["busbw_bytes_per_second"] = whole(s.algorithm_bandwidth() * bus_factor);
  out["wrong_elements"] = or_null(s.wrong_elements);
  out["faithful"] = s.faithful;
  return out;
}

Json iteration_json(const IterationReport& iteration) {
  return Json{
      {"iteration", iteration.iteration},     {"warmup", iteration.warmup},
      {"start_ps", iteration.start.ps()},     {"mean_ps", iteration.mean.ps()},
      {"longest_ps", iteration.longest.ps()}, {"compute_ps", iteration.compute.ps()},
      {"exposed_ps", iteration.exposed.ps()}, {"exposed_operations", iteration.exposed_operations}};
}

Json inferred_json(const InferenceReport& inferred) {
  Json out;
  if (inferred.lost.empty()) {
    out["lost"] = nullptr;
  } else {
    out["lost"] = inferred.lost;
  }
  out["operations"] = list(inferred.operations, [&](const InferredReport& o) {
    Json one;
    one["operation"] = o.operation;
    if (!inferred.fed) {
      one["unique"] = o.unique;
      one["confidence"] = o.confidence;
      one["explanations"] = or_null(o.explanations);
      one["other"] = o.other.empty() ? Json(nullptr) : Json(o.other);
    }
    one["right"] = o.right;
    one["late_messages"] = o.late_messages;
    one["late_ps"] = o.late.ps();
    if (!inferred.fed) one["wrong_sizes"] = o.wrong_sizes;
    return one;
  });
  return out;
}

Json communicator_json(const CommunicatorReport& c) {
  Json out;
  out["joined_ps"] = c.joined ? Json(c.joined->ps()) : Json(nullptr);
  out["ended_ps"] = c.ended ? Json(c.ended->ps()) : Json(nullptr);
  out["end"] = c.end;
  out["planned"] = c.planned;
  out["done"] = c.done;
  out["failed"] = c.failed;
  out["verdict"] = c.faithful ? "faithful" : c.not_judged ? "not judged" : "not faithful";
  return out;
}

/// `real_time`: how real nodes kept up is worth something.
Json job_json(const JobReport& job, bool real_time) {
  Json out;
  out["name"] = job.name;
  if (!job.child_of.empty()) {
    out["child_of"] = job.child_of;
    out["parent_ranks"] = job.parent_ranks;
  }
  out["collective"] = job.collective;
  out["algorithm"] = job.algorithm;
  out["protocol"] = job.protocol;
  out["type"] = job.type;
  out["payload"] = job.payload;
  out["model"] = job.model;
  if (!job.not_judged.empty()) out["not_judged"] = job.not_judged;
  out["ranks"] = job.ranks;
  out["gpus"] = job.gpus;
  out["planned"] = job.planned;
  out["done"] = job.collectives.size();
  out["failed"] = job.failed;
  if (!job.standing.empty()) out["standing"] = job.standing;
  if (const RealPace pace = real_pace(job); real_time && pace.is_worth_saying()) {
    out["pace"]["operations"] = pace.operations;
    const auto rounded = [](double value) { return std::round(value * 1e4) / 1e4; };
    out["pace"]["factor"] = rounded(pace.factor());
    out["pace"]["waited"] = rounded(pace.waited());
  }
  out["protocol_violations"] = job.violations;
  if (const auto& f = job.failover) {
    out["failover"] = {{"failed", f->failed},
                       {"probes", f->probes},
                       {"sent_again", f->repeated},
                       {"recovered", f->recovered},
                       {"recovery_given_up", f->lost}};
  }
  if (!job.communicators.empty()) out["communicators"] = list(job.communicators, communicator_json);
  if (job.answered.messages > 0) {
    out["answered"]["communicators"] = job.answered.communicators;
    out["answered"]["messages"] = job.answered.messages;
    const bool told = job.answered.operations > 0;
    out["answered"]["operations"] = told ? Json(job.answered.operations) : Json(nullptr);
  }
  if (job.real_nodes.size() > 1) out["real_nodes"] = job.real_nodes;
  if (job.inferred) out[job.inferred->fed ? "fed" : "inferred"] = inferred_json(*job.inferred);
  out["sizes"] =
      list(summarise(job), [&](const SizeSummary& s) { return summary_json(s, job.bus_factor); });
  out["collectives"] = list(job.collectives, [&](const CollectiveReport& c) {
    Json one = collective_json(c);
    if (!job.communicators.empty()) one["communicator"] = c.communicator + 1;
    return one;
  });
  out["operations_per_iteration"] = job.per_iteration;
  out["iterations"] = list(job.iterations, iteration_json);
  return out;
}

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

Json flow_json(const FlowReport& flow) {
  Json out;
  out["name"] = flow.name;
  out["from"] = flow.from;
  out["to"] = flow.to;
  out["bytes"] = flow.bytes;
  out["start_ps"] = flow.start.is_never() ? Json() : Json(flow.start.ps());
  out["received_ps"] = flow.received ? Json(flow.received->ps()) : Json();
  out["acknowledged_ps"] = flow.acknowledged ? Json(flow.acknowledged->ps()) : Json();
  out["packets"] = counts(flow.packets);
  const bool ended = flow.received.has_value();
  out["started_at_ps"] = out["start_ps"];
  out["ended_at_ps"] = ended ? Json((flow.start + *flow.received).ps()) : Json();
  out["duration_ps"] = out["received_ps"];
  if (!flow.ideal) return out;
  out["ideal_duration_ps"] = flow.ideal->ps();
  out["slowdown"] = ended ? or_null(slowdown_of(*flow.received, *flow.ideal)) : Json();
  return out;
}

Json slowdown_bucket_json(const SlowdownBucket& bucket) {
  Json out;
  out["above_bytes"] = bucket.above;
  out["most_bytes"] = bucket.most;
  out["flows"] = bucket.flows;
  Json too_few = Json::array();
  for (size_t i = 0; i < kPercentiles.size(); ++i) {
    out[kPercentiles[i].key] = bucket.at[i];
    if (bucket.is_largest(i)) too_few.push_back(kPercentiles[i].key);
  }
  out["largest"] = bucket.largest;
  out["too_few_flows_for"] = too_few;
  return out;
}

Json slowdown_json(const std::vector<FlowSlowdown>& flows) {
  return {{"percentiles", "nearest rank"},
          {"all", slowdown_bucket_json(slowdown_of_all(flows))},
          {"by_size", list(slowdown_buckets(flows), slowdown_bucket_json)}};
}

Json traffic_link_json(const TrafficLinkReport& link) {
  Json out;
  out["link"] = link.name;
  out["rate_bits_per_second"] = link.rate.bps();
  out["wire_bytes"] = link.wire_bytes;
  out["utilisation"] = link.utilisation;
  out["counters"] = counts(link.counters);
  out["queue_peak_at_ps"] = link.queue_peak_at.ps();
  out["paused_ps"] = link.paused.ps();
  out["first_pause_ps"] = link.first_pause ? Json(link.first_pause->ps()) : Json();
  if (!link.storms_detected.empty()) {
    out["storms_detected_ps"] = list(link.storms_detected, [](Time at) { return Json(at.ps()); });
  }
  return out;
}

Json traffic_group_json(const TrafficGroupReport& group) {
  Json out;
  out["name"] = group.name;
  out["first_flow"] = group.first;
  out["flows"] = group.count;
  out["ended"] = group.ended;
  out["bytes"] = group.bytes;
  out["start_ps"] = group.start.ps();
  out["took_ps"] = group.took.ps();
  out["mean_ps"] = group.mean.ps();
  out["p99_ps"] = group.p99.ps();
  out["longest_ps"] = group.longest.ps();
  if (group.slowdowns) out["slowdown"] = slowdown_json(*group.slowdowns);
  return out;
}

Json rank_job_json(const RankJobReport& job) {
  Json out;
  out["name"] = job.name;
  out["collective"] = job.collective;
  out["algorithm"] = job.algorithm;
  out["protocol"] = job.protocol;
  out["type"] = job.type;
  out["ranks"] = job.ranks;
  out["nodes"] = job.nodes;
  out["channels"] = job.channels;
  out["messages"] = job.messages;
  out["operations"] = list(job.operations, [](const RankOperationReport& operation) {
    return Json{{"bytes", operation.bytes},       {"iteration", operation.iteration},
                {"warmup", operation.warmup},     {"start_ps", operation.start.ps()},
                {"mean_ps", operation.mean.ps()}, {"longest_ps", operation.longest.ps()}};
  });
  out["operations_per_iteration"] = job.per_iteration;
  out["iterations"] = list(job.iterations, iteration_json);
  return out;
}

Json traffic_json(const TrafficReport& traffic) {
  Json out;
  out["fidelity"] = traffic.fidelity;
  out["jobs"] = list(traffic.jobs, rank_job_json);
  out["inner_messages"] = list(traffic.inner_messages, [](const InnerMessagesReport& inner) {
    return Json{{"job", inner.job}, {"counts", counts(inner.counts)}};
  });
  out["groups"] = list(traffic.groups, traffic_group_json);
  out["flows"] = list(traffic.flows, flow_json);
  out["links"] = list(traffic.links, traffic_link_json);
  out["deadlock"] = traffic.deadlock;
  out["work"] = counts(traffic.work);
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
  if (auto written = replace_file(path, report_json(report)); !written) {
    // The error begins with the path.
    return fail("report '" + path + "'" + written.error().text.substr(path.size()));
  }
  return {};
}

}  // namespace understudy
