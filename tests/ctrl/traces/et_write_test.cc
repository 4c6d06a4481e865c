// Traces that are written come back as they were: files of Chakra's generators byte by byte, graphs node by
// node.
#include "ctrl/traces/et_write.h"

#include <gtest/gtest.h>

#include <sstream>

#include <filesystem>
#include <string>
#include <vector>

#include "ctrl/traces/et_file.h"
#include "ctrl/traces/feeder_json.h"
#include "ctrl/traces/feeder_json_write.h"
#include "ctrl/traces/trace_files.h"
#include "tests/ctrl/traces/et_writer.h"

namespace understudy {
namespace {

std::string feeder_json(const TraceGraph& graph, uint64_t more = 0) {
  std::ostringstream text;
  write_feeder_json(graph, text, more);
  return text.str();
}

namespace fs = std::filesystem;

std::span<const uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

void expect_equal(const TraceGraph& a, const TraceGraph& b) {
  const auto of_a = a.parts(), of_b = b.parts();
  ASSERT_EQ(of_a.size(), of_b.size());
  for (size_t i = 0; i < of_a.size(); ++i) {
    EXPECT_EQ(of_a[i].node, of_b[i].node) << title_of(of_a[i].node);
    EXPECT_EQ(of_a[i].data, of_b[i].data) << title_of(of_a[i].node);
    EXPECT_EQ(of_a[i].control, of_b[i].control) << title_of(of_a[i].node);
  }
}

TraceNodeParents part(uint64_t id, TraceNodeKind kind) {
  TraceNodeParents made;
  made.node.id = id;
  made.node.name = "n" + std::to_string(id);
  made.node.kind = kind;
  return made;
}

/// Of everything that a node may have.
TraceGraph full_graph() {
  std::vector<TraceNodeParents> nodes;
  TraceNodeParents compute = part(3, TraceNodeKind::kCompute);
  compute.node.set_duration_ns(1'234'567);
  compute.node.operations = uint64_t{1} << 40;
  compute.node.tensor_bytes = ~uint64_t{0};
  TraceNodeParents call = part(4, TraceNodeKind::kCompute);
  call.node.on_cpu = true;
  call.node.duration_us = 7;
  call.data = {3, 99};  // there is no 99
  call.control = {2, 3};
  TraceNodeParents all = part(5, TraceNodeKind::kCollective);
  all.node.collective = TraceCollective::kReduceScatter;
  all.node.bytes = 1 << 20;
  all.node.group = "3";
  all.data = {4};
  TraceNodeParents some = part(6, TraceNodeKind::kCollective);
  some.node.collective = TraceCollective::kAllReduce;
  some.node.bytes = 0;
  some.node.dimensions = {true, false};
  TraceNodeParents send = part(7, TraceNodeKind::kSend);
  send.node.bytes = 10;
  send.node.source = 0;
  send.node.destination = 1;
  TraceNodeParents receive = part(8, TraceNodeKind::kReceive);
  receive.node.bytes = 10;
  receive.node.source = 1;
  receive.node.tag = 12;
  for (const auto& node : {compute, call, all, some, send, receive}) nodes.push_back(node);
  nodes.push_back(part(0, TraceNodeKind::kMetadata));
  nodes.push_back(part(10, TraceNodeKind::kMemoryLoad));
  return *TraceGraph::make(std::move(nodes));
}

TEST(EtWrite, FilesOfGeneratorsKeepTheirBytes) {
  if (!reads_et()) GTEST_SKIP() << "this build reads no .et files";
  size_t files = 0;
  for (const auto& entry :
       fs::recursive_directory_iterator(UNDERSTUDY_TEST_DATA "/workloads/et_cases")) {
    if (entry.path().extension() != ".et") continue;
    SCOPED_TRACE(entry.path().string());
    const std::string bytes = *read_whole_file(entry.path().string());
    const auto graph = read_et(as_bytes(bytes), "file.et");
    ASSERT_TRUE(graph) << graph.error().text;
    const auto again = rewrite_et(as_bytes(bytes), [](TraceNode&) {});
    ASSERT_TRUE(again) << again.error().text;
    EXPECT_TRUE(*again == bytes);
    const auto written = write_et(*graph);
    ASSERT_TRUE(written) << written.error().text;
    const auto read = read_et(as_bytes(*written), "file.et");
    ASSERT_TRUE(read) << read.error().text;
    expect_equal(*graph, *read);
    const auto json = read_feeder_json(feeder_json(*graph), "file.json");
    ASSERT_TRUE(json) << json.error().text;
    expect_equal(*graph, *json);
    ++files;
  }
  EXPECT_EQ(files, 162u);
}

TEST(EtWrite, GraphsComeBackWhole) {
  const TraceGraph graph = full_graph();
  const auto json = read_feeder_json(feeder_json(graph), "file.json");
  ASSERT_TRUE(json) << json.error().text;
  expect_equal(graph, *json);
  if (!reads_et()) GTEST_SKIP() << "this build reads no .et files";
  const auto written = write_et(graph);
  ASSERT_TRUE(written) << written.error().text;
  const auto read = read_et(as_bytes(*written), "file.et");
  ASSERT_TRUE(read) << read.error().text;
  expect_equal(graph, *read);
}

TEST(EtWrite, IdsMayBeMoved) {
  const auto json = read_feeder_json(feeder_json(full_graph(), 100), "file.json");
  ASSERT_TRUE(json) << json.error().text;
  const auto parts = json->parts();
  EXPECT_EQ(parts[0].node.id, 100u);
  EXPECT_EQ(parts[2].node.id, 104u);
  EXPECT_EQ(parts[2].data, (std::vector<uint64_t>{103, 199}));
  EXPECT_EQ(parts[2].control, (std::vector<uint64_t>{102, 103}));
  if (!reads_et()) GTEST_SKIP() << "this build reads no .et files";
  const auto et = read_et(as_bytes(*write_et(full_graph(), 100)), "file.et");
  ASSERT_TRUE(et) << et.error().text;
  expect_equal(*json, *et);
}

TEST(EtWrite, ADurationInNsIsMicrosecondsForOthers) {
  if (!reads_et()) GTEST_SKIP() << "this build reads no .et files";
  TraceNodeParents half = part(1, TraceNodeKind::kCompute);
  half.node.set_duration_ns(1500);
  const std::string bytes = *write_et(*TraceGraph::make({half}));
  EXPECT_EQ(bytes, et_metadata() +
                       et_node(1, 4,
                               number_field(7, 1) + attribute("is_cpu_op", number_field(27, 0)) +
                                   attribute("duration_ns", number_field(13, 1500))));
}

TEST(EtWrite, WhatAMessageCannotHoldIsRefused) {
  if (!reads_et()) GTEST_SKIP() << "this build reads no .et files";
  TraceNodeParents large = part(1, TraceNodeKind::kCompute);
  large.node.operations = uint64_t{1} << 63;
  const auto written = write_et(*TraceGraph::make({large}));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().text,
            "node 1 (n1): num_ops 9223372036854775808 is too large for its type");
}

TEST(EtWrite, OnlyWhatIsChangedChanges) {
  if (!reads_et()) GTEST_SKIP() << "this build reads no .et files";
  const auto file = [](uint64_t to, const std::string& group) {
    return et_metadata() +
           et_node(1, 5,
                   number_field(6, 77) + number_field(7, 1) +
                       bytes_field(8, bytes_field(2, "[1]")) +
                       attribute("comm_src", number_field(7, 2)) +
                       attribute("comm_dst", number_field(11, to)) +
                       attribute("stream", bytes_field(2, "a comment") + number_field(9, 20)) +
                       attribute("outputs", "")) +
           et_node(2, 7, attribute("pg_name", bytes_field(29, group)));
  };
  const std::string before = file(3, "1");
  EXPECT_EQ(*rewrite_et(as_bytes(before), [](TraceNode&) {}), before);
  const auto after = rewrite_et(as_bytes(before), [](TraceNode& node) {
    if (node.destination) *node.destination += 4;
    if (!node.group.empty()) node.group = "12";
  });
  EXPECT_EQ(*after, file(7, "12"));
}

}  // namespace
}  // namespace understudy
