// One question asked in several ways: a job over two links, over one switch of [queues], and over
// one switch of a [topology]; with a real rank 0, and with all ranks emulated. A switch whose queues
// are empty adds nothing but a packet's time.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

struct Question {
  std::string name, job;
  unsigned gpus = 1, nics = 1, real = 1;
};

std::string text_of(const Question& q, const std::string& inner, const std::string& network,
                    const std::string& sizes = "\"256KiB\", \"4MB\"") {
  std::string out = "format = 1\n[fabric]\nmtu = 4096\n";
  for (unsigned nic = 0; nic < q.nics; ++nic) {
    out += "[[prefix]]\nnic = " + std::to_string(nic) + "\nv4 = \"10." + std::to_string(9 + nic) +
           ".0.0/16\"\n";
  }
  const std::string parts = "gpus = " + std::to_string(q.gpus) +
                            "\nnics = " + std::to_string(q.nics) +
                            "\nlink = { rate = \"100Gbit/s\", latency = \"1us\" }\n";
  std::string ranks;
  for (unsigned real = 0; real < q.real; ++real) {
    const std::string name = "g" + std::to_string(real);
    out += "[[node]]\nname = \"" + name + "\"\nreal = true\n" + parts;
    ranks += "\"" + name + "\", ";
    for (unsigned nic = 0; nic < q.nics; ++nic) {
      out += "[[port]]\nreal = \"" + name + "\"\nnic = " + std::to_string(nic) +
             "\ndevice = \"virtual\"\n";
    }
  }
  out += "[[node]]\nname = \"w\"\ncount = " + std::to_string(8 - q.real) + "\n" + parts;
  return out + "[[job]]\nname = \"j\"\nranks = [" + ranks +
         "\"w*\"]\ngpus = " + std::to_string(q.gpus) + "\nsizes = [" + sizes + "]\n" + q.job +
         "inner = \"" + inner + "\"\n" + network;
}

const Question kQuestions[] = {
    {"ring", "collective = \"all_reduce\"\nalgorithm = \"ring\"\n"},
    {"ring of two channels", "collective = \"all_reduce\"\nalgorithm = \"ring\"\nchannels = 2\n"},
    {"ll128", "collective = \"all_reduce\"\nalgorithm = \"ring\"\nprotocol = \"ll128\"\n"},
    {"tree", "collective = \"all_reduce\"\nalgorithm = \"tree\"\n"},
    {"pat", "collective = \"all_gather\"\nalgorithm = \"pat\"\n"},
    {"broadcast", "collective = \"broadcast\"\nroot = 1\n"},
    {"all to all", "collective = \"all_to_all\"\n"},
    {"send, receive", "collective = \"send_recv\"\n"},
    {"two GPUs, two NICs", "collective = \"all_reduce\"\nalgorithm = \"ring\"\n", 2, 2},
    {"tree, two GPUs", "collective = \"all_reduce\"\nalgorithm = \"tree\"\n", 2, 2},
    {"merged NICs", "collective = \"all_reduce\"\nalgorithm = \"ring\"\nmerged_nics = 2\n", 1, 2},
    {"merged NICs, tree", "collective = \"all_reduce\"\nalgorithm = \"tree\"\nmerged_nics = 2\n", 1,
     2},
    {"merged NICs, all to all", "collective = \"all_to_all\"\nmerged_nics = 2\n", 1, 2},
    {"several real nodes", "collective = \"all_reduce\"\nalgorithm = \"ring\"\n", 1, 1, 3},
    {"exact", "collective = \"all_reduce\"\nalgorithm = \"ring\"\npayload = \"exact\"\n"},
    {"fed", "collective = \"all_reduce\"\nalgorithm = \"ring\"\noperations = \"fed\"\n"},
};

void PrintTo(const Question& q, std::ostream* out) { *out << q.name; }

std::string test_name(const Question& q) {
  std::string name;
  for (const char c : q.name) name += std::isalnum(c) ? c : '_';
  return name;
}

class SameAnswer : public testing::TestWithParam<Question> {};

TEST_P(SameAnswer, WithAndWithoutASwitch) {
  const Question& q = GetParam();
  const RunReport direct = simulated(config_of(text_of(q, "times", "")));
  ASSERT_EQ(direct.jobs.at(0).collectives.size(), 2U);
  for (const std::string& network :
       {std::string("[queues]\n"), std::string("[topology]\nkind = \"single_switch\"\n")}) {
    SCOPED_TRACE(network);
    const RunReport report = simulated(config_of(text_of(q, "times", network)));
    ASSERT_EQ(report.jobs.at(0).collectives.size(), 2U);
    for (size_t i = 0; i < 2; ++i) {
      const double expected = direct.jobs[0].collectives[i].node_reported->seconds();
      const double seen = report.jobs[0].collectives[i].node_reported->seconds();
      EXPECT_NEAR(seen, expected, 0.001 * expected) << i;
    }
  }
}

const Question kOfMergedNics[] = {
    {"ring", "collective = \"all_reduce\"\nalgorithm = \"ring\"\nmerged_nics = 2\n", 1, 2},
    {"ring of two channels",
     "collective = \"all_reduce\"\nalgorithm = \"ring\"\nchannels = 2\nmerged_nics = 2\n", 1, 2},
    {"ring, four NICs", "collective = \"all_reduce\"\nalgorithm = \"ring\"\nmerged_nics = 4\n", 1,
     4},
    {"ll", "collective = \"all_reduce\"\nprotocol = \"ll\"\nmerged_nics = 2\n", 1, 2},
    {"ll128", "collective = \"all_reduce\"\nprotocol = \"ll128\"\nmerged_nics = 2\n", 1, 2},
    {"tree", "collective = \"all_reduce\"\nalgorithm = \"tree\"\nmerged_nics = 2\n", 1, 2},
    {"pat", "collective = \"all_gather\"\nalgorithm = \"pat\"\nmerged_nics = 2\n", 1, 2},
    {"broadcast", "collective = \"broadcast\"\nroot = 1\nmerged_nics = 2\n", 1, 2},
    {"all to all", "collective = \"all_to_all\"\nmerged_nics = 2\n", 1, 2},
    {"send, receive", "collective = \"send_recv\"\nmerged_nics = 2\n", 1, 2},
    {"two GPUs at one merged NIC",
     "collective = \"all_reduce\"\nalgorithm = \"ring\"\nmerged_nics = 2\n", 2, 2},
    {"two GPUs, two merged NICs",
     "collective = \"all_reduce\"\nalgorithm = \"ring\"\nchannels = 2\nmerged_nics = 2\n", 2, 4},
    {"tree, two GPUs, two merged NICs",
     "collective = \"all_reduce\"\nalgorithm = \"tree\"\nchannels = 2\nmerged_nics = 2\n", 2, 4},
};

class MergedNics : public testing::TestWithParam<Question> {};

/// What rank 0 took, of a job all of whose ranks are emulated.
double emulated(const std::string& text) {
  SimulateOptions options;
  options.timeline = true;
  const auto report = compile_and_simulate(config_of(text), options);
  EXPECT_TRUE(report) << (report ? "" : report.error().text);
  if (!report) return 0;
  for (const TimelineTrack& track : report->timeline) {
    if (track.group.find("rank 0 ") == std::string::npos || track.name != "operations") continue;
    EXPECT_EQ(track.slices.size(), 1U);
    return track.slices.at(0).length.seconds();
  }
  ADD_FAILURE() << "no track of rank 0";
  return 0;
}

/// The network carries what emulated ranks say as it carries what is said to a real one, which has
/// queue pairs in place of flows.
TEST_P(MergedNics, WithAndWithoutARealNode) {
  Question q = GetParam();
  for (const std::string& network : {std::string(), std::string("[queues]\n"),
                                     std::string("[topology]\nkind = \"single_switch\"\n")}) {
    SCOPED_TRACE(network);
    q.real = 1;
    const RunReport real = simulated(config_of(text_of(q, "packets", network, "\"16MB\"")));
    q.real = 0;
    const double expected = real.jobs.at(0).collectives.at(0).node_reported->seconds();
    EXPECT_NEAR(emulated(text_of(q, "packets", network, "\"16MB\"")), expected, 0.001 * expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Questions, MergedNics, testing::ValuesIn(kOfMergedNics),
                         [](const auto& info) { return test_name(info.param); });

INSTANTIATE_TEST_SUITE_P(Questions, SameAnswer, testing::ValuesIn(kQuestions),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace understudy
