#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "ctrl/cli/commands.h"
#include "ctrl/config/read/load.h"
#include "ctrl/config/units_text.h"
#include "ctrl/predict/calibration_run.h"

namespace understudy {
namespace {

struct CalibrateArguments {
  std::vector<std::string> files;
  std::vector<uint32_t> ranks, nodes;
  std::string collective = "all_reduce", algorithm = "auto", protocol = "auto", type = "float32";
  std::string gpu = "ampere", cpu = "intel", intra = "nvlink", nccl = "2.28";
  std::string ring, tree, link, latency, use;
  std::vector<std::string> environment;
  uint32_t channels = 0, nics = 1, mtu = 4096;
  bool in_place = false, all = false;
};

/// An option's text cannot be taken.
int refuse(const std::string& option, const std::string& found, const std::string& allowed) {
  std::fprintf(stderr, "--%s %s: %s\n", option.c_str(), found.c_str(), allowed.c_str());
  return kExitBadInput;
}

template <typename T, size_t N>
std::string choices(const Named<T> (&names)[N]) {
  std::string text;
  for (const auto& [name, value] : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

/// "12x20" or "16x15/12": channels, GB/s inside nodes and between them.
std::optional<NcclGraph> graph_of(const std::string& text) {
  NcclGraph graph;
  int used = 0;
  if (std::sscanf(text.c_str(), "%ux%lf/%lf%n", &graph.channels, &graph.intra, &graph.inter,
                  &used) != 3) {
    used = 0;
    if (std::sscanf(text.c_str(), "%ux%lf%n", &graph.channels, &graph.intra, &used) != 2) {
      return std::nullopt;
    }
    graph.inter = graph.intra;
  }
  const bool good = graph.channels >= 1 && graph.channels <= 64 && graph.intra > 0 &&
                    graph.inter > 0 && static_cast<size_t>(used) == text.size();
  return good ? std::optional(graph) : std::nullopt;
}

class Calibrate {
 public:
  explicit Calibrate(const CalibrateArguments& arguments) : args_(arguments) {}

  int run() {
    if (const int status = read_options(); status != kExitOk) return status;
    std::vector<MeasuredTable> tables;
    std::vector<MeasuredSetup> setups;
    for (size_t i = 0; i < args_.files.size(); ++i) {
      auto table = read_measured(args_.files[i], args_.in_place);
      if (!table) {
        std::fprintf(stderr, "%s\n", table.error().text().c_str());
        return kExitBadInput;
      }
      MeasuredSetup setup = setup_;
      if (const int status = size_of(i, *table, setup); status != kExitOk) return status;
      tables.push_back(std::move(*table));
      setups.push_back(setup);
    }
    std::optional<Calibration> given;
    if (!args_.use.empty()) {
      const ConfigResult config = load_calibration(args_.use);
      if (!config) {
        std::fputs(describe(config.error()).c_str(), stderr);
        return kExitBadInput;
      }
      if (!config->calibration) {
        return refuse("use", args_.use, "this configuration has no [calibration]");
      }
      given = config->calibration;
    }
    const CalibrationRun result = calibrate(std::move(tables), setups, given);
    std::fputs(judgement_text(result, args_.all).c_str(), stdout);
    if (!given) std::printf("\n%s", calibration_toml(result).c_str());
    return kExitOk;
  }

 private:
  template <typename T, size_t N, typename V>
  bool choose(const char* option, const std::string& text, const Named<T> (&names)[N], V& out) {
    for (const auto& [name, value] : names) {
      if (name != text) continue;
      out = value;
      return true;
    }
    refuse(option, text, "expected one of " + choices(names));
    return false;
  }

  int read_options() {
    const bool words =
        choose("collective", args_.collective, kCollectiveNames, setup_.collective) &&
        choose("algorithm", args_.algorithm, kAlgorithmNames, setup_.algorithm) &&
        choose("protocol", args_.protocol, kProtocolNames, setup_.protocol) &&
        choose("type", args_.type, kDataTypeNames, setup_.type) &&
        choose("gpu", args_.gpu, kGpuNames, setup_.system.gpu) &&
        choose("cpu", args_.cpu, kCpuNames, setup_.system.cpu) &&
        choose("intra", args_.intra, kIntraNames, setup_.system.intra);
    if (!words) return kExitBadInput;
    unsigned minor = 0;
    int used = 0;
    if (std::sscanf(args_.nccl.c_str(), "2.%u%n", &minor, &used) != 1 || minor < 8 ||
        minor > NcclVersion::kNewestWithCosts || static_cast<size_t>(used) != args_.nccl.size()) {
      return refuse("nccl", args_.nccl, "expected a release from 2.8 to 2.30");
    }
    setup_.version = {minor};
    if (!args_.ring.empty() && !(setup_.ring = graph_of(args_.ring))) {
      return refuse("ring", args_.ring, "expected channels x GB/s, as in 12x20, or 16x15/12");
    }
    if (!args_.tree.empty() && !(setup_.tree = graph_of(args_.tree))) {
      return refuse("tree", args_.tree, "expected channels x GB/s, as in 12x20, or 16x15/12");
    }
    if (args_.channels > 0) setup_.channels = args_.channels;
    for (const std::string& text : args_.environment) {
      const size_t equals = text.find('=');
      if (equals == std::string::npos) return refuse("env", text, "expected NAME=VALUE");
      const auto set =
          setup_.environment.set(text.substr(0, equals), text.substr(equals + 1), setup_.version);
      if (!set) return refuse("env", text, set.error().text);
    }
    return read_network();
  }

  int read_network() {
    setup_.nics = args_.nics;
    constexpr double kOverhead = 82;  // of a packet of RoCEv2 over IPv4, preamble and gap included
    setup_.network.wire_per_byte = (args_.mtu + kOverhead) / args_.mtu;
    if (!args_.link.empty()) {
      const auto rate = parse_rate(args_.link);
      if (!rate) return refuse("link", args_.link, rate.error().text);
      setup_.nic_rate = static_cast<double>(rate->bps());
      setup_.network.rate = setup_.nic_rate / 8e6 * args_.nics;
    }
    if (!args_.latency.empty()) {
      const auto latency = parse_duration(args_.latency);
      if (!latency) return refuse("latency", args_.latency, latency.error().text);
      setup_.network.latency = latency->microseconds();
    }
    return kExitOk;
  }

  /// Ranks and nodes of table `i`: as the options say, one for all or one each, or as it says.
  int size_of(size_t i, const MeasuredTable& table, MeasuredSetup& setup) {
    const auto given = [&](const std::vector<uint32_t>& list, uint32_t otherwise) {
      return list.empty() ? otherwise : list.size() == 1 ? list[0] : list[i];
    };
    for (const auto* list : {&args_.ranks, &args_.nodes}) {
      if (list->size() > 1 && list->size() != args_.files.size()) {
        return refuse(list == &args_.ranks ? "ranks" : "nodes",
                      std::to_string(list->size()) + " numbers",
                      "expected one, or one for each file");
      }
    }
    CommunicatorSize& c = setup.communicator;
    c.ranks = given(args_.ranks, table.ranks);
    c.nodes = given(args_.nodes, std::max(table.nodes, 1u));
    if (c.ranks == 0) {
      std::fprintf(stderr, "%s: does not tell its ranks: give --ranks\n", table.path.c_str());
      return kExitBadInput;
    }
    if (c.ranks < 2 || c.nodes < 1 || c.ranks % c.nodes != 0) {
      std::fprintf(stderr,
                   "%s: %u ranks on %u nodes: expected at least two, as many on each node\n",
                   table.path.c_str(), c.ranks, c.nodes);
      return kExitBadInput;
    }
    if (c.nodes > 1 && setup.nic_rate == 0 && !setup.ring) {
      std::fprintf(stderr, "%s: several nodes need --link (and --nics), or --ring\n",
                   table.path.c_str());
      return kExitBadInput;
    }
    const Tuner tuner(setup.system, c, setup.version, setup.environment);
    const TuningTable choice =
        tuner.tune(setup.collective, table.rows.front().bytes, setup.algorithm, setup.protocol);
    if (!choice.chosen && !function_name(setup.collective).empty()) {
      std::fprintf(stderr, "%s: NCCL has no way to do %s by %s and %s on these ranks\n",
                   table.path.c_str(), args_.collective.c_str(), args_.algorithm.c_str(),
                   args_.protocol.c_str());
      return kExitBadInput;
    }
    return kExitOk;
  }

  const CalibrateArguments& args_;
  MeasuredSetup setup_;
};

}  // namespace

void add_calibrate(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("calibrate", "Fits predict's [calibration] to measured nccl-tests output");
  auto arguments = std::make_shared<CalibrateArguments>();
  CalibrateArguments& a = *arguments;
  command
      ->add_option(
          "files", a.files,
          "Output of nccl-tests, or CSV with size_bytes and time_out_of_place_us (or _ns); "
          "several are fitted together")
      ->required();
  command->add_option("--ranks", a.ranks, "Ranks of each file, if it does not tell")
      ->delimiter(',');
  command->add_option("--nodes", a.nodes, "Nodes of each file (default 1)")->delimiter(',');
  command->add_option("--collective", a.collective, "Default all_reduce");
  command->add_option("--algorithm", a.algorithm, "ring, tree, pat, or auto (default)");
  command->add_option("--protocol", a.protocol, "simple, ll, ll128, or auto (default)");
  command->add_option("--type", a.type, "Default float32");
  command->add_option("--nccl", a.nccl, "Release, 2.8 to 2.30 (default 2.28)");
  command->add_option("--gpu", a.gpu, "volta, ampere (default), hopper, blackwell");
  command->add_option("--cpu", a.cpu, "intel (default), amd, mixed, other");
  command->add_option("--intra", a.intra, "nvlink (default) or pci");
  command->add_option("--ring", a.ring,
                      "Channels x GB/s of NCCL's rings, as 12x20 or 16x12/12 (default: searched)");
  command->add_option("--tree", a.tree, "The same of its trees");
  command->add_option("--channels", a.channels, "Of the communicator (default: twice the rings')");
  command->add_option("--env", a.environment, "NCCL's variable, as NCCL_PROTO=^LL128")
      ->allow_extra_args(false);
  command->add_option("--nics", a.nics, "NICs of each node (default 1)")->check(CLI::Range(1, 64));
  command->add_option("--link", a.link, "Rate of each NIC, as 100Gbit/s");
  command->add_option("--latency", a.latency, "Of the network, one way, as 2us (default 0)");
  command->add_option("--mtu", a.mtu, "Default 4096")->check(CLI::Range(256, 4096));
  command->add_flag("--in-place", a.in_place, "Take the times in place");
  command->add_flag("--all", a.all, "Print the error of every row");
  command->add_option("--use", a.use,
                      "Fit nothing: judge by this configuration's [calibration], or by what this "
                      "command has printed");
  command->footer(
      "At most 8 rows of each file are used, those nearest to a geometric ladder of sizes in each\n"
      "stretch where NCCL keeps to one algorithm and protocol. All rows are judged, used ones "
      "apart.\n"
      "Example: understudy calibrate all_reduce.txt --gpu hopper --nccl 2.28");
  command->callback([arguments, &status] { status = Calibrate(*arguments).run(); });
}

}  // namespace understudy
