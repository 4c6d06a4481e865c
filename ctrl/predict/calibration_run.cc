#include "ctrl/predict/calibration_run.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "ctrl/predict/prediction.h"
#include "ctrl/report/text.h"
#include "ctrl/validity/validity.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

constexpr uint64_t kFromBytes = 4u << 20;

/// Rows as the model takes them: NCCL's choice at each size.
std::vector<FitRow> fit_rows(const MeasuredTable& table, const MeasuredSetup& setup) {
  const Tuner tuner(setup.system, setup.communicator, setup.version, setup.environment);
  std::vector<FitRow> rows;
  for (const MeasuredRow& row : table.rows) {
    const TuningTable choice =
        tuner.tune(setup.collective, row.bytes, setup.algorithm, setup.protocol);
    rows.push_back({operation_shape(tuner, choice, setup.collective, row.bytes, setup.type),
                    setup.network, row.time});
  }
  return rows;
}

void set_graphs(MeasuredSetup& setup) {
  search_graphs(setup.system, setup.version, setup.communicator,
                {setup.communicator.gpus_per_node(), setup.nics, setup.nic_rate / 8e9});
  if (setup.ring) {
    setup.system.ring = setup.system.tree = *setup.ring;
    setup.system.channels = 2 * setup.ring->channels;
  }
  if (setup.tree) setup.system.tree = *setup.tree;
  if (setup.channels) setup.system.channels = *setup.channels;
}

/// Volta's NVLinks differ by machine: the largest row tells how many rings' worth of links it fills.
void check_links(JudgedTable& table) {
  const MeasuredSetup& setup = table.setup;
  const bool certain = setup.ring || setup.system.gpu != GpuGeneration::kVolta ||
                       setup.communicator.nodes > 1 || setup.system.intra != IntraLink::kNvlink;
  if (certain || setup.collective != Collective::kAllReduce) return;
  const MeasuredRow& row = table.table.rows.back();
  const NcclGraph& ring = setup.system.ring;
  const double rate = static_cast<double>(row.bytes) / (1000 * row.time) *
                      bus_factor(setup.collective, setup.communicator.ranks);
  if (rate <= ring.intra * (ring.channels + 0.5)) return;
  table.beyond.push_back("line " + std::to_string(row.line) + ": " + std::to_string(row.bytes) +
                         " bytes in this time are " + decimal_text(rate, 1) +
                         " GB/s on each GPU, more than the rings of a hybrid cube mesh carry: " +
                         "give --ring if the GPUs are joined in another way");
}

/// The least size of a table that NCCL would give to the node's switches, if they reduce.
std::optional<uint64_t> nvls_from(const JudgedTable& table) {
  MeasuredSetup setup = table.setup;
  setup.system.nvls =
      nvls_efficiency(setup.system.gpu) > 0 && setup.system.intra == IntraLink::kNvlink;
  set_graphs(setup);
  const std::vector<FitRow> rows = fit_rows(table.table, setup);
  const auto first =
      std::ranges::find_if(rows, [](const FitRow& row) { return is_nvls(row.shape.algorithm); });
  if (first == rows.end()) return std::nullopt;
  return first->shape.bytes;
}

class ErrorSum {
 public:
  void add(uint64_t bytes, double error) {
    const double size = std::abs(error);
    ++errors_.rows;
    sum_ += size;
    if (size > errors_.worst) {
      errors_.worst = size;
      errors_.worst_bytes = bytes;
    }
    if (bytes > kFromBytes) errors_.worst_above_4mib = std::max(errors_.worst_above_4mib, size);
  }
  RowErrors errors() const {
    RowErrors errors = errors_;
    if (errors.rows > 0) errors.mean = sum_ / static_cast<double>(errors.rows);
    return errors;
  }

 private:
  RowErrors errors_;
  double sum_ = 0;
};

/// At `bytes`, by a line through two rows.
double on_line(const MeasuredRow& a, const MeasuredRow& b, uint64_t bytes) {
  const auto at = [&](uint64_t size) {
    return static_cast<double>(size) - static_cast<double>(a.bytes);
  };
  return a.time + at(bytes) / at(b.bytes) * (b.time - a.time);
}

/// How far a line between the used rows on both sides is from each row that was not used.
RowErrors interpolation_errors(const std::vector<JudgedRow>& rows) {
  ErrorSum sum;
  const JudgedRow* below = nullptr;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].used) {
      below = &rows[i];
      continue;
    }
    const auto above = std::find_if(rows.begin() + static_cast<std::ptrdiff_t>(i), rows.end(),
                                    [](const JudgedRow& row) { return row.used; });
    if (below == nullptr || above == rows.end()) continue;
    const MeasuredRow& row = rows[i].measured;
    sum.add(row.bytes, on_line(below->measured, above->measured, row.bytes) / row.time - 1);
  }
  return sum.errors();
}

void judge(JudgedTable& table, const Calibration& calibration) {
  ErrorSum others, used;
  for (JudgedRow& row : table.rows) {
    row.error = error_of(row.row, calibration);
    const double wire = bytes_between_nodes(row.row.shape) * table.setup.network.wire_per_byte /
                        table.setup.nics / row.measured.time * 8e6;
    if (table.setup.nic_rate > 0 && wire > table.setup.nic_rate) {
      table.beyond.push_back("line " + std::to_string(row.measured.line) + ": " +
                             std::to_string(row.measured.bytes) + " bytes in this time would be " +
                             decimal_text(wire / 1e9, 1) + " Gbit/s on each NIC of " +
                             decimal_text(table.setup.nic_rate / 1e9, 1) + " Gbit/s");
    }
    (row.used ? used : others).add(row.measured.bytes, row.error);
  }
  table.others = others.errors();
  table.used = used.errors();
  table.interpolated = interpolation_errors(table.rows);
}

bool same_way(const FitRow& a, const FitRow& b) {
  return a.shape.algorithm == b.shape.algorithm && a.shape.protocol == b.shape.protocol;
}

/// The used rows from the size on at which NCCL takes what it takes for the table's largest.
std::vector<FitRow> last_used_rows(const JudgedTable& table) {
  std::vector<FitRow> rows;
  for (const JudgedRow& row : table.rows) {
    if (!same_way(row.row, table.rows.back().row))
      rows.clear();
    else if (row.used)
      rows.push_back(row.row);
  }
  return rows;
}

/// Whether one number of GPUs and one way was measured.
bool same_kind(const FitRow& a, const FitRow& b) {
  return same_way(a, b) && a.shape.collective == b.shape.collective &&
         a.shape.communicator.ranks == b.shape.communicator.ranks &&
         a.shape.communicator.nodes == b.shape.communicator.nodes &&
         a.shape.version == b.shape.version && a.shape.gpu == b.shape.gpu;
}

/// What each number of GPUs that was measured costs besides; tables of one number together.
std::vector<OwnCost> fit_owns(std::vector<std::vector<FitRow>> tables,
                              const Calibration& calibration) {
  std::vector<OwnCost> owns;
  for (size_t i = 0; i < tables.size(); ++i) {
    std::vector<FitRow>& rows = tables[i];
    if (rows.empty()) continue;
    for (size_t other = i + 1; other < tables.size(); ++other) {
      if (tables[other].empty() || !same_kind(rows[0], tables[other][0])) continue;
      rows.insert(rows.end(), tables[other].begin(), tables[other].end());
      tables[other].clear();
    }
    std::ranges::stable_sort(rows, {}, [](const FitRow& row) { return row.shape.bytes; });
    if (const auto own = fit_own(rows, calibration)) owns.push_back(*own);
  }
  return owns;
}

/// What the used rows of all tables give, or of all but one.
Calibration fit_used(std::span<const JudgedTable> tables, const JudgedTable* without) {
  std::vector<FitRow> used;
  std::vector<std::vector<FitRow>> last;
  const MeasuredSetup* first = nullptr;
  for (const JudgedTable& table : tables) {
    if (&table == without) continue;
    if (first == nullptr) first = &table.setup;
    for (const JudgedRow& row : table.rows) {
      if (row.used) used.push_back(row.row);
    }
    last.push_back(last_used_rows(table));
  }
  Calibration calibration = fit_calibration(used, first->system, first->version).calibration;
  calibration.own = fit_owns(std::move(last), calibration);
  return calibration;
}

void choose_rows(JudgedTable& table) {
  std::vector<FitRow> rows;
  rows.reserve(table.rows.size());
  for (const JudgedRow& row : table.rows) rows.push_back(row.row);
  for (JudgedRow& row : table.rows) row.used = false;
  for (const size_t r : calibration_rows(rows, kCalibrationRows)) table.rows[r].used = true;
}

/// What a table is worth beyond its sizes: its own largest ones are judged by the others.
std::optional<BeyondErrors> judge_beyond(const JudgedTable& table) {
  const uint64_t most = table.rows.back().measured.bytes / kBeyond;
  JudgedTable known = table;
  std::erase_if(known.rows, [&](const JudgedRow& row) { return row.measured.bytes > most; });
  if (known.rows.size() < kCalibrationRows) return std::nullopt;
  choose_rows(known);
  const Calibration calibration = fit_used({&known, 1}, nullptr);
  std::vector<MeasuredRow> used;
  for (const JudgedRow& row : known.rows) {
    if (row.used) used.push_back(row.measured);
  }
  ErrorSum model, line;
  for (size_t r = known.rows.size(); r < table.rows.size(); ++r) {
    const MeasuredRow& row = table.rows[r].measured;
    model.add(row.bytes, error_of(table.rows[r].row, calibration));
    line.add(row.bytes, on_line(used[used.size() - 2], used.back(), row.bytes) / row.time - 1);
  }
  return BeyondErrors{known.rows.back().measured.bytes, model.errors(), line.errors()};
}

}  // namespace

CalibrationRun calibrate(std::vector<MeasuredTable> tables,
                         const std::vector<MeasuredSetup>& setups,
                         const std::optional<Calibration>& given) {
  CalibrationRun run;
  for (size_t i = 0; i < tables.size(); ++i) {
    JudgedTable judged;
    judged.table = std::move(tables[i]);
    judged.setup = setups[i];
    set_graphs(judged.setup);
    check_links(judged);
    const std::vector<FitRow> rows = fit_rows(judged.table, judged.setup);
    for (size_t r = 0; r < rows.size(); ++r) {
      judged.rows.push_back({judged.table.rows[r], rows[r], 0, false});
    }
    judged.nvls_from = nvls_from(judged);
    if (!given) {
      choose_rows(judged);
      judged.beyond_sizes = judge_beyond(judged);
    }
    run.tables.push_back(std::move(judged));
  }
  run.calibration = given ? *given : fit_used(run.tables, nullptr);
  for (JudgedTable& table : run.tables) {
    judge(table, run.calibration);
    if (given || run.tables.size() < 2) continue;
    const Calibration others = fit_used(run.tables, &table);
    ErrorSum sum;
    for (const JudgedRow& row : table.rows) sum.add(row.measured.bytes, error_of(row.row, others));
    table.from_others = sum.errors();
  }
  return run;
}

}  // namespace understudy
