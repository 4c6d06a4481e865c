// ASTRA-sim's files and the JSON of Chakra's feeder are read as they are, and what is wrong or not
// covered is named.
#include <gtest/gtest.h>

#include <string>

#include "ctrl/traces/astra_json.h"
#include "ctrl/traces/astra_network.h"
#include "ctrl/traces/feeder_json.h"
#include "ctrl/traces/trace_files.h"
#include "ctrl/traces/trace_stats.h"

namespace understudy {
namespace {

template <typename T>
std::string error_of(const Result<T>& result) {
  return result ? "" : result.error().text;
}

TEST(AstraNetwork, ListsInBracketsAndWithDashes) {
  for (const char* text : {"topology: [ Ring, FullyConnected ]  # two\nnpus_count: [ 4, 8 "
                           "]\nbandwidth: [ 50.0, 25 ]\nlatency: [ 500.0, 1e3 ]\n",
                           "---\n\ntopology:\n  - Ring\n  - \"FullyConnected\"\nnpus_count: "
                           "[4,8]\r\nbandwidth:\n- 50.0\n- 25\nlatency: [500, 1000]\n"}) {
    const auto dimensions = read_astra_network(text, "net.yml");
    ASSERT_TRUE(dimensions) << dimensions.error().text;
    ASSERT_EQ(dimensions->size(), 2u);
    EXPECT_EQ((*dimensions)[0].kind, TraceDimension::Kind::kRing);
    EXPECT_EQ((*dimensions)[1].kind, TraceDimension::Kind::kFullyConnected);
    EXPECT_EQ((*dimensions)[1].ranks, 8u);
    EXPECT_EQ((*dimensions)[0].bandwidth, 50);
    EXPECT_EQ((*dimensions)[1].latency, 1000);
  }
}

TEST(AstraNetwork, WhatIsWrongIsNamed) {
  const auto error = [](const std::string& topology, const std::string& rest) {
    return error_of(
        read_astra_network(topology + "npus_count: [ 4 ]\nbandwidth: [ 50 ]\n" + rest, "net.yml"));
  };
  const std::string ring = "topology: [ Ring ]\n", latency = "latency: [ 5 ]\n";
  EXPECT_EQ(error(ring, latency), "");
  EXPECT_EQ(error(ring, ""), "net.yml: latency is missing");
  EXPECT_EQ(error("topology: [ Torus ]\n", latency),
            "net.yml:1: the topology 'Torus' is not known");
  EXPECT_EQ(error(ring, "latency: [ 5, 6 ]\n"), "net.yml: latency has 2 values, topology 1");
  EXPECT_EQ(error(ring, "latency: [ 5ns ]\n"), "net.yml:4: latency has '5ns', which is no number");
  EXPECT_EQ(error(ring, "latency: 5\n"),
            "net.yml:4: the value of latency is not a list [ ... ] on one line");
  EXPECT_EQ(error(ring, latency + "links: [ 1 ]\n"), "net.yml:5: the key 'links' is not known");
  EXPECT_EQ(error(ring + ring, latency), "net.yml:2: the key 'topology' occurs twice");
  EXPECT_EQ(error("- Ring\n", latency), "net.yml:1: a value of no list");
  EXPECT_EQ(error("topology\n", latency), "net.yml:1: there is no ':' after a key");
  EXPECT_EQ(error("topology: [ Ring, ]\n", latency), "net.yml:1: topology has an empty value");
}

TEST(AstraSystem, SettingsAreTaken) {
  const auto system = read_astra_system(
      R"({"scheduling-policy": "LIFO", "endpoint-delay": 20, "active-chunks-per-dimension": 1,
          "preferred-dataset-splits": 4, "all-reduce-implementation": ["ring", "direct"],
          "collective-optimization": "localBWAware", "local-mem-bw": 1600.5, "boost-mode": 0,
          "roofline-enabled": 1, "peak-perf": 312, "trace-enabled": 1})",
      "system.json");
  ASSERT_TRUE(system) << system.error().text;
  EXPECT_EQ(system->endpoint_ns, 20);
  EXPECT_EQ(system->splits, 4u);
  EXPECT_EQ(system->memory_gb_s, 1600.5);
  EXPECT_TRUE(system->roofline);
  EXPECT_FALSE(system->replay);
  EXPECT_EQ(system->algorithms.at(TraceCollective::kAllReduce),
            (std::vector<std::string>{"ring", "direct"}));
  EXPECT_FALSE(system->algorithms.contains(TraceCollective::kAllGather));
}

TEST(AstraSystem, WhatIsNotCoveredIsNamed) {
  const auto error = [](const std::string& text) {
    return error_of(read_astra_system(text, "system.json"));
  };
  EXPECT_EQ(error("{}"), "");
  EXPECT_EQ(error("{"), "system.json: at byte 2: this is not JSON");
  EXPECT_EQ(error("[]"), "system.json: this is no JSON object");
  EXPECT_EQ(error(R"({"a": 1e999})"), "system.json: a number is too large");
  EXPECT_EQ(error(R"({"endpoint-dely": 1})"), "system.json: the key 'endpoint-dely' is not known");
  EXPECT_EQ(error(R"({"active-chunks-per-dimension": 2})"),
            "system.json: active-chunks-per-dimension above 1 is not covered");
  EXPECT_EQ(error(R"({"endpoint-delay": 0})"),
            "system.json: endpoint-delay is not a whole number from 1 to 1000000000");
  EXPECT_EQ(error(R"({"endpoint-delay": "1"})"),
            "system.json: endpoint-delay is not a number of 0 or more");
  EXPECT_EQ(error(R"({"boost-mode": 1})"), "system.json: boost-mode is not covered");
  EXPECT_EQ(error(R"({"model-shared-bus": 1})"), "system.json: model-shared-bus is not covered");
  EXPECT_EQ(error(R"({"scheduling-policy": "RANDOM"})"),
            "system.json: scheduling-policy 'RANDOM' is not known");
  EXPECT_EQ(error(R"({"collective-optimization": "best"})"),
            "system.json: collective-optimization 'best' is not known");
  EXPECT_EQ(error(R"({"roofline-enabled": 1})"),
            "system.json: roofline-enabled needs local-mem-bw and peak-perf");
  EXPECT_EQ(error(R"({"all-reduce-implementation": "ring"})"),
            "system.json: all-reduce-implementation is not a list");
}

TEST(AstraMemory, FourKindsAndWhatIsWrong) {
  const auto error = [](const std::string& text) {
    return error_of(read_astra_memory(text, "memory.json"));
  };
  EXPECT_EQ(error(R"({"memory-type": "NO_MEMORY_EXPANSION"})"), "");
  const auto node = read_astra_memory(
      R"({"memory-type": "PER_NODE_MEMORY_EXPANSION", "remote-mem-latency": 1000, "remote-mem-bw": 100.5,
          "num-nodes": 2, "num-npus-per-node": 4})",
      "memory.json");
  ASSERT_TRUE(node) << node.error().text;
  EXPECT_EQ(node->kind, TraceMemory::Kind::kPerNode);
  EXPECT_EQ(node->latency_ns, 1000);
  EXPECT_EQ(node->bytes_per_ns, 100.5);
  EXPECT_EQ(node->ranks_per_node, 4u);
  EXPECT_EQ(error(R"({"memory-type": "TAPE"})"), "memory.json: memory-type 'TAPE' is not known");
  EXPECT_EQ(error(R"({"memory-type": "MEMORY_POOL"})"),
            "memory.json: remote-mem-bw is needed, above 0");
  EXPECT_EQ(error(R"({"memory-type": "PER_NODE_MEMORY_EXPANSION", "remote-mem-bw": 1})"),
            "memory.json: num-nodes is needed");
}

TEST(AstraGroups, RanksByNumber) {
  const auto groups = read_astra_groups(R"({"1": [0, 2], "10": [3, 1]})", "groups.json");
  ASSERT_TRUE(groups) << groups.error().text;
  EXPECT_EQ(groups->at(10), (std::vector<uint32_t>{3, 1}));
  const auto error = [](const std::string& text) {
    return error_of(read_astra_groups(text, "groups.json"));
  };
  EXPECT_EQ(error(R"({"0": [0]})"), "groups.json: the group '0' has no number above 0");
  EXPECT_EQ(error(R"({"1": [-1]})"), "groups.json: the group 1 has a rank that is no number");
  EXPECT_EQ(error(R"({"1": 3})"), "groups.json: the group 1 is not a list of ranks");
}

TEST(FeederJson, ChakrasOwnExample) {
  const auto job =
      read_traces(UNDERSTUDY_TEST_DATA "/workloads/et_cases/feeder_json_small.json", {});
  ASSERT_TRUE(job) << job.error().text;
  const TraceStats stats = stats_of(*job->ranks[0]);
  EXPECT_EQ(stats.nodes, 7u);
  EXPECT_EQ(stats.data_edges, 6u);
  EXPECT_EQ(stats.control_edges, 7u);
  EXPECT_EQ(stats.dangling_control, 7u);
  EXPECT_EQ(stats.on_cpu, 5u);
  EXPECT_EQ(stats.kinds[static_cast<size_t>(TraceNodeKind::kCollective)], 3u);
  EXPECT_EQ(job->ranks[0]->nodes()[0].duration_us, 318u);
}

TEST(FeederJson, WhatIsWrongIsNamed) {
  const auto error = [](const std::string& node) {
    return error_of(read_feeder_json(R"({"workload_graph": [)" + node + "]}", "job.json"));
  };
  const std::string first = "job.json: node number 1 of the list, node ";
  EXPECT_EQ(
      error(R"({"Id": 3, "NodeType": 7, "comm_type": 0, "comm_size": 64, "is_cpu_op": false})"),
      "");
  EXPECT_EQ(error(R"({"NodeType": 4})"), first + "0: Id is missing");
  EXPECT_EQ(error(R"({"Id": 3})"), first + "3: NodeType is missing");
  EXPECT_EQ(error(R"({"Id": 3, "NodeType": 9})"), first + "3: NodeType 9 is not known");
  EXPECT_EQ(error(R"({"Id": 3, "Name": "a", "NodeType": 7, "comm_size": 1.5})"),
            first + "3 (a): comm_size is not an integer");
  EXPECT_EQ(error(R"({"Id": 3, "NodeType": 7, "comm_size": -1})"),
            first + "3: comm_size is less than 0");
  EXPECT_EQ(error(R"({"Id": 3, "NodeType": 7, "comm_tag": 4294967296})"),
            first + "3: comm_tag is too large");
  EXPECT_EQ(error(R"({"Id": 3, "NodeType": 4, "data_deps": 4})"),
            first + "3: data_deps is not a list");
  EXPECT_EQ(error("7"), first + "0: it is not an object");
  EXPECT_EQ(error_of(read_feeder_json("{", "job.json")), "job.json: at byte 2: this is not JSON");
  EXPECT_EQ(error_of(read_feeder_json("{}", "job.json")),
            "job.json: there is no list workload_graph, as Chakra's feeder reads it");
  EXPECT_NE(error_of(read_feeder_json(R"({"schema": "1.0.2", "nodes": []})", "job.json"))
                .find("host trace of PyTorch"),
            std::string::npos);
}

}  // namespace
}  // namespace understudy
