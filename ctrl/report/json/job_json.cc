#include "ctrl/report/json/job_json.h"

#include <cmath>

#include "ctrl/report/iteration_table.h"
#include "ctrl/report/json/parts.h"
#include "ctrl/report/real_pace.h"
#include "ctrl/report/summary.h"

namespace understudy {
namespace {

using report_parts::Json;
using report_parts::list;
using report_parts::or_null;

/// What it was, in a job that lists no operations.
void add_kind(Json& out, const JobReport& job, uint32_t size_index) {
  if (size_index < job.kinds.size()) out["operation"] = job.kinds[size_index].text;
}

Json collective_json(const JobReport& job, const CollectiveReport& c) {
  Json out;
  add_kind(out, job, c.size_index);
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

Json summary_json(const JobReport& job, const SizeSummary& s) {
  const auto whole = [](double value) { return static_cast<uint64_t>(std::llround(value)); };
  Json out;
  add_kind(out, job, s.size_index);
  out["size_bytes"] = s.bytes;
  out["size_index"] = s.size_index;
  out["timed"] = s.timed;
  out["time_source"] = s.node_reported ? "node" : "environment";
  out["time_ps"] = s.time.ps();
  out["modelled_ps"] = s.modelled.ps();
  out["algbw_bytes_per_second"] = whole(s.algorithm_bandwidth());
  out["busbw_bytes_per_second"] = whole(s.algorithm_bandwidth() * bus_factor(job, s.size_index));
  out["wrong_elements"] = or_null(s.wrong_elements);
  out["faithful"] = s.faithful;
  return out;
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
    one["right"] = or_null(o.right);
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

}  // namespace

Json iteration_json(const IterationReport& iteration) {
  return Json{
      {"iteration", iteration.iteration},     {"warmup", iteration.warmup},
      {"start_ps", iteration.start.ps()},     {"mean_ps", iteration.mean.ps()},
      {"longest_ps", iteration.longest.ps()}, {"compute_ps", iteration.compute.ps()},
      {"exposed_ps", iteration.exposed.ps()}, {"exposed_operations", iteration.exposed_operations}};
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
  out["planned"] = job.listed ? Json(job.planned) : Json(nullptr);
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
  if (const OneSidedReport& one = job.answered.one_sided; one.any()) {
    out["one_sided"] = Json{{"windows", one.windows},      {"puts", one.puts},
                            {"put_bytes", one.put_bytes},  {"signals", one.signals},
                            {"answers", one.answers},      {"answer_bytes", one.answer_bytes},
                            {"unanswered", one.unanswered}};
  }
  if (job.answered.messages > 0) {
    out["answered"]["communicators"] = job.answered.communicators;
    out["answered"]["messages"] = job.answered.messages;
    const bool told = job.answered.operations > 0;
    out["answered"]["operations"] = told ? Json(job.answered.operations) : Json(nullptr);
  }
  if (job.real_nodes.size() > 1) out["real_nodes"] = job.real_nodes;
  if (job.inferred) out[job.inferred->fed ? "fed" : "inferred"] = inferred_json(*job.inferred);
  out["sizes"] = list(summarise(job), [&](const SizeSummary& s) { return summary_json(job, s); });
  out["collectives"] = list(job.collectives, [&](const CollectiveReport& c) {
    Json one = collective_json(job, c);
    if (!job.communicators.empty()) one["communicator"] = c.communicator + 1;
    return one;
  });
  out["operations_per_iteration"] = job.per_iteration;
  out["iterations"] = list(job.iterations, iteration_json);
  if (const auto pace = iteration_pace(job)) out["iteration_pace_ps"] = pace->ps();
  return out;
}

}  // namespace understudy
