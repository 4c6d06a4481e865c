// Bad input: jobs.
#include "tests/ctrl/config/cases.h"

namespace understudy {
namespace {

const BadCase kCases[] = {
    // Jobs.
    {"[[job]]",
     "\"w0\", \"w2\"]",
     "\"w0\", \"w3\"]#!",
     "job.ranks",
     {"found \"w3\"", "no node of this name", "did you mean"}},
    {"[[job]]",
     "\"w0\", \"w2\"]",
     "\"w0\", \"w0\", \"w2\"]#!",
     "job.ranks",
     {"node w0 already is a rank"}},
    {"[[job]]",
     "[\"w*\", \"gpu\"]",
     "[\"w*\", \"w1\", \"gpu\"]#!",
     "job.ranks",
     {"node w1 already is a rank"}},
    {"[[job]]",
     "[\"w*\", \"gpu\"]",
     "[\"x*\", \"gpu\"]#!",
     "job.ranks",
     {"found \"x*\"", "no [[node]] of this name"}},
    {"[[job]]", "[\"w*\", \"gpu\"]", "[\"solo\"]#!", "job.ranks", {"1 rank(s)", "at least two"}},
    {"[[job]]", "[\"w*\", \"gpu\"]", "[]#!", "job.ranks", {"0 rank(s)", "at least two"}},
    {"[[job]]",
     "[\"w*\", \"gpu\"]",
     "[\"w*\"]#!",
     "job.ranks",
     {"no real node: the configuration has one, \"gpu\": add it to ranks, or take real = true"}},
    {"[[job]]", "[\"w*\", \"gpu\"]", "[1, \"gpu\"]#!", "job.ranks", {"found 1:", "text in quotes"}},
    {"[[job]]",
     "ranks = [\"w*\", \"gpu\"]\nnic = 1",
     "ranks = [\"w*\", \"gpu\", \"solo\"]\nnic = 1#!",
     "job.nic",
     {"node solo has 1 NIC(s)"}},
    {"[[job]]",
     "collective = \"all_reduce\"",
     "collective = \"allreduce\"#!",
     "job.collective",
     {"did you mean \"all_reduce\""}},
    {"[[job]]",
     "algorithm = \"ring\"",
     "operations = \"guessed\"#!",
     "job.operations",
     {"one of told, inferred, fed"}},
    {"[[job]]",
     "payload = \"exact\"",
     "payload = \"exact\"\noperations = \"inferred\"#!",
     "job.operations",
     {"contents are not inferred"}},
    {"[[job]]",
     "payload = \"exact\"",
     "group = true\noperations = \"inferred\"#!",
     "job.operations",
     {"operations that come alone"}},
    {"[[job]]",
     "payload = \"exact\"\nstep_cost = \"250ns\"\nentry = \"first_credit\"",
     "operations = \"fed\"\nentry = \"scheduled\"#!",
     "job.entry",
     {"real ranks' first credits show"}},
    {"[[job]]",
     "payload = \"exact\"",
     "operations = \"fed\"\ncompute = { before = \"1ms\", slow = [ { rank = 1, factor = 2 } ] }#!",
     "job.compute.slow",
     {"is not known", "or skew"}},
    {"[[job]]",
     "algorithm = \"ring\"",
     "feed = { port = 7300 }#!",
     "job.feed",
     {"only operations = \"fed\" has one"}},
    {"[[job]]",
     "payload = \"exact\"",
     "operations = \"fed\"\nfeed = { patience = \"0s\" }#!",
     "job.feed.patience",
     {"expected a longer one"}},
    {"[[job]]",
     "algorithm = \"ring\"",
     "reduction = \"avg\"#!",
     "job.reduction",
     {"one of sum, prod, min, max"}},
    {"[[job]]",
     "algorithm = \"ring\"",
     "algorithm = \"sharp\"#!",
     "job.algorithm",
     {"one of ring, tree, pat, nvls, nvls-tree, collnet-direct, collnet-chain, auto"}},
    {"[[job]]",
     "algorithm = \"ring\"",
     "protocol = \"LL\"#!",
     "job.protocol",
     {"did you mean \"ll\"", "simple, ll, ll128, auto"}},
    {"[[job]]",
     "algorithm = \"ring\"",
     "type = \"float\"#!",
     "job.type",
     {"one of int8, uint8", "float32"}},
    {"[[job]]", "algorithm = \"ring\"", "nccl = \"2.7\"#!", "job.nccl", {"one of 2.8", "2.30"}},
    {"[[job]]",
     "algorithm = \"ring\"",
     "algorithm = \"auto\"#!\nnccl = \"2.31\"",
     "job.algorithm",
     {"found \"auto\"", "what NCCL 2.31 chooses is not known: choices are of 2.8 to 2.30"}},
    {"[[job]]",
     "algorithm = \"ring\"",
     "root = 1#!",
     "job.root",
     {"found 1", "only broadcast, reduce, gather and scatter"}},
    {"[[job]]",
     "collective = \"all_reduce\"",
     "collective = \"broadcast\"\nroot = 99#!",
     "job.root",
     {"found 99", "the job's ranks are 0 to 2"}},
    {"[[job]]",
     "collective = \"all_reduce\"",
     "collective = \"broadcast\"\ngpus = 2#!",
     "job.gpus",
     {"found 2", "node w0 has 1 GPU(s)"}},
    {"[[job]]",
     "[\"4KiB\", \"16MiB\"]",
     "[\"4KiB\", \"0B\"]#!",
     "job.sizes",
     {"0 bytes", "positive multiple of 4"}},
    {"[[job]]", "[\"4KiB\", \"16MiB\"]", "[\"4KiB\", \"6B\"]#!", "job.sizes", {"multiple of 4"}},
    {"[[job]]", "[\"4KiB\", \"16MiB\"]", "[4096]#!", "job.sizes", {"found 4096", "bare number"}},
    {"[[job]]", "[\"4KiB\", \"16MiB\"]", "[]#!", "job.sizes", {"an empty array"}},
    {"[[job]]", "[\"4KiB\", \"16MiB\"]", "\"4KiB\"#!", "job.sizes", {"expected an array"}},
    {"[[job]]",
     "from = \"4KiB\", to = \"100KiB\", factor = 4 }",
     "from = \"0KiB\", to = \"1KiB\" }#!",
     "job.sizes",
     {"positive multiple of 4"}},
    {"[[job]]",
     "to = \"100KiB\", factor = 4 }",
     "to = \"1KiB\", factor = 4 }#!",
     "job.sizes.to",
     {"1024 bytes", "smaller than from"}},
    {"[[job]]", "factor = 4 }", "factor = 1 }#!", "job.sizes.factor", {"2 to 1024"}},
    {"[[job]]", "iterations = 3", "iterations = 0#!", "job.iterations", {"found 0"}},
    {"[[job]]", "channels = 2", "channels = 65#!", "job.channels", {"1 to 64"}},
    {"[[job]]",
     "payload = \"exact\"",
     "payload = \"Exact\"#!",
     "job.payload",
     {"did you mean \"exact\"", "synthetic, exact"}},
    {"[[job]]",
     "step_cost = \"250ns\"",
     "period = \"0s\"#!\nstep_cost = \"250ns\"",
     "job.period",
     {"more than 0"}},
    {"[[job]]", "step_cost = \"250ns\"", "step_cost = 250#!", "job.step_cost", {"bare number"}},
    {"[[job]]",
     "rank = 2, delay = \"5ms\" }]",
     "rank = 3, delay = \"5ms\" }]#!",
     "job.skew.rank",
     {"0 to 2"}},
    {"[[job]]",
     "delay = \"5ms\" }]",
     "delay = \"5ms\" }, { rank = 2, delay = \"1ms\" }]#!",
     "job.skew.rank",
     {"twice"}},
    {"[[job]]", "[{ rank = 2, delay = \"5ms\" }]", "[5]#!", "job.skew", {"array of tables"}},
    {"[[job]]", "name = \"second\"", "name = \"first\"#!", "job.name", {"two jobs", "line 59"}},
};

TEST(ConfigBadJobs, EachCaseGivesItsOneError) { expect_errors(kCases); }

constexpr char kRing[] = R"(format = 1
[[prefix]]
nic = 0
v4 = "10.0.0.0/24"
[[node]]
name = "r"
count = 2
real = true
link = { rate = "1Gbit/s", latency = "1us" }
[[node]]
name = "e"
count = 3
link = { rate = "1Gbit/s", latency = "1us" }
[[port]]
real = "r0"
device = "virtual"
[[port]]
real = "r1"
device = "virtual"
[[job]]
name = "j"
collective = "all_reduce"
sizes = ["4B"]
)";

TEST(ConfigBadJobs, RealNodesWithoutPort) {
  const std::string ring = kRing;
  EXPECT_EQ(errors_of(ring + "ranks = [\"r0\", \"e*\"]"), "");
  EXPECT_EQ(errors_of(ring + "ranks = [\"r0\", \"e0\", \"r1\", \"e1\"]"), "");
  std::string less = ring;
  less.erase(less.find("[[port]]\nreal = \"r1\""), 40);
  EXPECT_EQ(errors_of(less + "ranks = [\"r0\", \"e0\", \"r1\"]"),
            "f:21: job.ranks: found \"r1\": there is no [[port]] for NIC 0 of this real node\n");
}

TEST(ConfigBadJobs, MatrixOfAnAllToAll) {
  std::string text = kRing;
  text.replace(text.find("all_reduce"), 10, "all_to_all_v");
  text.replace(text.find("sizes = [\"4B\"]\n"), 15, "ranks = [\"e0\", \"e1\"]\n");
  EXPECT_EQ(errors_of(text + "matrix = [[\"0B\", \"4B\"], [\"8KiB\", \"0B\"]]"), "");
  const std::string at = "f:24: job.matrix: found ";
  EXPECT_EQ(errors_of(text + "matrix = [[\"0B\", \"4B\"]]"),
            at + "1 entries: the job has 2 ranks\n");
  EXPECT_EQ(errors_of(text + "matrix = [[\"0B\"], [\"0B\"]]"),
            at + "1 entries: the job has 2 ranks\n");
  EXPECT_EQ(errors_of(text + "matrix = [[\"0B\", \"6B\"], [\"0B\", \"0B\"]]"),
            at + "6 bytes: an entry must be a multiple of 4 bytes, and at most 16 TiB\n");
  EXPECT_NE(errors_of(text + "matrix = [\"0B\", \"4B\"]").find("a row for each rank"),
            std::string::npos);
  EXPECT_NE(errors_of(text).find("job.matrix"), std::string::npos);
}

TEST(ConfigBadJobs, JobNeedsPortAndAddress) {
  const std::string ring = std::string(kRing) + "ranks = [\"r1\", \"e0\"]";
  std::string no_port = ring;
  const std::string port = "[[port]]\nreal = \"r1\"\ndevice = \"virtual\"\n";
  no_port.replace(no_port.find(port), port.size(), "");
  EXPECT_EQ(errors_of(no_port),
            "f:21: job.ranks: found \"r1\": there is no [[port]] for NIC 0 of this real node\n");
  std::string no_prefix = ring;
  const std::string prefix = "[[prefix]]\nnic = 0\nv4 = \"10.0.0.0/24\"\n";
  no_prefix.replace(no_prefix.find(prefix), prefix.size(), "");
  const std::string why = " has no address: there is no [[prefix]] with nic = 0\n";
  const std::string this_why = "found 0: this NIC" + why;
  EXPECT_EQ(errors_of(no_prefix), "f:11: port.nic: " + this_why + "f:14: port.nic: " + this_why +
                                      "f:17: job.nic: found 0: NIC 0 of node r1" + why);
}

TEST(ConfigBadJobs, WhatFollowsFromAnErrorIsNotReportedAgain) {
  // Neither the ports of the misnamed node nor the job on it are errors of their own.
  std::string text = std::string(kRing) + "ranks = [\"r0\", \"e0\"]";
  text.replace(text.find("name = \"r\""), 10, "name = \"?\"");
  EXPECT_EQ(errors_of(text),
            "f:6: node.name: found \"?\": expected up to 63 letters, digits, '-', '_' and '.'\n");
}

}  // namespace
}  // namespace understudy
