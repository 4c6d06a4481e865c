// Exact payload of any job: every reference node gets and ends up with the right values, whatever
// the algorithm, protocol and type, whichever nodes are real, with one rank on each or several.
#include <random>

#include "tests/ctrl/run/simulate_rig.h"
#include "tests/extent.h"

namespace understudy {
namespace {

struct Case {
  std::string collective = "all_reduce", algorithm = "ring", protocol = "simple";
  std::string type = "float32", reduction = "sum";
  unsigned nodes = 4, gpus = 1, channels = 1;
  unsigned real = 1;  ///< bit n: node n is a reference node
  unsigned root = 0;
  std::string sizes = "\"64KiB\"";
  std::string job = {};
  unsigned slow = 0;  ///< bit n: its link is
  std::string more = {};

  bool has_root() const {
    return collective == "broadcast" || collective == "reduce" || collective == "gather" ||
           collective == "scatter";
  }
  std::string text() const {
    std::string hosts, ports, names;
    for (unsigned node = 0; node < nodes; ++node) {
      const std::string name = "n" + std::to_string(node);
      const bool is_real = (real >> node & 1) != 0;
      hosts += "[[node]]\nname = \"" + name + "\"\n" + (is_real ? "real = true\n" : "") +
               (gpus > 1 ? "gpus = " + std::to_string(gpus) + "\n" : "") + "link = { rate = \"" +
               ((slow >> node & 1) != 0 ? "1" : "10") + "Gbit/s\", latency = \"1us\" }\n";
      if (is_real) ports += "[[port]]\nreal = \"" + name + "\"\ndevice = \"virtual\"\n";
      names += (node == 0 ? "\"" : ", \"") + name + "\"";
    }
    return "format = 1\n[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n" + hosts + ports +
           "[[job]]\nname = \"j\"\ncollective = \"" + collective + "\"\nalgorithm = \"" +
           algorithm + "\"\nprotocol = \"" + protocol + "\"\ntype = \"" + type +
           "\"\nreduction = \"" + reduction + "\"\nranks = [" + names + "]\n" +
           (sizes.empty() ? "" : "sizes = [" + sizes + "]\n") +
           "channels = " + std::to_string(channels) + "\npayload = \"exact\"\n" +
           (has_root() ? "root = " + std::to_string(root) + "\n" : "") + job + more;
  }
};

uint64_t wrong_of(const RunReport& report) {
  uint64_t wrong = 0;
  for (const CollectiveReport& o : report.jobs.at(0).collectives) {
    wrong += o.wrong_elements.value_or(1);
  }
  return wrong;
}

void expect_right(const Case& c) {
  const std::string text = c.text();
  const RunReport report = simulated(config_of(text));
  if (testing::Test::HasFailure()) return;
  ASSERT_EQ(report.jobs.size(), 1u);
  EXPECT_EQ(report.jobs[0].collectives.size(), report.jobs[0].planned) << text;
  EXPECT_EQ(report.jobs[0].violations, 0u) << text;
  EXPECT_EQ(wrong_of(report), 0u) << text;
  for (const CollectiveReport& o : report.jobs[0].collectives) {
    EXPECT_EQ(o.size_mismatches, 0u) << text;
  }
}

struct Kind {
  const char* collective;
  const char* algorithm = "ring";
};
constexpr Kind kKinds[] = {
    {"all_reduce"},     {"all_reduce", "tree"},
    {"all_gather"},     {"all_gather", "pat"},
    {"reduce_scatter"}, {"reduce_scatter", "pat"},
    {"broadcast"},      {"reduce"},
    {"send_recv"},      {"all_to_all"},
    {"gather"},         {"scatter"},
};
constexpr const char* kTypes[] = {"int8",    "uint8",    "int32",      "uint32",
                                  "int64",   "uint64",   "float16",    "float32",
                                  "float64", "bfloat16", "float8e4m3", "float8e5m2"};
constexpr const char* kReductions[] = {"sum", "prod", "min", "max"};
constexpr const char* kProtocols[] = {"simple", "ll", "ll128"};

class SimulateExactAny : public testing::TestWithParam<Kind> {};

unsigned draw(std::mt19937& random, unsigned least, unsigned most) {
  return least + static_cast<unsigned>(random() % (most - least + 1));
}

TEST_P(SimulateExactAny, AsDrawn) {
  const Kind kind = GetParam();
  std::mt19937 random(2026);
  for (int i = 0; i < 40 && !HasFailure(); ++i) {
    Case c{.collective = kind.collective, .algorithm = kind.algorithm};
    const bool pat = c.algorithm == "pat";
    const bool pairs = c.collective == "send_recv" || c.collective == "all_to_all" ||
                       c.collective == "gather" || c.collective == "scatter";
    c.gpus = !pat && random() % 3 == 0 ? draw(random, 2, 4) : 1;
    c.nodes = draw(random, 2, c.gpus > 1 ? 4 : 9);
    c.channels = draw(random, 1, 4);
    if (!pat && !pairs) c.protocol = kProtocols[random() % 3];
    c.type = kTypes[random() % std::size(kTypes)];
    c.reduction = kReductions[random() % std::size(kReductions)];
    c.real = draw(random, 1, (1u << c.nodes) - 1);
    if (random() % 2 == 0) c.real &= ~1u;
    if (c.real == 0) c.real = 2;
    const unsigned ranks = c.nodes * c.gpus;
    c.root = random() % ranks;
    c.slow = random() % 4 == 0 ? 1u << random() % c.nodes : 0;
    c.sizes.clear();
    for (int size = 0; size < 2; ++size) {
      const unsigned elements = draw(random, 1, 1u << draw(random, 0, 13));
      c.sizes +=
          (size == 0 ? "\"" : ", \"") + std::to_string(uint64_t{8} * elements * ranks) + "B\"";
    }
    const unsigned oldest = pat ? 23 : pairs ? 22 : 18;
    c.job = "iterations = " + std::to_string(draw(random, 1, 3)) + "\nentry = \"" +
            (random() % 2 == 0 ? "scheduled" : "first_credit") + "\"\nnccl = \"2." +
            std::to_string(draw(random, oldest, 30)) + "\"\n" +
            (random() % 3 == 0 ? "step_cost = \"3us\"\n" : "");
    expect_right(c);
  }
}

/// Several loops and windows, over one slow link.
TEST_P(SimulateExactAny, LargeOnes) {
  const Kind kind = GetParam();
  for (const unsigned real : {0b00001u, 0b01010u}) {
    for (const unsigned slow : {0b00010u, 0b10000u}) {
      Case c{.collective = kind.collective, .algorithm = kind.algorithm};
      c.nodes = 5;
      c.real = real;
      c.root = 2;
      c.slow = slow;
      c.sizes = real == 1 && slow == 2 ? "\"12000040B\"" : "\"3000040B\"";
      c.job = "iterations = 2\n";
      expect_right(c);
    }
  }
}

/// One bit of one message to a real rank differs, and no checksum tells. Which packet it is depends
/// on the algorithm; credits come first.
TEST_P(SimulateExactAny, AWrongBitShows) {
  const Kind kind = GetParam();
  uint64_t seen = 0;
  for (unsigned nth = 1; nth <= 40; ++nth) {
    Case c{.collective = kind.collective, .algorithm = kind.algorithm};
    c.real = c.collective == "gather" || c.collective == "reduce" ? 1 : 2;
    c.more =
        "[[fault]]\naction = \"corrupt\"\nicrc = \"good\"\npackets = \"write\"\n"
        "direction = \"to_real\"\nnth = " +
        std::to_string(nth) + "\n";
    const RunReport report = simulated(config_of(c.text()));
    for (const CollectiveReport& o : report.jobs.at(0).collectives) {
      seen += o.wrong_elements.value_or(0) > 0 ? 1 : 0;
    }
  }
  EXPECT_GE(seen, 3u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SimulateExactAny, testing::ValuesIn(kKinds), [](const auto& info) {
  std::string name(info.param.collective);
  std::erase(name, '_');
  return name + info.param.algorithm;
});

TEST(SimulateExactAll, AllToAllV) {
  Case c{.collective = "all_to_all_v", .type = "int32"};
  c.real = 0b0110;
  c.job = R"(iterations = 2
matrix = [["0B", "4KiB", "100000B", "8B"], ["1MiB", "0B", "0B", "20KiB"],
          ["300KiB", "4B", "0B", "0B"], ["12B", "64KiB", "40004B", "16B"]]
)";
  c.sizes = "";
  expect_right(c);
}

/// Algorithms and protocols differ from size to size.
TEST(SimulateExactAll, NcclsOwnChoice) {
  SomeCases some(3);
  for (const char* collective : {"all_reduce", "reduce_scatter", "all_gather"}) {
    if (!some.take()) continue;
    Case c{.collective = collective, .algorithm = "auto", .protocol = "auto"};
    c.nodes = 8;
    c.channels = 2;
    c.real = 0b101;
    c.sizes = "\"1KiB\", \"4MiB\", \"32KiB\", \"256B\", \"1MiB\"";
    c.job = "iterations = 2\n";
    expect_right(c);
  }
}

TEST(SimulateExactAll, OperationsOfAGroup) {
  Case c{.channels = 3};
  c.nodes = 5;
  c.real = 0b110;
  c.sizes = "\"4000B\", \"100000B\", \"64KiB\"";
  c.job = "iterations = 2\ngroup = true\n";
  expect_right(c);
}

/// Over a network of switches that carries what emulated ranks say to one another, too.
TEST(SimulateExactAll, BetweenSwitches) {
  Case c{.algorithm = "tree"};
  c.nodes = 8;
  c.real = 0b1001;
  c.job = "iterations = 2\ninner = \"packets\"\n";
  c.more =
      "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 4\nspines = 2\n"
      "uplink = { rate = \"10Gbit/s\", latency = \"2us\" }\n";
  expect_right(c);
}

}  // namespace
}  // namespace understudy
