// [nccl] and [calibration]: what NCCL finds in the nodes and is told, and what GPUs cost.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "ctrl/config/nccl_versions.h"
#include "ctrl/config/read/nodes/read_machine.h"
#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

/// "20GB/s" as 20: bandwidths as NCCL prints them.
std::optional<double> gigabytes(TableReader& table, std::string_view key) {
  const auto text = table.text(key);
  if (!text) return std::nullopt;
  double value = 0;
  const char* end = text->value.data() + text->value.size();
  const auto [rest, error] = std::from_chars(text->value.data(), end, value);
  std::string_view unit(rest, static_cast<size_t>(end - rest));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  if (error == std::errc() && unit == "GB/s" && value > 0 && value < 1e9) return value;
  table.error(text->line, key, "\"" + text->value + "\"",
              "expected a positive bandwidth in GB/s, as in \"20GB/s\"");
  return std::nullopt;
}

double microseconds(TableReader& table, std::string_view key) {
  const auto value = table.duration(key);
  return value ? value->value.microseconds() : 0;
}

std::optional<NcclGraph> read_graph(TableReader& nccl, std::string_view key, ReadContext& context) {
  const TomlNode* toml = nccl.table(key);
  if (toml == nullptr) return std::nullopt;
  TableReader table(*toml, nccl.path(key), context.errors);
  NcclGraph graph;
  table.require("channels", "the number of channels that NCCL's search found");
  if (const auto n = table.integer("channels", 1, kMostChannels)) {
    graph.channels = static_cast<uint32_t>(n->value);
  }
  table.require("intra", "a channel's bandwidth inside a node, as in \"20GB/s\"");
  if (const auto rate = gigabytes(table, "intra")) graph.inter = graph.intra = *rate;
  if (const auto rate = gigabytes(table, "inter")) graph.inter = *rate;
  table.finish();
  return graph;
}

void read_environment(TableReader& nccl, ReadContext& context, NcclConfig& config) {
  const TomlNode* toml = nccl.table("environment");
  if (toml == nullptr) return;
  TableReader table(*toml, "nccl.environment", context.errors);
  for (const TomlNode& child : toml->children) {
    const auto value = table.text(child.key);
    if (!value) continue;
    if (child.key == "NCCL_TOPO_FILE") {
      table.error(value->line, child.key, "\"" + value->value + "\"",
                  "give the nodes it is of topo_file, in their [[node]]");
      continue;
    }
    // Whether a version knows lists by function is seen when a job's version is known.
    NcclEnvironment trial;
    if (const auto set = trial.set(child.key, value->value, NcclVersion{}); !set) {
      table.error(value->line, child.key, "\"" + value->value + "\"", set.error().text);
      continue;
    }
    config.environment.push_back({child.key, value->value, value->line});
  }
}

/// A key that holds of all nodes: as given, else as all machines say.
template <typename List, typename E>
void choice_or_machine(TableReader& table, std::string_view key, const List& known,
                       std::optional<E> Machine::*fact, ReadContext& context, E& out) {
  if (table.any(key) == nullptr) {
    out = agreed(context, fact, "[nccl] " + std::string(key)).value_or(out);
    return;
  }
  table.choice_among(key, known, out);
  note_stated(context, fact, out, "[nccl] " + std::string(key));
}

void read_cpu(TableReader& table, ReadContext& context, NcclSystem& system) {
  if (table.any("cpu") != nullptr) {
    table.choice_among("cpu", kCpuNames, system.cpu);
    return note_stated(context, &Machine::cpu, system.cpu, "[nccl] cpu");
  }
  std::optional<CpuVendor> common;
  for (const Machine& machine : context.machines) {
    if (!machine.cpu) continue;
    common = common.value_or(*machine.cpu) == *machine.cpu ? *machine.cpu : CpuVendor::kMixed;
  }
  system.cpu = common.value_or(system.cpu);
}

/// Whether NVSwitches reduce. Machines are not asked where the file has other GPUs than they have.
void read_nvls(TableReader& table, ReadContext& context, NcclSystem& system) {
  const bool able = nvls_efficiency(system.gpu) > 0;
  const auto has = table.boolean("nvls");
  if (!has) {
    // All GPUs of a communicator must have such switches.
    system.nvls = able && system.intra == IntraLink::kNvlink && !context.machines.empty() &&
                  std::ranges::all_of(context.machines, [](const Machine& machine) {
                    return machine.nvls.value_or(false);
                  });
    return;
  }
  system.nvls = has->value;
  note_stated(context, &Machine::nvls, has->value, "[nccl] nvls");
  if (!has->value) return;
  if (system.intra != IntraLink::kNvlink) {
    table.error(has->line, "nvls", "true", "NVSwitches are of NVLink: intra = \"nvlink\"");
  }
  // What was wrong of the machines is reported: their GPUs may be any.
  if (!able && (context.machines_complete || table.any("gpu") != nullptr)) {
    table.error(has->line, "nvls", "true",
                "the NVSwitches of " + std::string(name_of(kGpuNames, system.gpu)) +
                    " GPUs do not reduce: NVLS needs gpu = \"hopper\" or \"blackwell\"");
  }
}

bool same_nvlinks(const GpuLinks& a, const GpuLinks& b) {
  return a.nvlinks == b.nvlinks && a.mesh == b.mesh;
}

/// What joins the GPUs of machines that have the GPUs of the file. `ring_given`: nothing is searched.
GpuLinks links_of(ReadContext& context, const NcclSystem& system, bool ring_given) {
  const Machine* first = nullptr;
  for (const Machine& machine : context.machines) {
    if (!machine.links || machine.gpu != system.gpu) continue;
    if (first == nullptr) first = &machine;
    if (ring_given || same_nvlinks(*first->links, *machine.links)) continue;
    context.errors.add(machine.line, "node.topo_file", "\"" + machine.name + "\"",
                       "its NVLinks are not those of \"" + first->name + "\" in line " +
                           std::to_string(first->line) +
                           ", and NCCL's search is for all nodes: give [nccl] ring");
    break;
  }
  return first == nullptr ? GpuLinks() : *first->links;
}

/// `toml`: null if the file has no [nccl] but names machines.
void read_machine_and_nccl(const TomlNode* toml, ReadContext& context) {
  const TomlNode empty;
  TableReader table(toml == nullptr ? empty : *toml, "nccl", context.errors);
  NcclConfig nccl;
  nccl.line = toml == nullptr ? context.machines.front().line : table.line();
  choice_or_machine(table, "gpu", kGpuNames, &Machine::gpu, context, nccl.system.gpu);
  read_cpu(table, context, nccl.system);
  choice_or_machine(table, "intra", kIntraNames, &Machine::intra, context, nccl.system.intra);
  if (const auto safe = table.boolean("ll128")) nccl.system.ll128 = safe->value;
  read_nvls(table, context, nccl.system);
  if (const auto has = table.boolean("collnet")) nccl.system.collnet = has->value;
  if (const auto has = table.boolean("pxn")) {
    nccl.pxn = has->value;
    if (has->value && nccl.system.intra != IntraLink::kNvlink) {
      table.error(has->line, "pxn", "true", "PXN copies over NVLink: intra = \"nvlink\"");
    }
  }
  nccl.system.network_latency = microseconds(table, "network_latency");
  nccl.ring = read_graph(table, "ring", context);
  nccl.tree = read_graph(table, "tree", context);
  nccl.links = links_of(context, nccl.system, nccl.ring.has_value());
  if (const auto n = table.integer("channels", 1, kMostChannels)) {
    nccl.channels = static_cast<uint32_t>(n->value);
  }
  read_environment(table, context, nccl);
  table.finish();
  context.config.nccl = std::move(nccl);
}

void read_cost(TableReader& calibration, std::string_view key, ReadContext& context,
               ProtocolCost& cost) {
  const TomlNode* toml = calibration.table(key);
  if (toml == nullptr) return;
  TableReader table(*toml, calibration.path(key), context.errors);
  cost.round = microseconds(table, "round");
  if (const auto rate = gigabytes(table, "rate")) cost.rate = *rate;
  cost.latency = microseconds(table, "latency");
  cost.network_latency = microseconds(table, "network_latency");
  cost.step = microseconds(table, "step");
  if (key == "ll128") cost.pass = microseconds(table, "pass");
  table.finish();
}

constexpr int64_t kMostMeasuredRanks = 1 << 24;

/// A word of `names` other than "auto", which has to be there.
template <typename T, size_t N>
void read_chosen(TableReader& table, std::string_view key,
                 const Named<std::optional<T>> (&names)[N], T& out) {
  if (!table.require(key, "what NCCL took at these sizes")) return;
  std::optional<T> chosen = out;
  table.choice_among(key, std::span(names).first(N - 1), chosen);
  out = *chosen;
}

/// Of a measurement: NCCL's release, the GPUs' generation and number, which is `number`.
template <typename Measured>
void read_measured(TableReader& table, NcclVersion& release, Measured& out, const char* number) {
  table.require("nccl", "the release of NCCL that was measured");
  table.choice_among("nccl", kCostVersionNames, release);
  table.require("gpu", "the GPUs' generation");
  table.choice_among("gpu", kGpuNames, out.gpu);
  table.require("ranks", number);
  if (const auto n = table.integer("ranks", 2, kMostMeasuredRanks)) {
    out.ranks = static_cast<uint32_t>(n->value);
  }
}

/// [calibration] own: what one number of GPUs costs besides.
void read_own_costs(TableReader& calibration, ReadContext& context, Calibration& out) {
  for (const TomlNode* toml : calibration.tables("own")) {
    TableReader table(*toml, calibration.path("own"), context.errors);
    OwnCost own;
    table.choice_among("collective", kCollectiveNames, own.collective);
    read_chosen(table, "algorithm", kAlgorithmNames, own.algorithm);
    read_chosen(table, "protocol", kProtocolNames, own.protocol);
    read_measured(table, own.version, own, "the number of GPUs, all in one node");
    if (const auto size = table.size("smallest")) own.from = size->value;
    if (const auto scale = table.number("scale")) {
      own.scale = scale->value;
      if (!(scale->value > 0 && scale->value <= 100)) {
        table.error(scale->line, "scale", table.any("scale")->describe(),
                    "expected a share of the time, above 0, at most 100");
      }
    }
    if (const auto offset = table.number("offset_us")) {
      own.offset = offset->value;
      if (!(std::abs(offset->value) <= 1e9)) {
        table.error(offset->line, "offset_us", table.any("offset_us")->describe(),
                    "expected microseconds, at most 1e9");
      }
    }
    table.finish();
    out.own.push_back(own);
  }
}

/// [calibration] from: the tables that it was fitted to.
void read_calibration_tables(TableReader& calibration, ReadContext& context) {
  for (const TomlNode* toml : calibration.tables("from")) {
    TableReader table(*toml, calibration.path("from"), context.errors);
    CalibrationTable from;
    table.require("table", "the name of the measured table's file");
    if (const auto name = table.text("table")) from.table = name->value;
    table.choice_among("collective", kCollectiveNames, from.collective);
    read_measured(table, from.nccl, from, "the number of GPUs");
    if (const auto n = table.integer("nodes", 1, from.ranks)) {
      from.nodes = static_cast<uint32_t>(n->value);
    }
    table.require("smallest", "the least size that was measured");
    if (const auto size = table.size("smallest")) from.smallest = size->value;
    table.require("largest", "the greatest size that was measured");
    if (const auto size = table.size("largest")) {
      from.largest = size->value;
      if (from.largest < from.smallest) {
        table.error(size->line, "largest", table.any("largest")->describe(),
                    "expected at least smallest");
      }
    }
    table.finish();
    context.config.calibration_tables.push_back(std::move(from));
  }
}

}  // namespace

void read_nccl(TableReader& root, ReadContext& context) {
  const TomlNode* toml = root.table("nccl");
  if (toml != nullptr || !context.machines.empty()) read_machine_and_nccl(toml, context);
  if (const TomlNode* toml = root.table("calibration")) {
    TableReader table(*toml, "calibration", context.errors);
    Calibration calibration;
    calibration.launch = microseconds(table, "launch");
    if (const auto tail = table.number("tail")) {
      calibration.tail = tail->value;
      if (tail->value < 0 || tail->value > 100) {
        table.error(tail->line, "tail", table.any("tail")->describe(),
                    "expected a share of a step, from 0 to 100");
      }
    }
    if (const auto drift = table.number("drift")) {
      calibration.drift = drift->value;
      if (!(drift->value >= 0)) {
        table.error(drift->line, "drift", table.any("drift")->describe(),
                    "expected a number of steps, 0 or more");
      }
    }
    if (const auto link = gigabytes(table, "link")) calibration.link = *link;
    read_cost(table, "simple", context, calibration.protocol[index(Protocol::kSimple)]);
    read_cost(table, "ll", context, calibration.protocol[index(Protocol::kLL)]);
    read_cost(table, "ll128", context, calibration.protocol[index(Protocol::kLL128)]);
    read_own_costs(table, context, calibration);
    read_calibration_tables(table, context);
    table.finish();
    context.config.calibration = std::move(calibration);
  }
}

}  // namespace understudy
