#include <algorithm>
#include <map>

#include "ctrl/report/slowdown.h"
#include "ctrl/report/validity_line.h"
#include "ctrl/sweep/flow_sweep.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

constexpr int kNameWidth = 12, kCellWidth = 22;

std::string cell(const SweepRow* row, size_t percentile, uint32_t seeds) {
  if (row == nullptr || row->flows == 0) return "-";
  const Estimate& estimate = row->at[percentile];
  std::string text = format_text("%.3f", estimate.mean);
  if (estimate.seeds > 1) text += format_text(" +- %.3f", estimate.half_width);
  if (row->too_few[percentile]) text += "*";
  if (estimate.seeds < seeds) text += format_text(" (%u)", estimate.seeds);
  return text;
}

const SweepRow* row_of(const SweepCurve& curve, uint64_t most) {
  const auto found = std::ranges::find(curve.rows, most, &SweepRow::most);
  return found == curve.rows.end() ? nullptr : &*found;
}

/// "5 to 7"; of configurations with seeds of their own "5 to 7 (a), 1 to 3 (b)".
std::string seeds_text(const FlowSweep& sweep) {
  const auto range = [&](const SweepCurve& curve) {
    return format_text("%llu to %llu", static_cast<unsigned long long>(curve.first_seed),
                       static_cast<unsigned long long>(curve.first_seed + sweep.seeds - 1));
  };
  const SweepCurve& first = sweep.curves.front();
  const bool same = std::ranges::all_of(
      sweep.curves, [&](uint64_t seed) { return seed == first.first_seed; },
      &SweepCurve::first_seed);
  if (same) return range(first);
  std::string text;
  for (const SweepCurve& curve : sweep.curves) {
    text += (text.empty() ? "" : ", ") + range(curve) + " (" + curve.name + ")";
  }
  return text;
}

std::string size_text_of(const SweepRow& row) {
  SlowdownBucket bucket;
  bucket.most = row.most;
  return bucket_text(bucket);
}

/// What can stand between the commas of a line.
std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv_line(const SweepCurve& curve, const std::string& size, const SweepRow& row) {
  std::string text = csv_text(curve.name) + "," + size +
                     format_text(",%llu,%llu,%llu,%u", static_cast<unsigned long long>(row.above),
                                 static_cast<unsigned long long>(row.most),
                                 static_cast<unsigned long long>(row.flows), row.at[0].seeds);
  for (size_t i = 0; i < kPercentiles.size(); ++i) {
    text +=
        format_text(",%.6f,%.6f,%d", row.at[i].mean, row.at[i].half_width, row.too_few[i] ? 1 : 0);
  }
  return text + "\n";
}

}  // namespace

std::string sweep_text(const FlowSweep& sweep) {
  std::map<uint64_t, SweepRow> sizes;
  for (const SweepCurve& curve : sweep.curves) {
    for (const SweepRow& row : curve.rows) sizes.emplace(row.most, row);
  }
  std::string text = "# slowdown: a flow's time over its time alone in the network\n";
  text += "# seeds " + seeds_text(sweep) +
          "; percentiles of each seed by nearest rank, their mean" +
          (sweep.seeds > 1 ? " +- half of the 95 % confidence interval" : "") + "\n";
  bool too_few = false;
  for (size_t i = 0; i < kPercentiles.size(); ++i) {
    text += format_text("# %-*s", kNameWidth - 2, kPercentiles[i].name);
    for (const SweepCurve& curve : sweep.curves) {
      text += format_text(" %*s", kCellWidth, curve.name.c_str());
    }
    text += "\n";
    const auto line = [&](const std::string& name, const auto& row_in) {
      text += format_text("%-*s", kNameWidth, name.c_str());
      for (const SweepCurve& curve : sweep.curves) {
        const SweepRow* row = row_in(curve);
        text += format_text(" %*s", kCellWidth, cell(row, i, sweep.seeds).c_str());
        too_few |= row != nullptr && row->too_few[i];
      }
      text += "\n";
    };
    for (const auto& [most, row] : sizes) {
      const uint64_t size = most;
      line(size_text_of(row), [size](const SweepCurve& curve) { return row_of(curve, size); });
    }
    line("all", [](const SweepCurve& curve) { return &curve.all; });
  }
  text += format_text("# %-*s", kNameWidth - 2, "flows");
  for (const SweepCurve& curve : sweep.curves) {
    text += format_text(" %*llu", kCellWidth, static_cast<unsigned long long>(curve.all.flows));
  }
  text += "\n";
  if (too_few)
    text += "# *: in some seed the largest, for it has too few flows for this percentile\n";
  for (const SweepCurve& curve : sweep.curves) {
    if (curve.unended == 0) continue;
    text += "# " + curve.name + ": " + std::to_string(curve.unended) +
            " flows did not come in and are not counted\n";
  }
  return text + validity_text(sweep.validity);
}

std::string sweep_csv(const FlowSweep& sweep) {
  std::string text = "curve,size,above_bytes,most_bytes,flows,seeds";
  for (const Percentile& p : kPercentiles) {
    text += format_text(",%s_mean,%s_half_width_95,%s_too_few_flows", p.key, p.key, p.key);
  }
  text += "\n";
  for (const SweepCurve& curve : sweep.curves) {
    for (const SweepRow& row : curve.rows) text += csv_line(curve, size_text_of(row), row);
    text += csv_line(curve, "all", curve.all);
  }
  return text;
}

std::string flow_rows_header() {
  return "curve,seed,flow,from,to,bytes,started_at_us,ended_at_us,duration_us,ideal_duration_us,"
         "slowdown\n";
}

std::string flow_rows(const std::string& curve, const RunReport& report) {
  std::string text;
  if (!report.traffic) return text;
  for (const FlowReport& flow : report.traffic->flows) {
    if (!flow.ideal || !flow.received) continue;
    const auto slowdown = slowdown_of(*flow.received, *flow.ideal);
    if (!slowdown) continue;
    const Duration start = flow.start - Time::zero();
    text += csv_text(curve) + "," + std::to_string(report.seed) + "," + csv_text(flow.name) + "," +
            flow.from + "," + flow.to;
    text +=
        format_text(",%llu,%.6f,%.6f,%.6f,%.6f,%.6f\n", static_cast<unsigned long long>(flow.bytes),
                    start.microseconds(), (start + *flow.received).microseconds(),
                    flow.received->microseconds(), flow.ideal->microseconds(), *slowdown);
  }
  return text;
}

}  // namespace understudy
