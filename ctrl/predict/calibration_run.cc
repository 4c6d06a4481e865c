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

/// As many rings as the bus bandwidth of the largest row, which is always used, fills links of the
/// search's speed.
void channels_of_links(const MeasuredTable& table, MeasuredSetup& setup) {
  const MeasuredRow& row = table.rows.back();
  const double rate = static_cast<double>(row.bytes) / (1000 * row.time) *
                      bus_factor(setup.collective, setup.communicator.ranks);
  NcclGraph ring = setup.system.ring;
  const double links = std::round(rate / ring.intra);
  ring.channels = static_cast<uint32_t>(std::clamp(links, 1.0, static_cast<double>(ring.channels)));
  setup.ring = ring;
  set_graphs(setup);
}

void judge(JudgedTable& table, const Calibration& calibration) {
  double sum = 0;
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
    if (row.used) continue;
    const double error = std::abs(row.error);
    ++table.judged;
    sum += error;
    if (error > table.worst) {
      table.worst = error;
      table.worst_bytes = row.measured.bytes;
    }
    if (row.measured.bytes > kFromBytes) {
      table.worst_from_4mib = std::max(table.worst_from_4mib, error);
    }
  }
  if (table.judged > 0) table.mean = sum / static_cast<double>(table.judged);
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

}  // namespace

CalibrationRun calibrate(std::vector<MeasuredTable> tables,
                         const std::vector<MeasuredSetup>& setups,
                         const std::optional<Calibration>& given) {
  CalibrationRun run;
  std::vector<FitRow> used;
  for (size_t i = 0; i < tables.size(); ++i) {
    JudgedTable judged{std::move(tables[i]), setups[i], {}, {}};
    MeasuredSetup& setup = judged.setup;
    set_graphs(setup);
    const bool certain = setup.ring || setup.system.gpu != GpuGeneration::kVolta ||
                         setup.communicator.nodes > 1 || setup.system.intra != IntraLink::kNvlink;
    if (!certain) channels_of_links(judged.table, setup);
    const std::vector<FitRow> rows = fit_rows(judged.table, setup);
    for (size_t r = 0; r < rows.size(); ++r) {
      judged.rows.push_back({judged.table.rows[r], rows[r], 0, false});
    }
    if (!given) {
      for (const size_t r : calibration_rows(rows, kCalibrationRows)) {
        judged.rows[r].used = true;
        used.push_back(rows[r]);
      }
    }
    run.tables.push_back(std::move(judged));
  }
  run.calibration = given ? *given
                          : fit_calibration(used, run.tables.front().setup.system,
                                            run.tables.front().setup.version)
                                .calibration;
  for (JudgedTable& table : run.tables) judge(table, run.calibration);
  return run;
}

std::string calibration_toml(const CalibrationRun& run) {
  const NcclSystem& system = run.tables.front().setup.system;
  std::string text = "[nccl]\n";
  text += "gpu = \"" + std::string(name_of(kGpuNames, system.gpu)) + "\"\n";
  text += "cpu = \"" + std::string(name_of(kCpuNames, system.cpu)) + "\"\n";
  text += "intra = \"" + std::string(name_of(kIntraNames, system.intra)) + "\"\n";
  text += graph_toml("ring", system.ring) + graph_toml("tree", system.tree);
  text += format_text("channels = %u\n\n", system.channels);
  text += "[calibration]\nlaunch = " + us_text(run.calibration.launch) +
          format_text("\ntail = %.4f\n", run.calibration.tail);
  for (const auto& [key, protocol] :
       {std::pair{"simple", Protocol::kSimple}, std::pair{"ll", Protocol::kLL},
        std::pair{"ll128", Protocol::kLL128}}) {
    const ProtocolCost& cost = run.calibration.of(protocol);
    if (cost.rate <= 0) continue;
    text += std::string(key) + " = { round = " + us_text(cost.round) +
            format_text(", rate = \"%.4fGB/s\"", cost.rate) +
            ", latency = " + us_text(cost.latency);
    if (cost.network_latency > 0) text += ", network_latency = " + us_text(cost.network_latency);
    text += " }\n";
  }
  return text + origin_toml(run);
}

std::string judgement_text(const CalibrationRun& run, bool all) {
  std::string text;
  std::vector<std::string> unjudged;
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
    if (!sizes.empty()) text += "#   used, and not judged, the rows of " + sizes + " bytes\n";
    if (t.judged == 0) unjudged.push_back(t.table.path);
    text += format_text(
        "#   other rows: %zu, mean error %.2f %%, worst %.1f %% (%llu bytes), worst above "
        "4 MiB %.1f %%\n",
        t.judged, 100 * t.mean, 100 * t.worst, static_cast<unsigned long long>(t.worst_bytes),
        100 * t.worst_from_4mib);
    for (const std::string& line : t.beyond) text += "#   beyond a bound: " + line + "\n";
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
  return text + validity_text(judgement_validity(unjudged));
}

}  // namespace understudy
