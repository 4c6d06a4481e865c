// Host and device traces joined: durations, kernels, communications and who waits for whom, by the rules
// that trace_join.h and rank_graph.h number.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ctrl/traces/feeder_json.h"
#include "ctrl/traces/feeder_json_write.h"
#include "ctrl/traces/pytorch/event_order.h"
#include "ctrl/traces/pytorch/rank_graph.h"
#include "tests/ctrl/traces/pytorch_json.h"

namespace understudy {
namespace {

using Ids = std::vector<uint64_t>;

Result<RankGraph> imported(const std::string& host, const std::string& device,
                           std::map<std::string, RankGroup> groups = {}) {
  RankTraces rank;
  rank.host = *host_of(host);
  rank.communications = communications_of(rank.host);
  rank.groups = std::move(groups);
  if (device.empty()) return graph_of_rank(rank);
  auto read = device_of(device);
  if (!read) return tl::unexpected(read.error());
  rank.device = *std::move(read);
  auto joined = join_traces(rank.host, *rank.device);
  if (!joined) return tl::unexpected(joined.error());
  rank.joined = *std::move(joined);
  return graph_of_rank(rank);
}

std::string error_of(const std::string& host, const std::string& device) {
  const auto made = imported(host, device);
  return made ? "" : made.error().text;
}

uint32_t place_of(const TraceGraph& graph, uint64_t id) {
  const auto& nodes = graph.nodes();
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [id](const TraceNode& node) { return node.id == id; });
  EXPECT_NE(found, nodes.end()) << "no node " << id;
  return static_cast<uint32_t>(found - nodes.begin());
}

const TraceNode& node_of(const TraceGraph& graph, uint64_t id) {
  return graph.nodes()[place_of(graph, id)];
}

Ids parents_of(const TraceGraph& graph, const TraceEdges& edges, uint64_t id) {
  Ids ids;
  const uint32_t node = place_of(graph, id);
  for (uint32_t e = edges.first[node]; e < edges.first[node + 1]; ++e) {
    ids.push_back(graph.nodes()[edges.parents[e]].id);
  }
  return ids;
}
Ids data(const TraceGraph& graph, uint64_t id) { return parents_of(graph, graph.data(), id); }
Ids control(const TraceGraph& graph, uint64_t id) { return parents_of(graph, graph.control(), id); }

std::string launch(int correlation, double ts, const char* name = "cudaLaunchKernel",
                   int thread = 1) {
  return device_event("cuda_runtime", name, ts, 1, thread,
                      "\"correlation\": " + std::to_string(correlation));
}
std::string kernel(int correlation, const std::string& name, double ts, double dur, int stream = 7,
                   const std::string& more = "", const char* category = "kernel") {
  return device_event(category, name, ts, dur, stream,
                      "\"correlation\": " + std::to_string(correlation) +
                          ", \"stream\": " + std::to_string(stream) + more);
}

TEST(PyTorchImport, OwnTimeIsLessTheUnionOfWhatIsWithin) {
  const auto device = device_of(device_json(
      {device_operation(1, "outer", 0, 100), device_operation(2, "a", 10, 30),
       device_operation(3, "in_a", 15, 5), device_operation(4, "overlaps_a", 20, 40),
       device_operation(5, "sticks_out", 90, 20), device_operation(6, "elsewhere", 0, 50, 2),
       device_operation(7, "as_long", 60, 5), device_operation(8, "as_long", 60, 5)}));
  ASSERT_TRUE(device) << device.error().text;
  const std::vector<int64_t> own = exclusive_times(*device);
  std::map<uint64_t, int64_t> by_number;
  for (size_t i = 0; i < own.size(); ++i) by_number[device->events[i].record_function] = own[i];
  EXPECT_EQ(by_number[1], 100'000 - 50'000 - 5'000);  // 10 to 60, 60 to 65
  EXPECT_EQ(by_number[2], 25'000);
  EXPECT_EQ(by_number[4], 40'000);
  EXPECT_EQ(by_number[5], 20'000);
  EXPECT_EQ(by_number[6], 50'000);
  EXPECT_EQ(by_number[7], 0);  // equal ones: the first holds the other
  EXPECT_EQ(by_number[8], 5'000);
}

/// Rules 1, 2, 5, 6 and 7.
TEST(PyTorchImport, KernelsBelongToWhatStartedThem) {
  const std::string host =
      host_json({host_node(3, 2, "aten::linear"), host_node(4, 3, "aten::addmm"),
                 host_node(5, 2, "Optimizer.step#SGD.step", ", \"scope\": 7"),
                 host_node(6, 5, "aten::add_"), host_node(7, 2, "aten::zero_")});
  const std::string device = device_json(
      {device_operation(3, "aten::linear", 100, 50), device_operation(4, "aten::addmm", 110, 30),
       launch(1, 120), kernel(1, "gemm", 200, 10.75), launch(2, 145),
       kernel(2, "epilogue", 215, 5, 7, ", \"External id\": 1003"),
       device_event("user_annotation", "ProfilerStep#3", 0, 900, 1),
       device_operation(5, "Optimizer.step#SGD.step", 300, 100),
       device_operation(6, "aten::add_", 310, 20.5), launch(3, 311, "cudaMemcpyAsync"),
       kernel(3, "Memcpy HtoD", 320, 2, 7, "", "gpu_memcpy"), kernel(9, "without launch", 330, 2),
       kernel(8, "by another call", 335, 2), launch(8, 334, "cudaGraphLaunch"),
       kernel(1, "Memset", 500, 1, 7, "", "gpu_memset"),
       device_operation(7, "aten::zero_", 400, 3)});
  const auto made = imported(host, device);
  ASSERT_TRUE(made) << made.error().text;
  const TraceGraph& graph = made->graph;
  EXPECT_EQ(made->operations, 6u);  // with the thread's root
  EXPECT_EQ(made->timed, 5u);
  EXPECT_EQ(made->kernels, 3u);
  EXPECT_EQ(made->left_out, 1u);
  ASSERT_EQ(graph.nodes().size(), 9u);
  // Kernels by the id of their operation; the second one names an operation that began before.
  EXPECT_EQ(node_of(graph, 8).name, "epilogue");
  EXPECT_EQ(node_of(graph, 9).name, "gemm");
  EXPECT_EQ(node_of(graph, 10).name, "Memcpy HtoD");
  EXPECT_EQ(control(graph, 8), Ids{3});
  EXPECT_EQ(control(graph, 9), Ids{4});
  EXPECT_EQ(control(graph, 10), Ids{6});
  EXPECT_EQ(node_of(graph, 9).duration_us, 10u);  // cut
  EXPECT_FALSE(node_of(graph, 9).on_cpu);
  EXPECT_EQ(node_of(graph, 3).duration_us, 20u);
  EXPECT_EQ(node_of(graph, 4).duration_us, 30u);
  EXPECT_EQ(node_of(graph, 5).duration_us, 0u);  // Optimizer.step
  EXPECT_EQ(node_of(graph, 6).duration_us, 20u);
  EXPECT_TRUE(node_of(graph, 3).on_cpu);
  // Depth first; a kernel waits for the operation before it, not for the kernel before it.
  EXPECT_EQ(data(graph, 2), Ids{});
  EXPECT_EQ(data(graph, 3), Ids{2});
  EXPECT_EQ(data(graph, 4), Ids{3});
  EXPECT_EQ(data(graph, 8), Ids{4});
  EXPECT_EQ(data(graph, 9), Ids{4});
  EXPECT_EQ(data(graph, 5), Ids{4});
  EXPECT_EQ(data(graph, 10), Ids{6});
  EXPECT_EQ(data(graph, 7), Ids{6});
  EXPECT_EQ(control(graph, 2), Ids{});
}

TEST(PyTorchImport, LostKernelsAreCounted) {
  RankTraces rank;
  const auto host = host_of(host_json({host_node(3, 2, "aten::mm")}));
  const auto device =
      device_of(device_json({device_operation(3, "aten::mm", 100, 50),
                             device_operation(99, "not in the host trace", 200, 9), launch(1, 205),
                             kernel(1, "a", 210, 1), kernel(2, "b", 220, 1), launch(3, 50),
                             kernel(3, "c", 60, 1), launch(4, 120), kernel(4, "d", 130, 1)}));
  ASSERT_TRUE(host && device);
  const auto joined = join_traces(*host, *device);
  ASSERT_TRUE(joined) << joined.error().text;
  EXPECT_EQ(joined->lost_kernels, 3u);
  ASSERT_EQ(joined->kernels.size(), 1u);
  EXPECT_EQ(device->events[joined->kernels[0].event].name, "d");
}

/// Rule 3.
TEST(PyTorchImport, AfterAGapAThreadWaitsForTheOthers) {
  const std::string host =
      host_json({host_node(3, 2, "a"), host_node(4, 2, "b"),
                 host_node(10, 1, "root of the second thread"), host_node(11, 10, "c"),
                 host_node(12, 10, "d"), host_node(13, 10, "e"), host_node(14, 2, "f")});
  const std::string device =
      device_json({device_operation(3, "a", 0, 10), device_operation(4, "b", 20, 10),
                   device_operation(11, "c", 25, 10, 2), device_operation(12, "d", 40, 10, 2),
                   device_operation(13, "e", 1050.5, 10, 2), device_operation(14, "f", 1050, 10)});
  const auto made = imported(host, device);
  ASSERT_TRUE(made) << made.error().text;
  // The first of a thread, and what follows without a gap; e begins 1,000.5 us after d ended.
  EXPECT_EQ(data(made->graph, 11), (Ids{4, 10}));
  EXPECT_EQ(data(made->graph, 12), (Ids{4, 11}));
  EXPECT_EQ(data(made->graph, 13), (Ids{12, 14}));
  EXPECT_EQ(data(made->graph, 14), (Ids{4, 12}));  // 1,020 us after b
}

/// Rule 4.
TEST(PyTorchImport, WhatFollowsAWaitForTheDeviceWaitsForItsKernels) {
  const std::string host =
      host_json({host_node(3, 2, "a"), host_node(4, 2, "b"), host_node(5, 2, "c"),
                 host_node(6, 2, "inner"), host_node(7, 6, "after the wait")});
  const auto wait = [](int correlation, const char* name, double ts, double dur) {
    return device_event("cuda_runtime", name, ts, dur, 1,
                        "\"correlation\": " + std::to_string(correlation));
  };
  const std::string device = device_json(
      {device_operation(3, "a", 0, 10), launch(1, 1), launch(2, 2), launch(3, 3),
       kernel(1, "first", 10, 20, 7), kernel(2, "second", 30, 20, 7),
       kernel(3, "other", 10, 45, 20), wait(50, "cudaStreamSynchronize", 20, 32),
       device_event("cuda_sync", "Stream Synchronize", 20, 32, 7,
                    "\"correlation\": 50, \"stream\": 7"),
       device_operation(4, "b", 60, 10), wait(51, "cudaDeviceSynchronize", 72, 5),
       device_operation(5, "c", 80, 10), device_operation(6, "inner", 100, 100), launch(4, 101),
       kernel(4, "own", 110, 5), wait(52, "cudaDeviceSynchronize", 112, 10),
       device_operation(7, "after the wait", 130, 10)});
  const auto made = imported(host, device);
  ASSERT_TRUE(made) << made.error().text;
  // Kernels are 8 (other), 9 (first), 10 (second), 11 (own).
  EXPECT_EQ(data(made->graph, 4), (Ids{3, 10}));
  EXPECT_EQ(data(made->graph, 5), (Ids{4, 8, 10}));
  // A kernel waits for all that its operation calls: what stands below it cannot wait for it. The
  // stream of the other one is waited for again.
  EXPECT_EQ(data(made->graph, 7), (Ids{6, 8}));
}

/// What record_param_comms, its caller and its mark are in a trace of NCCL.
std::vector<std::string> nccl_call(uint64_t id, const std::string& collective,
                                   const std::string& group) {
  const std::string tensor = "[11, 12, 0, 100, 4, \"cuda:0\"]";
  return {host_node(id, 2, "c10d::" + collective + "_",
                    host_inputs("[[" + tensor + "]]", "[\"GenericList[Tensor(float)]\"]")),
          host_node(id + 1, id, "record_param_comms",
                    host_inputs("[[" + tensor + "], 1, [\"" + group + "\", \"\"], 1, \"" +
                                    collective + "\", [], [], 0, 1, 4]",
                                R"json(["GenericList[Tensor(float)]", "Int", "Tuple[String,String]",
                                    "Int", "String", "GenericList[]", "GenericList[]", "Int",
                                    "Int", "Int"])json")),
          host_node(id + 2, id + 1, "nccl:" + collective,
                    host_inputs("[" + tensor + "]", "[\"Tensor(float)\"]"))};
}

std::string nccl_operations(uint64_t id, const std::string& collective, double ts) {
  return device_operation(id, "c10d::" + collective + "_", ts, 50) + "," +
         device_operation(id + 1, "record_param_comms", ts + 5, 40) + "," +
         device_operation(id + 2, "nccl:" + collective, ts + 10, 30) + "," +
         device_event("cpu_op", "nccl:coalesced", ts + 12, 20, 1);
}

TEST(PyTorchImport, KernelsOfNcclCommunicate) {
  const std::string host = host_json([] {
    std::vector<std::string> nodes = nccl_call(3, "allreduce", "2");
    for (const char* collective : {"send", "alltoall"}) {
      const auto more = nccl_call(nodes.size() + 3, collective, "2");
      nodes.insert(nodes.end(), more.begin(), more.end());
    }
    return nodes;
  }());
  const std::string told =
      R"json(, "Process Group Name": "5", "In msg nelems": 30, "dtype": "Half", "Collective name": "x")json";
  const std::string device = device_json(
      {nccl_operations(3, "allreduce", 0), launch(1, 20, "cudaLaunchKernelExC"),
       kernel(1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 60,
              40, 20, told),
       nccl_operations(6, "send", 200), launch(2, 220),
       kernel(2, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 230, 5, 20),
       nccl_operations(9, "alltoall", 400), launch(3, 420),
       kernel(3, "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", 430, 5, 20),
       launch(4, 422), kernel(4, "ncclKernel_AllGather_RING_LL(ncclDevComm*)", 440, 5, 20, told)});
  const auto made = imported(host, device, {{"2", {"2", {4, 6, 8}}}, {"5", {"1", {0, 1}}}});
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ(made->kernels_that_communicate, 4u);
  EXPECT_EQ(made->communications_without_kernel, 0u);
  const TraceNode& reduces = node_of(made->graph, 12);
  EXPECT_EQ(reduces.kind, TraceNodeKind::kCollective);
  EXPECT_EQ(reduces.collective, TraceCollective::kAllReduce);
  EXPECT_EQ(reduces.bytes, 400u);  // of the tensors; the kernel is the only one of the call
  EXPECT_EQ(reduces.group, "1");   // the kernel's own word, as the job names it
  EXPECT_EQ(reduces.duration_us, 40u);
  EXPECT_EQ(control(made->graph, 12), Ids{5});  // not nccl:coalesced, though it begins later
  const TraceNode& sends = node_of(made->graph, 13);
  EXPECT_EQ(sends.kind, TraceNodeKind::kSend);
  EXPECT_EQ(sends.destination, 6u);  // rank 1 of the group
  EXPECT_EQ(sends.bytes, 400u);
  EXPECT_EQ(sends.group, "2");
  EXPECT_EQ(node_of(made->graph, 14).collective, TraceCollective::kAllToAll);
  const TraceNode& second = node_of(made->graph, 15);
  EXPECT_EQ(second.collective, TraceCollective::kAllGather);
  EXPECT_EQ(second.bytes, 60u);  // of two in one call each says its own
}

TEST(PyTorchImport, CommunicationsWithoutKernels) {
  const std::string tensor = "[11, 12, 0, 100, 4, \"cpu\"]";
  const std::string host = host_json(
      {host_node(3, 2, "c10d::allreduce_",
                 host_inputs("[[" + tensor + "]]", "[\"GenericList[Tensor(float)]\"]")),
       host_node(4, 2, "gloo:all_reduce", host_inputs("[" + tensor + "]", "[\"Tensor(float)\"]")),
       host_node(5, 2, "c10d::barrier"), host_node(6, 2, "aten::add_")});
  // Debian's profiler: a plain list, without numbers, and the mark in a thread of its own.
  const std::string device = R"json([
      {"name": "c10d::allreduce_", "ph": "X", "ts": 5, "dur": 20, "tid": 1, "pid": "CPU functions", "args": {}},
      {"name": "gloo:all_reduce", "ph": "X", "ts": 8, "dur": 70, "tid": 2, "pid": "CPU functions", "args": {}},
      {"name": "c10d::barrier", "ph": "X", "ts": 40, "dur": 4, "tid": 1, "pid": "CPU functions", "args": {}},
      {"name": "aten::add_", "ph": "X", "ts": 50, "dur": 4, "tid": 1, "pid": "CPU functions", "args": {}}])json";
  const auto made = imported(host, device);
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ(made->communications_without_kernel, 2u);
  const TraceNode& reduces = node_of(made->graph, 7);
  EXPECT_EQ(reduces.name, "gloo:all_reduce");
  EXPECT_EQ(reduces.collective, TraceCollective::kAllReduce);
  EXPECT_FALSE(reduces.on_cpu);
  EXPECT_EQ(reduces.bytes, 400u);
  EXPECT_EQ(reduces.duration_us, 70u);
  EXPECT_EQ(node_of(made->graph, 4).duration_us, 0u);  // it is the communication's
  EXPECT_EQ(node_of(made->graph, 3).duration_us, 20u);
  EXPECT_EQ(data(made->graph, 7), Ids{3});
  EXPECT_EQ(node_of(made->graph, 8).collective, TraceCollective::kAllReduce);
  EXPECT_EQ(node_of(made->graph, 8).bytes, 1u);  // the barrier
  // Without times: by ids.
  const auto plain = imported(host, "");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->timed, 0u);
  EXPECT_EQ(node_of(plain->graph, 7).duration_us, 0u);
  EXPECT_EQ(data(plain->graph, 6), Ids{5});
}

TEST(PyTorchImport, WithoutTimesThreadsTakeTurnsById) {
  const auto made =
      imported(host_json({host_node(3, 2, "forward"),
                          host_node(4, 1, "[pytorch|profiler|execution_graph|thread]"),
                          host_node(5, 4, "backward"), host_node(6, 2, "step")}),
               "");
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ(data(made->graph, 5), Ids{4});
  EXPECT_EQ(data(made->graph, 4), Ids{3});
  EXPECT_EQ(data(made->graph, 6), Ids{5});
  EXPECT_EQ(control(made->graph, 6), Ids{2});
}

TEST(PyTorchImport, DeviceTracesOfOtherProcessesAreNamed) {
  const std::string host = host_json(
      {host_node(3, 2, "aten::mm"), host_node(4, 2, "aten::add"), host_node(5, 2, "aten::mul")});
  std::string other = device_json({device_operation(3, "aten::mm", 0, 1)});
  other.replace(other.find("\"pid\": 7"), 8, "\"pid\": 8");
  EXPECT_EQ(error_of(host, other), "it is of process 8, the host trace of process 7");
  EXPECT_EQ(error_of(host, device_json({device_operation(99, "aten::mm", 0, 1)})),
            "no 'Record function id' in it is the rf_id of a node of the host trace");
  EXPECT_EQ(
      error_of(host, device_json({device_operation(3, "aten::mm", 0, 1),
                                  device_operation(4, "x", 0, 1), device_operation(5, "y", 0, 1)})),
      "of 3 operations with numbers of the host trace, 2 have other names there: it is of "
      "another process");
  EXPECT_EQ(
      error_of(host, device_json({device_event("cpu_op", "aten::mm", 0, 1, 1)})),
      "only 1 of 3 nodes of the host trace are found in it by name and order: it is of another "
      "process, or of another part of the run");
  EXPECT_EQ(error_of(host, device_json({device_operation(3, "aten::mm", 0, 1), launch(1, 2),
                                        launch(1, 3)})),
            "two launches have the correlation 1");
}

TEST(PyTorchImport, WhatIsWrongWithADeviceTraceIsNamed) {
  const auto error = [](const std::string& json) {
    const auto trace = device_of(json);
    return trace ? "" : trace.error().text;
  };
  const std::string good = device_json({device_operation(3, "aten::mm", 0, 1)});
  EXPECT_EQ(error(good), "");
  EXPECT_EQ(error(good.substr(0, 80)),
            "device.json: at byte 80: the file ends early: it was cut off");
  EXPECT_NE(error("{\"nodes\": []}").find("this is a host trace"), std::string::npos);
  EXPECT_EQ(error("{}"), "device.json: this is no device trace: it has no list traceEvents");
  EXPECT_EQ(error("[]"), "device.json: the trace has no operation of the CPU");
  EXPECT_EQ(error("[5]"), "device.json: at byte 3: an event is not an object");
  EXPECT_EQ(error("[{}]"), "device.json: at byte 1: this is no event of a trace: it has no ph");
  EXPECT_EQ(error("[{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"a\", \"ts\": 1}]"),
            "device.json: at byte 1: event 0 ('a'): dur is missing");
  EXPECT_EQ(error("[{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"a\", \"ts\": \"1\"}]"),
            "device.json: at byte 1: event 0 ('a'): ts is no time in microseconds");
  EXPECT_EQ(error(device_json({device_event("cpu_op", "a", 0, -1, 1)})),
            "device.json: at byte 37: event 0 ('a'): dur is less than 0");
  std::string two =
      device_json({device_event("cpu_op", "a", 0, 1, 1), device_event("cpu_op", "b", 0, 1, 1)});
  two.replace(two.rfind("\"pid\": 7"), 8, "\"pid\": 9");
  EXPECT_NE(error(two).find("event 1 ('b'): it is of process 9, others of process 7"),
            std::string::npos);
}

TEST(PyTorchImport, WhatFeedersReadIsTheSameGraph) {
  TraceNodeParents compute, sends, reduces;
  compute.node.id = 3;
  compute.node.name = "a \"quoted\" name";
  compute.node.on_cpu = true;
  compute.node.duration_us = 7;
  compute.node.operations = 9;
  compute.node.tensor_bytes = 11;
  compute.control = {99};  // not there
  sends.node.id = 4;
  sends.node.kind = TraceNodeKind::kSend;
  sends.node.bytes = 5;
  sends.node.destination = 2;
  sends.node.tag = 6;
  sends.data = {3};
  reduces.node.id = 8;
  reduces.node.kind = TraceNodeKind::kCollective;
  reduces.node.collective = TraceCollective::kReduceScatter;
  reduces.node.bytes = 5;
  reduces.node.group = "4";
  reduces.data = {3, 4};
  reduces.control = {4};
  const auto graph = TraceGraph::make({compute, sends, reduces});
  ASSERT_TRUE(graph);
  std::ostringstream text;
  write_feeder_json(*graph, text);
  const auto again = read_feeder_json(text.str(), "again.json");
  ASSERT_TRUE(again) << again.error().text;
  for (size_t i = 0; i < 3; ++i) {
    const TraceNode &a = graph->nodes()[i], &b = again->nodes()[i];
    EXPECT_EQ(
        std::tie(a.id, a.name, a.kind, a.on_cpu, a.duration_us, a.operations, a.tensor_bytes),
        std::tie(b.id, b.name, b.kind, b.on_cpu, b.duration_us, b.operations, b.tensor_bytes));
    EXPECT_EQ(std::tie(a.collective, a.bytes, a.source, a.destination, a.tag, a.group),
              std::tie(b.collective, b.bytes, b.source, b.destination, b.tag, b.group));
  }
  EXPECT_EQ(again->data().parents, graph->data().parents);
  EXPECT_EQ(again->data().first, graph->data().first);
  EXPECT_EQ(again->control().parents, graph->control().parents);
  ASSERT_EQ(again->dangling().size(), 1u);
  EXPECT_EQ(again->dangling()[0].parent_id, 99u);
}

}  // namespace
}  // namespace understudy
