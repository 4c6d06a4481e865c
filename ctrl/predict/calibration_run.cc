#include "ctrl/predict/calibration_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
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
    const MeasuredRow &a = below->measured, &b = above->measured, &row = rows[i].measured;
    const double share =
        static_cast<double>(row.bytes - a.bytes) / static_cast<double>(b.bytes - a.bytes);
    sum.add(row.bytes, (a.time + share * (b.time - a.time)) / row.time - 1);
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

/// What the used rows of all tables give, or of all but one.
Calibration fit_used(const std::vector<JudgedTable>& tables, const JudgedTable* without) {
  std::vector<FitRow> used;
  const MeasuredSetup* first = nullptr;
  for (const JudgedTable& table : tables) {
    if (&table == without) continue;
    if (first == nullptr) first = &table.setup;
    for (const JudgedRow& row : table.rows) {
      if (row.used) used.push_back(row.row);
    }
  }
  return fit_calibration(used, first->system, first->version).calibration;
}

/// Picoseconds, as the configuration reads them back exactly.
std::string us_text(double us) { return format_text("\"%.0fps\"", std::max(us, 0.0) * 1e6); }

std::string graph_toml(const char* key, const NcclGraph& graph) {
  return format_text("%s = { channels = %u, intra = \"%gGB/s\", inter = \"%gGB/s\" }\n", key,
                     graph.channels, graph.intra, graph.inter);
}

/// A text as TOML writes it.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? format_text("\\u%04x", byte) : std::string(1, c);
  }
  return out + '"';
}

/// Where the constants come from: predict says how far it goes beyond.
std::string origin_toml(const CalibrationRun& run) {
  std::string text = "from = [\n";
  for (const JudgedTable& t : run.tables) {
    text += "  { table = " + quoted(std::filesystem::path(t.table.path).filename().string());
    text.append(", collective = \"").append(name_of(kCollectiveNames, t.setup.collective));
    text.append("\", gpu = \"").append(name_of(kGpuNames, t.setup.system.gpu)).append("\"");
    text += format_text(", nccl = \"2.%u\", ranks = %u, nodes = %u", t.setup.version.minor,
                        t.setup.communicator.ranks, t.setup.communicator.nodes);
    const auto size = [](uint64_t bytes) {
      std::string words = size_text(bytes);
      std::erase(words, ' ');
      return words;
    };
    text += ", smallest = \"" + size(t.table.rows.front().bytes) + "\", largest = \"" +
            size(t.table.rows.back().bytes) + "\" },\n";
  }
  return text + "]\n";
}

/// The rings that predict will find for each table by itself.
std::string rings_comment(const CalibrationRun& run) {
  std::string text;
  for (const JudgedTable& t : run.tables) {
    text += format_text("# %s%u ranks: %u rings of %g GB/s, %u channels\n",
                        text.empty() ? "searched: " : "          ", t.setup.communicator.ranks,
                        t.setup.system.ring.channels, t.setup.system.ring.intra,
                        t.setup.system.channels);
  }
  return text;
}

bool has_used_row(const CalibrationRun& run, Protocol protocol) {
  return std::ranges::any_of(run.tables, [&](const JudgedTable& table) {
    return std::ranges::any_of(table.rows, [&](const JudgedRow& row) {
      return row.used && row.row.shape.protocol == protocol;
    });
  });
}

std::string errors_text(const char* name, const RowErrors& errors) {
  return format_text(
      "#   %s: %zu, mean error %.2f %%, worst %.1f %% (%llu bytes), worst above "
      "4 MiB %.1f %%\n",
      name, errors.rows, 100 * errors.mean, 100 * errors.worst,
      static_cast<unsigned long long>(errors.worst_bytes), 100 * errors.worst_above_4mib);
}

/// What to take between the rows that were used, and beyond them.
std::string advice_text(const JudgedTable& table) {
  const RowErrors &line = table.interpolated, &model = table.others;
  if (line.rows == 0) return "";
  std::string text = errors_text("by a line between used rows", line);
  text += line.mean < model.mean
              ? "#   between these sizes of this table interpolation is the better answer; "
              : "#   the model is the better answer between these sizes, too; ";
  return text + "for other numbers of GPUs the model is\n";
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
    if (!given) {
      for (const size_t r : calibration_rows(rows, kCalibrationRows)) judged.rows[r].used = true;
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

std::string calibration_toml(const CalibrationRun& run) {
  const MeasuredSetup& setup = run.tables.front().setup;
  const NcclSystem& system = setup.system;
  std::string text = "[nccl]\n";
  text += "gpu = \"" + std::string(name_of(kGpuNames, system.gpu)) + "\"\n";
  text += "cpu = \"" + std::string(name_of(kCpuNames, system.cpu)) + "\"\n";
  text += "intra = \"" + std::string(name_of(kIntraNames, system.intra)) + "\"\n";
  if (setup.ring) text += graph_toml("ring", system.ring);
  if (setup.ring || setup.tree) text += graph_toml("tree", system.tree);
  if (setup.channels) text += format_text("channels = %u\n", system.channels);
  if (!setup.ring) text += rings_comment(run);
  text += "\n[calibration]\nlaunch = " + us_text(run.calibration.launch) +
          format_text("\ntail = %.4f\n", run.calibration.tail);
  if (run.calibration.link > 0) text += format_text("link = \"%.4fGB/s\"\n", run.calibration.link);
  for (const auto& [key, protocol] :
       {std::pair{"simple", Protocol::kSimple}, std::pair{"ll", Protocol::kLL},
        std::pair{"ll128", Protocol::kLL128}}) {
    const ProtocolCost& cost = run.calibration.of(protocol);
    if (cost.rate <= 0) continue;
    text += std::string(key) + format_text(" = { rate = \"%.4fGB/s\"", cost.rate);
    for (const auto& [name, us] : {std::pair{"round", cost.round},
                                   {"pass", cost.pass},
                                   {"step", cost.step},
                                   {"latency", cost.latency},
                                   {"network_latency", cost.network_latency}}) {
      if (us > 0) text += std::string(", ") + name + " = " + us_text(us);
    }
    text += has_used_row(run, protocol) ? " }\n" : " }  # no row: as usual\n";
  }
  return text + origin_toml(run);
}

std::string judgement_text(const CalibrationRun& run, bool all) {
  std::string text;
  std::vector<std::string> unjudged;
  std::vector<std::pair<std::string, uint64_t>> in_switches;
  for (const JudgedTable& t : run.tables) {
    const CommunicatorSize& c = t.setup.communicator;
    text += format_text("# %s: %u ranks on %u node%s, NCCL 2.%u, ring %u x %g GB/s, %u channels\n",
                        t.table.path.c_str(), c.ranks, c.nodes, c.nodes == 1 ? "" : "s",
                        t.setup.version.minor, t.setup.system.ring.channels,
                        t.setup.system.ring.intra, t.setup.system.channels);
    if (t.table.repeated > 0) {
      text += "#   " + count_text(t.table.repeated, "size") +
              (t.table.repeated == 1 ? " was measured more than once: its median counts\n"
                                     : " were measured more than once: their medians count\n");
    }
    std::string sizes;
    for (const JudgedRow& row : t.rows) {
      if (row.used) sizes += (sizes.empty() ? "" : ", ") + std::to_string(row.measured.bytes);
    }
    if (t.used.rows > 0) {
      text += "#   used: the rows of " + sizes + " bytes\n" + errors_text("used rows", t.used);
    }
    if (t.others.rows == 0) {
      unjudged.push_back(t.table.path);
      text += "#   other rows: none, nothing was judged\n";
    } else {
      text += errors_text("other rows", t.others) + advice_text(t);
    }
    if (t.from_others.rows > 0) text += errors_text("from the other tables alone", t.from_others);
    for (const std::string& line : t.beyond) text += "#   beyond a bound: " + line + "\n";
    if (const auto from = nvls_from(t)) in_switches.emplace_back(t.table.path, *from);
    if (!all) continue;
    text += "#        bytes    measured us   predicted us    error  by\n";
    for (const JudgedRow& row : t.rows) {
      text += format_text("# %12llu  %13.2f  %13.2f  %+6.1f %%  %s %s, %u channels%s\n",
                          static_cast<unsigned long long>(row.measured.bytes), row.measured.time,
                          row.measured.time * (1 + row.error), 100 * row.error,
                          name_of(kAlgorithmNames, row.row.shape.algorithm).data(),
                          name_of(kProtocolNames, row.row.shape.protocol).data(),
                          row.row.shape.channels, row.used ? ", used" : "");
    }
  }
  return text + validity_text(judgement_validity(unjudged, in_switches));
}

}  // namespace understudy
