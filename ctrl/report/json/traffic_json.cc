#include "ctrl/report/json/traffic_json.h"

#include "ctrl/report/json/job_json.h"
#include "ctrl/report/json/parts.h"
#include "ctrl/report/json/trace_json.h"
#include "ctrl/report/json/training_json.h"

namespace understudy {
namespace {

using report_parts::counts;
using report_parts::Json;
using report_parts::list;
using report_parts::or_null;

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

}  // namespace

Json traffic_json(const TrafficReport& traffic) {
  Json out;
  out["fidelity"] = traffic.fidelity;
  out["jobs"] = list(traffic.jobs, rank_job_json);
  out["training"] = traffic.training ? training_report_json(*traffic.training) : Json();
  out["traces"] = traffic.traces ? trace_report_json(*traffic.traces) : Json();
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

}  // namespace understudy
