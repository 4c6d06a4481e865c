// What `understudy calibrate` prints: the section for the configuration, and how far to trust it.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "ctrl/predict/calibration_run.h"
#include "ctrl/report/text.h"
#include "ctrl/validity/validity.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

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

/// What to take between the rows that were used.
std::string advice_text(const JudgedTable& table) {
  const RowErrors &line = table.interpolated, &model = table.others;
  if (line.rows == 0) return "";
  std::string text = errors_text("by a line between used rows", line);
  text += line.mean < model.mean
              ? "#   between these sizes of this table interpolation is the better answer; "
              : "#   the model is the better answer between these sizes, too; ";
  return text + "for other numbers of GPUs the model is\n";
}

/// And beyond them.
std::string beyond_text(const JudgedTable& table) {
  if (!table.beyond_sizes) return "";
  const BeyondErrors& beyond = *table.beyond_sizes;
  const std::string where = "rows above " + size_text(beyond.from) + " by those up to there";
  const std::string line = "the same by a line through the last two of these that are used";
  return errors_text(where.c_str(), beyond.model) + errors_text(line.c_str(), beyond.line) +
         (beyond.line.mean < beyond.model.mean
              ? "#   so beyond the sizes of a table like this a line is the better answer\n"
              : "#   so beyond the sizes of this table the model is the better answer, too\n");
}

std::string owns_toml(const CalibrationRun& run) {
  if (run.calibration.own.empty()) return "";
  std::string text = "own = [\n";
  for (const OwnCost& own : run.calibration.own) {
    text.append("  { collective = \"").append(name_of(kCollectiveNames, own.collective));
    text.append("\", algorithm = \"").append(name_of(kAlgorithmNames, own.algorithm));
    text.append("\", protocol = \"").append(name_of(kProtocolNames, own.protocol));
    text.append("\", gpu = \"").append(name_of(kGpuNames, own.gpu)).append("\"");
    text += format_text(", nccl = \"2.%u\", ranks = %u, smallest = \"%lluB\"", own.version.minor,
                        own.ranks, static_cast<unsigned long long>(own.from));
    text += format_text(", scale = %.6f, offset_us = %.6f },\n", own.scale, own.offset);
  }
  return text + "]\n";
}

}  // namespace

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
          format_text("\ntail = %.4f\ndrift = %.4f\n", run.calibration.tail, run.calibration.drift);
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
  return text + owns_toml(run) + origin_toml(run);
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
      text += errors_text("other rows", t.others) + advice_text(t) + beyond_text(t);
    }
    if (t.from_others.rows > 0) text += errors_text("from the other tables alone", t.from_others);
    for (const std::string& line : t.beyond) text += "#   beyond a bound: " + line + "\n";
    if (t.nvls_from) in_switches.emplace_back(t.table.path, *t.nvls_from);
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
