#include "ctrl/compare/reasons.h"

#include <algorithm>
#include <string_view>

#include "ctrl/report/text.h"

namespace understudy {
namespace {

/// Of NICs' acknowledgements by data: below, they are no reason.
constexpr double kFewAnswers = 0.01;

/// What a link behind a switch holds anyway: the packet that goes out, and the next one.
constexpr uint64_t kPacketsOnAnyLink = 2;

uint64_t count_of(const NamedCounts& counts, std::string_view name) {
  const auto it = std::ranges::find(counts, name, &NamedCounts::value_type::first);
  return it == counts.end() ? 0 : it->second;
}

}  // namespace

void Reasons::explain(ComparedRow& row) const {
  const bool closed = row.differs(Speed::kClosedForm, Speed::kPackets) ||
                      row.differs(Speed::kClosedForm, Speed::kFlow);
  const bool flow = row.differs(Speed::kFlow, Speed::kPackets);
  if (closed) explain_closed_form(row);
  if (flow) explain_flow(row);
  row.unexplained = (closed || flow) && row.reasons.empty();
}

void Reasons::explain_closed_form(ComparedRow& row) const {
  if (!row.predicted) return;
  const PredictedRow& predicted = *row.predicted;
  for (const std::string& limit : predicted.limits) {
    row.reasons.push_back("closed form: " + limit);
  }
  if (config_.calibration) {
    row.reasons.push_back("closed form: it alone has the GPUs' costs of [calibration]");
  }
  if (config_.jobs.size() > 1 || !config_.traffic.empty()) {
    row.reasons.push_back("closed form: it knows the job alone, without others and [[traffic]]");
  }
}

/// What meets on links, and what came of it.
void Reasons::explain_flow(ComparedRow& row) const {
  if (row.predicted) {
    const PredictedRow& predicted = *row.predicted;
    if (predicted.sharing > 1) {
      row.reasons.push_back("contention: " + count_text(predicted.sharing, "connection") +
                            " share a NIC; packets take turns, flows have even shares");
    } else if (predicted.messages_meet) {
      row.reasons.push_back(
          "contention: messages of one rank meet on its NIC; packets take turns, flows have even "
          "shares");
    }
    if (predicted.answers > kFewAnswers) {
      row.reasons.push_back("acknowledgements: NICs take up to " +
                            decimal_text(100 * predicted.answers, 1) +
                            " % of the data's time for them; flows have each message's last one");
    }
    if (predicted.colliding > 1) {
      row.reasons.push_back("collisions: hashes put " +
                            count_text(predicted.colliding, "connection") + " on one link");
    }
  }
  add_queues(row);
  add_counts(row);
}

/// The longest queue behind a switch, if packets met there.
void Reasons::add_queues(ComparedRow& row) const {
  if (!packets_ || !packets_->traffic) return;
  const TrafficLinkReport* worst = nullptr;
  uint64_t most = 0;
  for (const TrafficLinkReport& link : packets_->traffic->links) {
    const uint64_t peak = count_of(link.counters, "queue_peak_bytes");
    if (peak > most) worst = &link;
    most = std::max(most, peak);
  }
  const uint64_t packet = config_.fabric.mtu + config_.queues.flows.overhead;
  if (worst == nullptr || most <= kPacketsOnAnyLink * packet) return;
  row.reasons.push_back("queues: up to " + std::to_string(most) + " B waited in front of " +
                        worst->name + ", served as they came; flows have even shares");
}

/// What only packets have.
void Reasons::add_counts(ComparedRow& row) const {
  if (!packets_ || !packets_->traffic) return;
  uint64_t marked = 0, pauses = 0, lost = 0;
  for (const TrafficLinkReport& link : packets_->traffic->links) {
    marked += count_of(link.counters, "marked");
    pauses += count_of(link.counters, "pauses");
    for (const auto& [name, count] : link.counters) {
      if (name.starts_with("lost")) lost += count;
    }
  }
  if (marked > 0) {
    row.reasons.push_back("marks: " + count_text(marked, "packet") +
                          " were marked, and senders slowed down");
  }
  if (pauses > 0) row.reasons.push_back("pauses: " + count_text(pauses, "time"));
  if (lost > 0) row.reasons.push_back("losses: " + count_text(lost, "packet") + " were repeated");
}

}  // namespace understudy
