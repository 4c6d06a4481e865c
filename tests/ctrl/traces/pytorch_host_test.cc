// Host traces of PyTorch are read in all schemas, each communication is counted once, and what is wrong
// is named.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "ctrl/traces/pytorch/host_communications.h"
#include "ctrl/traces/pytorch/host_stats.h"
#include "tests/ctrl/traces/pytorch_json.h"

namespace understudy {
namespace {

const std::string kTensor = "[11, 12, 0, 100, 4, \"cpu\"]";
const std::string kOther = "[21, 22, 0, 7, 2, \"cpu\"]";

std::string error_of(const std::string& json) {
  const auto trace = host_of(json);
  return trace ? "" : trace.error().text;
}

HostTrace recorded(const std::string& path) {
  std::ifstream file(std::string(UNDERSTUDY_TEST_DATA "/workloads/") + path);
  const auto trace = read_host_trace(file, path);
  EXPECT_TRUE(trace) << trace.error().text;
  return trace ? *trace : HostTrace{};
}

std::vector<HostCommunication> communications(const std::vector<std::string>& nodes,
                                              const std::string& schema = "1.0.1") {
  const auto trace = host_of(host_json(nodes, schema));
  EXPECT_TRUE(trace) << trace.error().text;
  return trace ? communications_of(*trace) : std::vector<HostCommunication>{};
}

uint64_t count(const HostStats& stats, HostNodeKind kind) {
  return stats.kinds[static_cast<size_t>(kind)];
}

TEST(PyTorchHost, RecordedTraces) {
  const HostStats one = stats_of(recorded("pytorch113/eg_rank0_of1.json"));
  EXPECT_EQ(one.nodes, 120u);
  EXPECT_EQ(one.calls, 119u);
  EXPECT_EQ(count(one, HostNodeKind::kOperator), 116u);
  EXPECT_EQ(one.names.at("aten::as_strided"), 11u);
  for (const char* path : {"pytorch113/eg_rank0_of2.json", "pytorch113/eg_rank1_of2.json"}) {
    const HostTrace trace = recorded(path);
    const HostStats stats = stats_of(trace);
    EXPECT_EQ(stats.nodes, 176u);
    EXPECT_EQ(stats.calls, 175u);
    EXPECT_EQ(count(stats, HostNodeKind::kOperation), 3u);
    EXPECT_EQ(count(stats, HostNodeKind::kMark), 3u);
    EXPECT_EQ(count(stats, HostNodeKind::kAnnotation), 3u);
    // Both ways of recording are in one file: a mark below its call, and one beside it.
    EXPECT_EQ(stats.collectives[0].count, 1u);
    EXPECT_EQ(stats.collectives[0].bytes, 38'440u);
    EXPECT_EQ(stats.collectives[5].count, 2u);
    EXPECT_EQ(stats.collectives[5].bytes, 24u);
    EXPECT_EQ(stats.buckets, std::vector<uint64_t>{38'440});
    for (size_t i = 1; i < trace.nodes.size(); ++i) {
      EXPECT_LT(trace.nodes[i - 1].id, trace.nodes[i].id);
    }
  }
}

TEST(PyTorchHost, RecordedTraceOfNccl) {
  const HostTrace trace = recorded("real/host_trace_1.0.2-chakra.0.0.4.json");
  const HostStats stats = stats_of(trace);
  EXPECT_EQ(trace.process, 788'625u);
  EXPECT_EQ(stats.nodes, 263u);
  EXPECT_EQ(stats.calls, 262u);
  EXPECT_EQ(count(stats, HostNodeKind::kRecord), 20u);
  EXPECT_EQ(count(stats, HostNodeKind::kProcessGroups), 1u);
  // Ten of the records are waits.
  EXPECT_EQ(stats.collectives[2].count, 10u);
  EXPECT_EQ(stats.collectives[2].bytes, 40u);
  ASSERT_EQ(trace.groups.size(), 1u);
  EXPECT_EQ(trace.groups[0].name, "0");
  EXPECT_EQ(trace.groups[0].size, 2u);
  EXPECT_TRUE(trace.groups[0].ranks.empty());
  for (const HostCommunication& one : communications_of(trace)) {
    EXPECT_EQ(trace.nodes[one.node].name, "c10d::allgather_");
    EXPECT_EQ(one.what.group, "0");
    EXPECT_EQ(one.what.rank, 0u);
    EXPECT_TRUE(one.mark);
  }
}

TEST(PyTorchHost, TensorsInListsAreCounted) {
  const auto trace = host_of(host_json({host_node(
      3, 2, "aten::cat",
      host_inputs("[[" + kTensor + ", [" + kOther + "]], [0, 0, 0, 0, 0, \"\"], 5, \"<None>\"]",
                  R"json(["GenericList[Tensor(float),GenericList[Tensor(c10::Half)]]",
                      "Tensor(nullptr (uninitialized))", "Int", "None"])json") +
          R"json(, "outputs": [[31, 32, 0, 3, 8, "cpu"]], "output_types": ["Tensor(long int)"])json")}));
  ASSERT_TRUE(trace) << trace.error().text;
  const HostNode& node = trace->nodes[2];
  EXPECT_EQ(node.input_tensors, 2u);
  EXPECT_EQ(node.input_bytes, 414u);
  EXPECT_EQ(node.output_tensors, 1u);
  EXPECT_EQ(node.output_bytes, 24u);
}

/// From 1.0.2 on: lists in objects, the rest as attributes; from 1.1.0 on with what a communication is.
TEST(PyTorchHost, LaterSchemas) {
  for (const char* schema : {"1.0.2-chakra.0.0.4", "1.0.3-chakra.0.0.4", "1.0.4-chakra.0.0.4",
                             "1.1.0-chakra.0.0.4", "1.1.1-chakra.0.0.4"}) {
    const std::string node = R"json({"id": 3, "name": "record_param_comms", "ctrl_deps": 2,
      "inputs": {"values": [[[11, 12, 0, 64, 2, "cuda:0"]], [4, false], ["12", "mesh_tp"], 1,
                            "_reduce_scatter_base", [], [], 2, 4, 3],
                 "shapes": [], "strides": [],
                 "types": ["GenericList[Tensor(c10::BFloat16)]", "Tuple[Int,Bool]",
                           "Tuple[String,String]", "Int", "String", "GenericList[]",
                           "GenericList[]", "Int", "Int", "Int"]},
      "outputs": {"values": [], "shapes": [], "types": []},
      "attrs": [{"name": "rf_id", "type": "uint64", "value": 9},
                {"name": "tid", "type": "uint64", "value": 5},
                {"name": "in_msg_nelems", "type": "uint64", "value": 64}]})json";
    const auto trace = host_of(host_json({node}, schema));
    ASSERT_TRUE(trace) << trace.error().text;
    EXPECT_EQ(trace->nodes[2].record_function, 9u);
    EXPECT_EQ(trace->nodes[2].thread, 5);
    const auto found = communications_of(*trace);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].what.collective, TraceCollective::kReduceScatter);
    EXPECT_EQ(found[0].what.bytes, 128u);
    EXPECT_EQ(found[0].what.group, "12");
    EXPECT_EQ(found[0].what.rank, 1u);
    EXPECT_EQ(found[0].what.ranks, (std::array<uint32_t, 3>{2, 4, 3}));
  }
}

/// c10d::allreduce_(tensors, group, operation, timeout) with its mark, as PyTorch 1.13 records it.
std::string all_reduce(uint64_t id, uint64_t parent, const std::string& tensor) {
  return host_node(
      id, parent, "c10d::allreduce_",
      host_inputs("[[" + tensor + "], \"<Object>\", \"<Object>\", -1]",
                  R"json(["GenericList[Tensor(float)]", "Object", "Object", "Int"])json"));
}
std::string mark(uint64_t id, uint64_t parent, const std::string& tensor) {
  return host_node(id, parent, "gloo:all_reduce",
                   host_inputs("[" + tensor + "]", R"json(["Tensor(float)"])json"));
}

TEST(PyTorchHost, AMarkBelowOrBesideItsCallIsTheSameCommunication) {
  const auto below = communications({all_reduce(3, 2, kTensor), mark(4, 3, kTensor)});
  ASSERT_EQ(below.size(), 1u);
  EXPECT_EQ(below[0].node, 2u);
  EXPECT_EQ(below[0].mark, 3u);
  EXPECT_EQ(below[0].what.bytes, 400u);
  // Marks come in another order than calls: the tensor says which is whose.
  const auto beside = communications({all_reduce(3, 2, kTensor), all_reduce(4, 2, kOther),
                                      mark(5, 2, kOther), mark(6, 2, kTensor)});
  ASSERT_EQ(beside.size(), 2u);
  EXPECT_EQ(beside[0].mark, 5u);
  EXPECT_EQ(beside[1].mark, 4u);
  // A second mark for one call is a communication of which no call is recorded.
  EXPECT_EQ(
      communications({all_reduce(3, 2, kTensor), mark(4, 2, kTensor), mark(5, 2, kTensor)}).size(),
      2u);
}

/// As PyTorch 1.13 records Gloo: a mark is below whatever the calling thread is in when it begins, and
/// takes a call off the thread's stack when it ends.
TEST(PyTorchHost, MarksOfOtherThreadsStandAnywhere) {
  const auto found =
      communications({all_reduce(3, 2, kTensor), host_node(4, 2, "aten::mm"), mark(5, 4, kTensor),
                      all_reduce(6, 2, kOther), all_reduce(7, 6, kTensor), mark(8, 7, kOther),
                      mark(9, 6, kTensor)});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].mark, 4u);
  EXPECT_EQ(found[1].mark, 7u);
  EXPECT_EQ(found[2].mark, 8u);
  // NCCL's stand in the calling thread, whatever they are named.
  const auto barrier =
      communications({host_node(3, 2, "c10d::barrier"),
                      host_node(4, 3, "nccl:all_reduce_barrier",
                                host_inputs("[" + kTensor + "]", "[\"Tensor(float)\"]"))});
  ASSERT_EQ(barrier.size(), 1u);
  EXPECT_EQ(barrier[0].what.collective, TraceCollective::kBarrier);
  EXPECT_EQ(barrier[0].mark, 3u);
}

TEST(PyTorchHost, BytesAreThoseThatGoIn) {
  const auto bytes = [](const std::string& name, const std::string& values,
                        const std::string& types) {
    const auto found = communications({host_node(3, 2, name, host_inputs(values, types))});
    return found.size() == 1 ? found[0].what.bytes : std::nullopt;
  };
  const std::string lists =
      R"json(["GenericList[Tensor(float)]", "GenericList[Tensor(float)]"])json";
  const std::string both = "[[" + kTensor + ", " + kTensor + "], [" + kOther + "]]";
  EXPECT_EQ(bytes("c10d::allgather_", both, lists), 14u);
  EXPECT_EQ(bytes("c10d::reduce_scatter_", both, lists), 14u);
  EXPECT_EQ(bytes("c10d::alltoall_", both, lists), 14u);
  EXPECT_EQ(bytes("c10d::broadcast_", both, lists), 800u);
  EXPECT_EQ(bytes("c10d::_allgather_base_", "[" + kTensor + ", " + kOther + "]",
                  R"json(["Tensor(float)", "Tensor(float)"])json"),
            14u);
  EXPECT_EQ(bytes("c10d::barrier", "[]", "[]"), std::nullopt);
}

TEST(PyTorchHost, MessagesHavePeerAndTag) {
  const auto found = communications(
      {host_node(3, 2, "c10d::send",
                 host_inputs("[[" + kTensor + "], \"<Object>\", 6, 9]",
                             R"json(["GenericList[Tensor(float)]", "Object", "Int", "Int"])json")),
       host_node(
           4, 2, "c10d::recv_",
           host_inputs("[[" + kOther + "], \"<Object>\", 5, 8]",
                       R"json(["GenericList[Tensor(float)]", "Object", "Int", "Int"])json"))});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].what.kind, TraceNodeKind::kSend);
  EXPECT_EQ(found[0].what.peer, 6u);
  EXPECT_EQ(found[0].what.tag, 9u);
  EXPECT_EQ(found[1].what.kind, TraceNodeKind::kReceive);
  EXPECT_EQ(found[1].what.bytes, 14u);
}

TEST(PyTorchHost, GroupsByHandleAndName) {
  const std::string groups =
      host_node(3, 2, "## process_group:init ##",
                host_inputs(R"json(["[{\"pg_name\": \"0\", \"backend_id\": 90, \"ranks\": [], )json"
                            R"json(\"group_size\": 4}, {\"pg_name\": 3, \"backend_id\": 91, )json"
                            R"json(\"ranks\": [1, 3]}]"])json",
                            R"json(["String"])json"));
  // Long texts are cut off.
  const std::string cut =
      host_node(5, 2, "## process_group:init ##",
                host_inputs(R"json(["[{\"pg_name\": \"8\", "])json", R"json(["String"])json"));
  const std::string record =
      host_node(4, 2, "record_param_comms",
                host_inputs("[" + kTensor + ", 1, 91, 1, \"allreduce\", [], [], 2]",
                            R"json(["Tensor(float)", "Int", "Int", "Int", "String", "GenericList[]",
                      "GenericList[]", "Int"])json"));
  const auto trace = host_of(host_json({groups, record, cut}));
  ASSERT_TRUE(trace) << trace.error().text;
  ASSERT_EQ(trace->groups.size(), 2u);
  EXPECT_EQ(trace->groups[1].ranks, (std::vector<uint32_t>{1, 3}));
  const auto found = communications_of(*trace);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].what.group, "3");
}

TEST(PyTorchHost, BucketsAreReducedWhileGradientsBecomeReady) {
  const auto found = communications(
      {host_node(3, 2, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"),
       all_reduce(4, 3, kTensor), all_reduce(5, 2, kTensor)});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].is_bucket);
  EXPECT_FALSE(found[1].is_bucket);
}

TEST(PyTorchHost, WhatIsWrongIsNamed) {
  const std::string good = host_json({host_node(3, 2, "aten::mm")});
  EXPECT_EQ(error_of(good), "");
  for (size_t size = 1; size < good.size(); ++size) {
    EXPECT_EQ(error_of(good.substr(0, size)), "host.json: at byte " + std::to_string(size) +
                                                  ": the file ends early: it was cut off");
  }
  EXPECT_EQ(error_of(""), "host.json: at byte 0: the file is empty");
  EXPECT_EQ(error_of("nonsense"), "host.json: at byte 2: this is not JSON");
  EXPECT_EQ(error_of("7"), "host.json: at byte 1: this is neither an object nor a list");
  EXPECT_EQ(error_of("{}"),
            "host.json: this is no host trace of PyTorch: it has no schema with a list of nodes");
  EXPECT_EQ(
      error_of(R"json({"traceEvents": []})json"),
      "host.json: at byte 14: this is a device trace (Kineto's traceEvents), not a host trace");
  EXPECT_NE(error_of(R"json([{"ph": "X"}])json").find("an event of a device trace"),
            std::string::npos);
  EXPECT_NE(error_of(R"json({"workload_graph": []})json").find("Chakra's feeder"),
            std::string::npos);
  EXPECT_NE(error_of(host_json({}, "1.1.1-chakra.1.0.0"))
                .find("the schema '1.1.1-chakra.1.0.0' is not covered: 1.0.1, and "),
            std::string::npos);
  EXPECT_NE(error_of(R"json({"schema": "1.0.1", "nodes": []})json").find("the trace has no nodes"),
            std::string::npos);
  EXPECT_NE(error_of("{\"a\": " + std::string(100, '[')).find("values stand in more than 64"),
            std::string::npos);
}

TEST(PyTorchHost, WhatIsWrongWithANodeIsNamed) {
  const auto of = [](const std::string& node) { return error_of(host_json({node})); };
  const auto ends = [](const std::string& error, const std::string& end) {
    return error.ends_with(end) ? "" : error;
  };
  EXPECT_EQ(of(host_node(2, 1, "aten::mm")),
            "host.json: node 2 (aten::mm): another node has the same id");
  EXPECT_EQ(of(host_node(3, 9, "aten::mm")),
            "host.json: node 3 (aten::mm): its caller is node 9, which is not there");
  EXPECT_EQ(of(host_node(3, 3, "aten::mm")),
            "host.json: node 3 (aten::mm): it is called by itself");
  EXPECT_NE(error_of(host_json({host_node(3, 4, "a"), host_node(4, 3, "b")}))
                .find("nodes call one another in a circle: node 3 (a) is called by node 4 (b)"),
            std::string::npos);
  EXPECT_EQ(ends(of("[]"), "a node is not an object"), "");
  EXPECT_EQ(ends(of("{\"name\": \"a\"}"), "a node: id is missing"), "");
  EXPECT_EQ(ends(of("{\"id\": -3}"), "id is not a whole number of 0 or more"), "");
  EXPECT_EQ(ends(of("{\"id\": 3}"), "node 3: name is missing, or no string"), "");
  EXPECT_EQ(ends(of("{\"id\": 3, \"name\": \"a\"}"), "node 3 (a): ctrl_deps is missing"), "");
  EXPECT_EQ(ends(of(host_node(3, 2, "a", ", \"inputs\": 5")), "node 3 (a): inputs is not a list"),
            "");
  EXPECT_EQ(ends(of(host_node(3, 2, "a", host_inputs("[[1, 2]]", "[\"Tensor(float)\"]"))),
                 "node 3 (a): a value of type Tensor(float) is no tensor"),
            "");
  EXPECT_EQ(
      ends(of(host_node(3, 2, "a", host_inputs("[[1, 2, 0, -1, 4, \"\"]]", "[\"Tensor(float)\"]"))),
           "a tensor has ids or sizes that are no whole numbers of 0 or more"),
      "");
  EXPECT_NE(of(host_node(3, 2, "a", ", \"cat\": \"kernel\"")).find("this trace was joined already"),
            std::string::npos);
  EXPECT_EQ(error_of(host_json({host_node(3, 2, "a")})), "");
}

}  // namespace
}  // namespace understudy
