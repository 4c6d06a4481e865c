// Every cell of the table of capabilities: what it says works is run, or compiled where a kernel or
// a device would be needed; what it says no to is refused with its reason.
#include "ctrl/compile/capabilities.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "ctrl/compile/scenario.h"
#include "ctrl/config/read/load.h"
#include "ctrl/run/emulator.h"
#include "ctrl/run/simulate.h"
#include "tests/rigs/compile_and_simulate.h"

namespace understudy {
namespace {

/// What a configuration is written from; all nodes have one NIC of 10 Gbit/s.
struct Parts {
  RealSide side = RealSide::kReference;
  std::string fabric = {};
  std::string second = {};  ///< key "real" of another node
  std::string node = {};    ///< more keys of the first one
  std::string emulated = {};
  std::string rate = "10Gbit/s";
  std::string port = {};  ///< more ports
  std::string ranks = "\"a\", \"w*\"";
  std::string operation = "collective = \"all_reduce\"\nalgorithm = \"ring\"\n";
  std::string entry = "scheduled";
  std::string sizes = "sizes = [\"64KiB\"]\nwarmup = 0\niterations = 1\n";
  std::string job = {};
  bool has_job = true;
  std::string more = {};
  bool capture = false, series = false, feed = false;
};

const char* real_key(RealSide side) {
  switch (side) {
    case RealSide::kKernel:
      return "real = { kind = \"kernel\", program = \"x\" }\n";
    case RealSide::kNone:
      return "";
    default:
      return "real = true\n";
  }
}

std::string text_of(const Parts& parts) {
  const std::string link = "link = { rate = \"" + parts.rate + "\", latency = \"1us\" }\n";
  const bool real = parts.side != RealSide::kNone;
  std::string text = "format = 1\n[fabric]\n" + parts.fabric +
                     "[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n"
                     "[[prefix]]\nnic = 1\nv4 = \"10.10.0.0/16\"\n"
                     "[[node]]\nname = \"a\"\n" +
                     real_key(parts.side) + parts.node + link +
                     "[[node]]\nname = \"w\"\ncount = 3\n" + parts.emulated + link;
  if (!parts.second.empty()) text += "[[node]]\nname = \"b\"\n" + parts.second + link;
  if (real) text += "[[port]]\nreal = \"a\"\ndevice = \"virtual\"\n" + parts.port;
  if (parts.has_job) {
    text += "[[job]]\nname = \"j\"\n" + parts.operation + "ranks = [" + parts.ranks + "]\n" +
            parts.sizes + "entry = \"" + parts.entry + "\"\n" + parts.job;
  }
  return text + parts.more;
}

constexpr char kSecondPort[] = "[[port]]\nreal = \"b\"\ndevice = \"virtual\"\n";
constexpr char kSecondNicPort[] = "[[port]]\nreal = \"a\"\nnic = 1\ndevice = \"virtual\"\n";
constexpr char kTopology[] =
    "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 2\n"
    "uplink = { rate = \"10Gbit/s\", latency = \"2us\" }\n";
constexpr char kTraffic[] =
    "[[traffic]]\npattern = \"incast\"\nfrom = [\"w1\", \"w2\"]\nto = [\"w0\"]\nsize = \"64KB\"\n";

constexpr char kPoisson[] =
    "[[traffic]]\npattern = \"poisson\"\nfrom = \"w*\"\nload = 0.3\nsizes = \"fb-hadoop\"\nflows = "
    "5\n";

/// Any machine carries its packets in real time.
constexpr char kCarried[] = "10Mbit/s";
constexpr char kQueues[] = "[queues]\nbuffer = \"1MB\"\n";
constexpr char kGather[] = "collective = \"all_gather\"\nalgorithm = \"ring\"\n";
constexpr char kTree[] = "collective = \"all_reduce\"\nalgorithm = \"tree\"\n";
constexpr char kSecondJob[] =
    "[[job]]\nname = \"k\"\ncollective = \"all_reduce\"\nalgorithm = \"ring\"\n"
    "ranks = [\"a\", \"w*\"]\nsizes = [\"64KiB\"]\nafter = \"j\"\n";
constexpr char kJoin[] = "join = { comm_id = \"10.9.0.1:5555\" }\n";

using Example = void (*)(Parts&);

void several(Parts& p) {
  p.second = real_key(p.side);
  p.port = kSecondPort;
  p.ranks = "\"a\", \"b\", \"w*\"";
}
void all_real(Parts& p) {
  several(p);
  p.ranks = "\"a\", \"b\"";
}
void merged(Parts& p) {
  p.node = p.emulated = "nics = 2\n";
  p.port = kSecondNicPort;
  p.job = "merged_nics = 2\n";
}
void merged_of_gpus(Parts& p) {
  merged(p);
  p.node += "gpus = 2\n";
  p.emulated += "gpus = 2\n";
  if (p.side == RealSide::kKernel || p.side == RealSide::kWire) p.job += kJoin;
}
void both_kinds(Parts& p) {
  several(p);
  p.second = real_key(RealSide::kReference);
}
/// Operations that are not known beforehand begin with real ranks' credits.
void untold(Parts& p, const std::string& operations) {
  p.entry = "first_credit";
  p.job = "operations = \"" + operations + "\"\n";
}
void dimensions(Parts& p) {
  p.operation = "collective = \"all_reduce\"\nalgorithm = [\"ring\", \"ring\"]\n";
  p.emulated = "";
  p.more =
      "[topology]\nkind = \"dimensions\"\ndimensions = [\n"
      "{ kind = \"ring\", size = 2, link = { rate = \"10Gbit/s\", latency = \"50ns\" } },\n"
      "{ kind = \"ring\", size = 2, link = { rate = \"10Gbit/s\", latency = \"1us\" } } ]\n";
}

void switches(Parts& p, const std::string& algorithm) {
  p.node += "gpus = 2\n";
  p.emulated += "gpus = 2\n";
  p.operation = "collective = \"all_reduce\"\nalgorithm = \"" + algorithm + "\"\n";
  if (p.side == RealSide::kKernel || p.side == RealSide::kWire) p.job += kJoin;
  p.more = "[nccl]\ngpu = \"hopper\"\nnvls = true\ncollnet = true\n";
}

/// By name of the feature: a configuration that has it.
const std::map<std::string_view, Example>& examples() {
  static const std::map<std::string_view, Example> kExamples = {
      {"a kernel as the real node", [](Parts& p) { p.side = RealSide::kKernel; }},
      {"`[[job]]`: ring all-reduce (simple, float32, one rank a node)", [](Parts&) {}},
      {"`[[job]]`: any other collective, algorithm, protocol or type, without `join`",
       [](Parts& p) { p.operation = kGather; }},
      {"`[[job]]` with `join`: NCCL's own", [](Parts& p) { p.job = kJoin; }},
      {"several communicators one after another (`communicators` in `join`)",
       [](Parts& p) { p.job = "join = { file = \"id\", communicators = 2 }\n"; }},
      {"child communicators (`child_of`)",
       [](Parts& p) {
         p.job = kJoin;
         p.more =
             "[[job]]\nname = \"k\"\nchild_of = \"j\"\nmembers = \"/2\"\n"
             "collective = \"all_reduce\"\nsizes = [\"64KiB\"]\n";
       }},
      {"an algorithm for each dimension of the network", dimensions},
      {"`algorithm = \"nvls\"` or `\"nvls-tree\"`", [](Parts& p) { switches(p, "nvls-tree"); }},
      {"`algorithm = \"collnet-direct\"` or `\"collnet-chain\"`",
       [](Parts& p) { switches(p, "collnet-chain"); }},
      {"`payload = \"exact\"`",
       [](Parts& p) {
         p.operation = kTree;
         p.job = std::string("payload = \"exact\"\nreduction = \"max\"\n") +
                 (p.side == RealSide::kReference ? "" : kJoin);
       }},
      {"`operations = \"fed\"`", [](Parts& p) { untold(p, "fed"); }},
      {"`operations = \"inferred\"`", [](Parts& p) { untold(p, "inferred"); }},
      {"a `[[job]]` without `sizes`: whatever real ranks' programs do, `fed` or `inferred`",
       [](Parts& p) {
         untold(p, "fed");
         p.sizes = "";
         p.job += kJoin;
       }},
      {"merged NICs", merged},
      {"merged NICs of several ranks a node", merged_of_gpus},
      {"`queue_pairs` of a job", [](Parts& p) { p.job = "queue_pairs = 2\n"; }},
      {"`period`", [](Parts& p) { p.job = "period = \"1ms\"\n"; }},
      {"`start` of a job", [](Parts& p) { p.job = "start = \"1ms\"\n"; }},
      {"`after` another job", [](Parts& p) { p.more = kSecondJob; }},
      {"`compute`", [](Parts& p) { p.job = "compute = { before = \"10us\", after = \"3us\" }\n"; }},
      {"`ddp`: buckets of gradients of a network that replicas train",
       [](Parts& p) {
         p.sizes = "";
         p.job =
             "ddp = { model = \"resnet50\", first_bucket = \"1GB\", scale = 1000, forward = "
             "\"100us\", backward = \"200us\" }\n";
       }},
      {"several real nodes in one job with `join`",
       [](Parts& p) {
         several(p);
         p.job = kJoin;
       }},
      {"a job of real nodes only", all_real},
      {"a job of real nodes only, no ring all-reduce and without `join`",
       [](Parts& p) {
         all_real(p);
         p.operation = kTree;
       }},
      {"a job of real nodes only, `fed` or `inferred`",
       [](Parts& p) {
         all_real(p);
         untold(p, "fed");
       }},
      {"several real nodes in one job", several},
      {"several real nodes in one job, `fed` or `inferred`",
       [](Parts& p) {
         several(p);
         untold(p, "inferred");
       }},
      {"kernels and reference nodes in one job without `join`",
       [](Parts& p) {
         both_kinds(p);
         p.operation = kTree;
       }},
      {"several communicators with reference nodes among kernels",
       [](Parts& p) {
         both_kinds(p);
         p.ranks = "\"a\", \"b\", \"w0\", \"w1\"";
         p.job = "join = { file = \"id\", communicators = 2 }\n";
       }},
      {"kernels and reference nodes in one job with `join`",
       [](Parts& p) {
         both_kinds(p);
         p.ranks = "\"a\", \"b\", \"w0\", \"w1\"";
         p.job = kJoin;
       }},
      {"`[[nic]]`: what NICs of emulated nodes take",
       [](Parts& p) {
         p.emulated = "nic = \"n\"\n";
         p.more = "[[nic]]\nname = \"n\"\npreset = \"connectx-6\"\n";
       }},
      {"`[[nic]]` of a real node: how its acknowledgements leave",
       [](Parts& p) {
         p.node = "nic = \"n\"\n";
         p.more = "[[nic]]\nname = \"n\"\nacks = \"behind_data\"\n";
       }},
      {"`acks = \"behind_data\"` with `control_class = \"separate\"`",
       [](Parts& p) {
         p.fabric = "control_class = \"separate\"\n";
         p.emulated = "nic = \"n\"\n";
         p.more = "[[nic]]\nname = \"n\"\nacks = \"behind_data\"\n";
       }},
      {"`[topology]`", [](Parts& p) { p.more = kTopology; }},
      {"`[topology] reconverge`: routes leave out links that are down",
       [](Parts& p) { p.more = std::string(kTopology) + "reconverge = \"1ms\"\n"; }},
      {"`[model]`: iterations of a training job",
       [](Parts& p) {
         p.more =
             "[model]\nlayers = 2\nhidden = 64\nheads = 2\nvocabulary = 128\nsequence = 16\n"
             "[parallel]\npp = 2\ndp = 2\n[gpu]\npreset = \"a100\"\n";
       }},
      {"`[workload]`: execution traces",
       [](Parts& p) {
         p.more = "[workload]\ntraces = \"" UNDERSTUDY_TEST_DATA
                  "/workloads/et_cases/text_microAllReduce_n8_p1/workload.txt\"\nranks = 2\n";
       }},
      {"several `[[port]]`s in one network",
       [](Parts& p) {
         several(p);
         p.ranks = "\"a\", \"w*\"";
         p.more = kQueues;
       }},
      {"`[[traffic]]` packet by packet",
       [](Parts& p) {
         p.rate = kCarried;
         p.more = kTraffic;
       }},
      {"`[[traffic]]` by Poisson arrivals; `slowdown` of flows",
       [](Parts& p) {
         p.rate = kCarried;
         p.more = kPoisson;
       }},
      {"`[[traffic]]` as rates (`fidelity = \"flow\"`)",
       [](Parts& p) {
         p.has_job = p.side != RealSide::kNone;
         p.fabric = "fidelity = \"flow\"\n";
         p.more = kTraffic;
       }},
      {"`[[job]]` at `fidelity = \"flow\"`", [](Parts& p) { p.fabric = "fidelity = \"flow\"\n"; }},
      {"`inner = \"packets\"`",
       [](Parts& p) {
         p.rate = kCarried;
         p.job = "inner = \"packets\"\n";
       }},
      {"`inner = \"packets\"` at `fidelity = \"flow\"`",
       [](Parts& p) {
         p.fabric = "fidelity = \"flow\"\n";
         p.job = "inner = \"packets\"\n";
       }},
      {"`inner = \"packets\"` of inferred operations",
       [](Parts& p) {
         untold(p, "inferred");
         p.job += "inner = \"packets\"\n";
       }},
      {"`pacing = false` in a network",
       [](Parts& p) {
         p.fabric = "pacing = false\n";
         p.more = kQueues;
       }},
      {"`control_class = \"separate\"` in a network",
       [](Parts& p) {
         p.fabric = "control_class = \"separate\"\n";
         p.more = kQueues;
       }},
      {"links of unlimited rate in a network",
       [](Parts& p) {
         p.rate = "unlimited";
         p.more = kQueues;
       }},
      {"`[[event]]`, `--at`",
       [](Parts& p) { p.more = "[[event]]\nat = \"10us\"\nlink = \"w0\"\nlatency = \"2us\"\n"; }},
      {"`[[service]]`, `[[client]]`",
       [](Parts& p) { p.more = "[[service]]\nnode = \"w0\"\nport = 18515\n"; }},
      {"`--capture`", [](Parts& p) { p.capture = true; }},
      {"`--series`, `--plot`",
       [](Parts& p) {
         p.series = true;
         p.more = kQueues;
       }},
      {"`--feed`", [](Parts& p) { p.feed = true; }},
  };
  return kExamples;
}

RunClock clock_of(RealSide side) {
  return side == RealSide::kWire ? RunClock::kReal : RunClock::kVirtual;
}

/// Reference nodes and nobody: to its end.
void expect_runs(const Config& config, const Parts& parts) {
  SimulateOptions options;
  const std::string file = testing::TempDir() + "capabilities.out";
  if (parts.capture) options.capture_path = file;
  if (parts.series) options.series.path = file;
  const auto report = compile_and_simulate(config, options);
  ASSERT_TRUE(report) << report.error().text;
  for (const JobReport& job : report->jobs) EXPECT_FALSE(job.failed);
  if (parts.side == RealSide::kReference) {
    ASSERT_EQ(report->jobs.size(), config.jobs.size());
    EXPECT_EQ(report->jobs[0].collectives.size(), 1u);
  } else {
    ASSERT_TRUE(report->traffic);
    EXPECT_EQ(report->traffic->jobs.size(), config.jobs.size());
  }
}

/// What a kernel or a device would be joined to.
void expect_compiles(const Config& config, RunClock clock) {
  const auto scenario = compile_scenario({config}, clock);
  ASSERT_TRUE(scenario) << scenario.error().text;
  const auto emulator = Emulator::create(*scenario);
  ASSERT_TRUE(emulator) << emulator.error().text;
  EXPECT_FALSE((*emulator)->sides().empty());
}

void expect_refused(const Asked& asked, const Place& place, const Cell& cell, RunClock clock) {
  const std::string why = why_not(asked, clock);
  EXPECT_NE(why.find(cell.why), std::string::npos) << why;
  const bool option = place.found.empty();
  const std::string line = place.line == 0 ? "" : ":" + std::to_string(place.line);
  EXPECT_EQ(why.rfind(option ? place.key : "cap.toml" + line + ": ", 0), 0u) << why;
  const auto scenario = compile_scenario(asked, clock);
  ASSERT_FALSE(scenario);
  EXPECT_EQ(scenario.error().text, why);
}

void walk(const Capability& row, RealSide side) {
  SCOPED_TRACE(std::string(row.feature) + ", " + std::string(name_of(side)));
  Parts parts{.side = side};
  ASSERT_TRUE(examples().contains(row.feature));
  examples().at(row.feature)(parts);
  const std::string text = text_of(parts);
  const ConfigResult config = load_config_text(text, "cap.toml");
  ASSERT_TRUE(config) << describe(config.error()) << text;
  const Asked asked{*config, parts.capture, parts.series, parts.feed};
  const auto place = row.find(asked, side);
  ASSERT_TRUE(place) << text;
  const Cell& cell = row.cell(side);
  if (cell.answer != Cell::Answer::kYes) {
    expect_refused(asked, *place, cell, clock_of(side));
    return;
  }
  EXPECT_EQ(why_not(asked, clock_of(side)), "") << text;
  if (side == RealSide::kKernel || side == RealSide::kWire) {
    expect_compiles(*config, clock_of(side));
  } else if (!parts.feed) {
    expect_runs(*config, parts);
  }
}

TEST(Capabilities, EveryCellIsAsTheTableSays) {
  size_t no = 0, yes = 0;
  for (const Capability& row : capabilities()) {
    for (size_t side = 0; side < kRealSides; ++side) {
      const Cell& cell = row.cells[side];
      if (cell.answer == Cell::Answer::kAbsent && cell.why.empty()) continue;
      (cell.answer == Cell::Answer::kYes ? yes : no) += 1;
      walk(row, static_cast<RealSide>(side));
    }
  }
  EXPECT_GT(yes, no);
}

TEST(Capabilities, EveryNoHasItsReasonInPrint) {
  const std::string text = capabilities_text();
  for (const Capability& row : capabilities()) {
    EXPECT_NE(text.find("| " + std::string(row.feature) + " |"), std::string::npos);
    for (const Cell& cell : row.cells) {
      if (cell.answer != Cell::Answer::kAbsent) {
        EXPECT_EQ(cell.why.empty(), cell.answer == Cell::Answer::kYes);
      }
      EXPECT_NE(text.find(cell.why), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace understudy
