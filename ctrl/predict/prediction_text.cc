// A prediction as text, in the columns of nccl-tests, and as JSON.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "ctrl/config/job_operation.h"
#include "ctrl/predict/prediction.h"
#include "ctrl/report/nccl_columns.h"
#include "ctrl/report/text.h"
#include "ctrl/report/validity_json.h"
#include "ctrl/topology/topology_summary.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

using Json = nlohmann::ordered_json;

constexpr Algorithm kAlgorithmList[] = {
    Algorithm::kRing,     Algorithm::kTree,          Algorithm::kPat,         Algorithm::kNvls,
    Algorithm::kNvlsTree, Algorithm::kCollnetDirect, Algorithm::kCollnetChain};
constexpr Protocol kProtocolList[] = {Protocol::kLL, Protocol::kLL128, Protocol::kSimple};

/// The words of NCCL's log.
const char* word(Algorithm a) { return name_of(kAlgorithmNames, a).data(); }
const char* word(Protocol p) {
  return p == Protocol::kSimple ? "simple" : p == Protocol::kLL ? "ll" : "ll128";
}

/// Four significant digits or more, as nccl-tests.
std::string time_text(double us) {
  return format_text(us < 100 ? "%.2f" : us < 10000 ? "%.1f" : "%.0f", us);
}

std::string why_text(const PredictedRow& row) {
  if (!row.tuning.chosen) return "";
  std::string text;
  size_t width = 4;
  for (const Algorithm a : kAlgorithmList) {
    if (row.tuning.offered[index(a)]) width = std::max(width, std::string_view(word(a)).size());
  }
  for (const Algorithm a : kAlgorithmList) {
    if (!row.tuning.offered[index(a)]) continue;
    for (const Protocol p : kProtocolList) {
      const TuningPair& pair = row.tuning.pairs[index(a)][index(p)];
      text += format_text("#   %-*s %-6s  ", static_cast<int>(width), word(a), word(p));
      if (!pair.enabled) {
        text += "-  " + pair.reason + "\n";
        continue;
      }
      text += format_text("%10s us = %.1f us", time_text(pair.time).c_str(), pair.latency);
      if (pair.plateau != 1) text += format_text(" * %.1f (plateau of rings)", pair.plateau);
      text += format_text(" + bytes / %.1f GB/s", pair.bandwidth);
      if (pair.correction != 1)
        text += format_text(" / %.1f (trees of this size)", pair.correction);
      const bool chosen = a == row.tuning.algorithm && p == row.tuning.protocol;
      text += chosen ? "  <- least\n" : "\n";
    }
  }
  const uint32_t all = row.tuning.channels, used = row.tuning.channels_used;
  text += format_text("#   %u of %u channels, %u threads each", used, all, row.tuning.threads);
  if (used == all) return text + "\n";
  const char* why = is_nvls(row.tuning.algorithm) ? ": NVLS takes no more\n"
                                                  : ": fewer, so that every thread has work\n";
  return text + why;
}

const char* source_text(const PredictedRow& row) {
  switch (row.source) {
    case PredictionSource::kFlow:
      return ", as flows";
    case PredictionSource::kBeyond:
      return ", closed form beyond its limits";
    default:
      return "";
  }
}

std::string table_text(const Prediction& p, bool why) {
  const JobConfig& job = *p.job;
  const std::string redop(reduces(job.collective) ? name_of(kReduceOpNames, job.reduction)
                                                  : "none");
  const NcclColumns columns({size_column(14),
                             count_column(),
                             type_column(),
                             redop_column(),
                             root_column(),
                             time_column(8),
                             algbw_column(6),
                             busbw_column(6),
                             {"per NIC", "(Gbit/s)", 8},
                             {"within", "(%)", 6},
                             {"algorithm", ""}});
  const auto fixed = [](double value) { return format_text("%.2f", value); };
  std::string text = columns.heading();
  for (const PredictedRow& row : p.rows) {
    text += columns.row({std::to_string(row.bytes), std::to_string(row.count),
                         type_word(name_of(kDataTypeNames, job.type)), redop,
                         root_text(has_root(job.collective), job.root), time_text(row.time),
                         fixed(row.algorithm_rate), fixed(row.bus_rate), fixed(row.nic_rate / 1e9),
                         row.error ? decimal_text(*row.error * 100, 1) : "-",
                         way_text(p, row) + source_text(row)});
    if (why || row.source == PredictionSource::kBeyond) {
      for (const std::string& limit : row.limits) text += "#   " + limit + "\n";
    }
    for (const std::string& bound : row.beyond) text += "# beyond a bound: " + bound + "\n";
    if (why) text += why_text(row);
  }
  return text;
}

std::string iterations_text(const Prediction& p) {
  std::string text;
  if (p.iterations.empty()) return text;
  text = "#    iteration    operations     time (us)       compute       exposed   of them\n";
  for (const PredictedIteration& i : p.iterations) {
    text += format_text("  %12llu  %12u  %12s  %12s  %12s  %8u\n",
                        static_cast<unsigned long long>(i.bytes), i.operations,
                        time_text(i.time).c_str(), time_text(i.compute).c_str(),
                        time_text(i.exposed).c_str(), i.exposed_operations);
  }
  return text;
}

Json pair_json(Algorithm a, Protocol p, const TuningPair& pair) {
  Json out = {{"algorithm", word(a)}, {"protocol", word(p)}, {"enabled", pair.enabled}};
  if (!pair.enabled) {
    out["reason"] = pair.reason;
    return out;
  }
  out["time_us"] = pair.time;
  out["latency_us"] = pair.latency;
  out["plateau"] = pair.plateau;
  out["bandwidth_gbps"] = pair.bandwidth;
  out["correction"] = pair.correction;
  return out;
}

Json row_json(const PredictedRow& row) {
  Json out = {{"size", row.bytes},          {"count", row.count},
              {"time_us", row.time},        {"algbw_gbps", row.algorithm_rate},
              {"busbw_gbps", row.bus_rate}, {"nic_wire_bps", row.nic_rate}};
  out["source"] = source_word(row.source);
  if (row.source != PredictionSource::kDimensions) {
    out["closed_form_us"] = row.closed_form;
    out["limits"] = row.limits;
    out["within"] = row.error ? Json(*row.error) : Json();
  }
  if (row.tuning.chosen) {
    out["algorithm"] = word(row.tuning.algorithm);
    out["protocol"] = word(row.tuning.protocol);
    out["channels"] = row.tuning.channels_used;
    out["threads"] = row.tuning.threads;
    out["choices"] = Json::array();
    for (const Algorithm a : kAlgorithmList) {
      if (!row.tuning.offered[index(a)]) continue;
      for (const Protocol p : kProtocolList) {
        out["choices"].push_back(pair_json(a, p, row.tuning.pairs[index(a)][index(p)]));
      }
    }
  }
  out["beyond"] = row.beyond;
  return out;
}

}  // namespace

const char* source_word(PredictionSource source) {
  switch (source) {
    case PredictionSource::kFlow:
      return "flow";
    case PredictionSource::kBeyond:
      return "beyond_closed_form";
    case PredictionSource::kDimensions:
      return "dimensions";
    default:
      return "closed_form";
  }
}

std::string heading_text(const Config& config, const Prediction& p) {
  const JobConfig& job = *p.job;
  const CommunicatorSize& c = p.communicator;
  std::string text = "# job \"" + job.name +
                     "\": " + std::string(name_of(kCollectiveNames, job.collective)) + ", " +
                     std::to_string(c.ranks) + " ranks, " + std::to_string(c.nodes) +
                     (c.nodes == 1 ? " node" : " nodes");
  if (p.by_dimensions) return text + ", " + std::to_string(job.dimensions.size()) + " dimensions\n";
  if (c.nodes > 1) {
    text += ", " + std::to_string(p.network.nics) + (p.network.nics == 1 ? " NIC" : " NICs") +
            " a node";
    if (p.network.nic_rate > 0)
      text += " of " + rate_text(static_cast<uint64_t>(p.network.nic_rate));
  }
  text += "; NCCL 2." + std::to_string(job.nccl.minor) + ", " +
          std::string(name_of(kGpuNames, p.system.gpu)) + ", " +
          std::to_string(p.rows.empty() ? 0 : p.rows.front().tuning.channels) + " channels";
  if (config.nccl) {
    text += format_text(", ring %u x %g/%g GB/s, tree %u x %g/%g GB/s", p.system.ring.channels,
                        p.system.ring.intra, p.system.ring.inter, p.system.tree.channels,
                        p.system.tree.intra, p.system.tree.inter);
  }
  return text + "\n";
}

std::string way_text(const Prediction& p, const PredictedRow& row) {
  if (!row.tuning.chosen) return p.by_dimensions ? "dimensions" : "point to point";
  return format_text("%s %s, %u ch", word(row.tuning.algorithm), word(row.tuning.protocol),
                     row.tuning.channels_used);
}

std::string prediction_text(const Config& config, const std::vector<Prediction>& predictions,
                            bool why) {
  std::string text;
  for (const Prediction& p : predictions) {
    if (!text.empty()) text += "\n";
    text += heading_text(config, p);
    for (const std::string& note : p.notes) text += "# " + note + "\n";
    text += table_text(p, why) + iterations_text(p);
  }
  return text + validity_text(prediction_validity(predictions));
}

std::string prediction_json(const Config& config, const std::vector<Prediction>& predictions) {
  Json out = {{"schema", "understudy-prediction/1"}};
  out["configuration"] = {{"path", config.path}, {"hash", config.hash}};
  out["calibrated"] = config.calibration.has_value();
  out["validity"] = validity_json(prediction_validity(predictions));
  out["jobs"] = Json::array();
  for (const Prediction& p : predictions) {
    const JobConfig& job = *p.job;
    Json one = {{"name", job.name},
                {"collective", name_of(kCollectiveNames, job.collective)},
                {"type", name_of(kDataTypeNames, job.type)},
                {"ranks", p.communicator.ranks},
                {"nodes", p.communicator.nodes},
                {"nics_per_node", p.network.nics},
                {"notes", p.notes},
                {"rows", Json::array()}};
    for (const PredictedRow& row : p.rows) one["rows"].push_back(row_json(row));
    one["iterations"] = Json::array();
    for (const PredictedIteration& i : p.iterations) {
      one["iterations"].push_back({{"size", i.bytes},
                                   {"operations", i.operations},
                                   {"time_us", i.time},
                                   {"compute_us", i.compute},
                                   {"exposed_us", i.exposed},
                                   {"exposed_operations", i.exposed_operations}});
    }
    out["jobs"].push_back(std::move(one));
  }
  return out.dump(2) + "\n";
}

}  // namespace understudy
