// Exact payload of all collectives over a ring: every reference node ends up with the right values,
// whichever ranks are real and wherever the root is.
#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

struct Case {
  std::string collective;
  unsigned ranks = 4;
  unsigned real = 1;  ///< bit n: rank n is a reference node
  unsigned root = 0;
  std::string sizes;
  std::string job = {};
  unsigned slow = 0;  ///< bit n: its link is
  std::string more = {};

  bool has_root() const { return collective == "broadcast" || collective == "reduce"; }
  std::string text() const {
    std::string nodes, ports, names;
    for (unsigned rank = 0; rank < ranks; ++rank) {
      const std::string name = "n" + std::to_string(rank);
      const bool is_real = (real >> rank & 1) != 0;
      nodes += "[[node]]\nname = \"" + name + "\"\n" + (is_real ? "real = true\n" : "") +
               "link = { rate = \"" + ((slow >> rank & 1) != 0 ? "1" : "10") +
               "Gbit/s\", latency = \"1us\" }\n";
      if (is_real) ports += "[[port]]\nreal = \"" + name + "\"\ndevice = \"virtual\"\n";
      names += (rank == 0 ? "\"" : ", \"") + name + "\"";
    }
    return "format = 1\n[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n" + nodes + ports +
           "[[job]]\nname = \"ring\"\ncollective = \"" + collective +
           "\"\nalgorithm = \"ring\"\nranks = [" + names + "]\nsizes = [" + sizes +
           "]\npayload = \"exact\"\n" +
           (has_root() ? "root = " + std::to_string(root) + "\n" : "") + job + more;
  }
};

const char* const kOthers[] = {"all_gather", "reduce_scatter", "broadcast", "reduce"};

/// Sizes that leave tails of one element a rank, of an odd number, and of more than one loop.
std::string odd_sizes(unsigned ranks) {
  std::string out;
  for (const unsigned elements : {1u, 5u, 1025u, 16385u}) {
    out += (out.empty() ? "\"" : ", \"") + std::to_string(4 * elements * ranks) + "B\"";
  }
  return out;
}

RunReport expect_right(const Case& c) {
  const std::string text = c.text();
  RunReport report = simulated(config_of(text));
  EXPECT_TRUE(report.verdict.faithful) << text;
  EXPECT_EQ(report.jobs.size(), 1u);
  EXPECT_EQ(report.jobs[0].collectives.size(), report.jobs[0].planned) << text;
  EXPECT_EQ(report.jobs[0].violations, 0u) << text;
  for (const CollectiveReport& o : report.jobs[0].collectives) {
    EXPECT_EQ(o.wrong_elements, 0u) << o.bytes << " bytes\n" << text;
    EXPECT_EQ(o.size_mismatches, 0u) << o.bytes << " bytes\n" << text;
  }
  return report;
}

TEST(SimulateExactOthers, AnySetOfRealRanks) {
  for (const char* collective : kOthers) {
    for (const unsigned ranks : {2u, 3u, 4u}) {
      for (unsigned real = 1; real < 1u << ranks; ++real) {
        const std::string entry = real % 2 == 0 ? "scheduled" : "first_credit";
        expect_right({.collective = collective,
                      .ranks = ranks,
                      .real = real,
                      .root = real % ranks,
                      .sizes = odd_sizes(ranks),
                      .job = "channels = 2\niterations = 2\nentry = \"" + entry + "\"\n"});
      }
    }
  }
}

TEST(SimulateExactOthers, AnyRoot) {
  for (const char* collective : {"broadcast", "reduce"}) {
    for (unsigned root = 0; root < 5; ++root) {
      for (const unsigned real : {0b00001u, 0b10010u, 0b01101u}) {
        expect_right({.collective = collective,
                      .ranks = 5,
                      .real = real,
                      .root = root,
                      .sizes = odd_sizes(5),
                      .job = "iterations = 2\n"});
      }
    }
  }
}

/// Several loops, and real ranks of which one is slower than what it is sent.
TEST(SimulateExactOthers, ASlowRealRankGetsWhatAFastOneSentLongBefore) {
  for (const char* collective : kOthers) {
    for (const unsigned slow : {0b00001u, 0b00010u, 0b00100u, 0b01000u}) {
      expect_right({.collective = collective,
                    .ranks = 5,
                    .real = 0b01101,
                    .root = 2,
                    .sizes = "\"21000020B\"",
                    .job = "iterations = 2\n",
                    .slow = slow});
    }
  }
}

TEST(SimulateExactOthers, OlderReleasesCutOtherwise) {
  for (const char* collective : kOthers) {
    for (const char* release : {"2.18", "2.21", "2.30"}) {
      expect_right({.collective = collective,
                    .ranks = 4,
                    .real = 0b0101,
                    .root = 1,
                    .sizes = odd_sizes(4),
                    .job = "channels = 2\nnccl = \"" + std::string(release) + "\"\n"});
    }
  }
}

/// One bit of one message to a real rank differs, and no checksum tells. Credits come first; of a
/// reduce-scatter the real rank sees the last message only.
TEST(SimulateExactOthers, AWrongBitShows) {
  for (const char* collective : kOthers) {
    Case c{.collective = collective, .ranks = 4, .real = 1, .root = 3, .sizes = "\"64KiB\""};
    if (c.collective == "reduce") c.root = 0;
    c.more = std::string(
                 "[[fault]]\naction = \"corrupt\"\nicrc = \"good\"\npackets = \"write\"\n"
                 "direction = \"to_real\"\nnth = ") +
             std::to_string(c.collective == "reduce_scatter" ? 18 : 7) + "\n";
    const RunReport report = simulated(config_of(c.text()));
    uint64_t wrong = 0;
    for (const CollectiveReport& o : report.jobs.at(0).collectives) {
      wrong += o.wrong_elements.value_or(0);
    }
    EXPECT_GT(wrong, 0u) << collective;
  }
}

}  // namespace
}  // namespace understudy
