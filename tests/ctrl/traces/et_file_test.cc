// Execution traces are read whatever types their writers chose, and what is wrong is named with byte
// and node.
#include "ctrl/traces/et_file.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/ctrl/traces/et_writer.h"

namespace understudy {
namespace {

constexpr uint64_t kCompute = 4, kSend = 5, kCollective = 7;

Result<TraceGraph> read(const std::string& bytes) {
  return read_et({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "job.0.et");
}

std::string error_of(const std::string& bytes) {
  const auto graph = read(bytes);
  return graph ? "" : graph.error().text;
}

class EtFile : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!reads_et()) GTEST_SKIP() << "this build reads no .et files";
  }
};

TEST_F(EtFile, NodesStandInOrderOfTheirIds) {
  const auto graph =
      read(et_metadata() + et_node(9, kCompute, number_field(7, 5) + packed(5, {1, 4})) +
           et_node(4, kCompute, number_field(5, 1) + number_field(4, 77)) + et_node(1, kCompute));
  ASSERT_TRUE(graph) << graph.error().text;
  ASSERT_EQ(graph->nodes().size(), 3u);
  EXPECT_EQ(graph->nodes()[2].id, 9u);
  EXPECT_EQ(graph->nodes()[2].name, "n9");
  EXPECT_EQ(graph->nodes()[2].duration_us, 5u);
  EXPECT_EQ(graph->data().parents, (std::vector<uint32_t>{0, 0, 1}));
  EXPECT_TRUE(graph->control().parents.empty());
  ASSERT_EQ(graph->dangling().size(), 1u);
  EXPECT_EQ(graph->dangling()[0].parent_id, 77u);
  EXPECT_TRUE(graph->dangling()[0].control);
}

TEST_F(EtFile, EveryIntegerTypeIsRead) {
  // sint32 and sint64 alternate between signs: 24 is 12.
  const std::vector<std::string> values = {
      number_field(7, 12),    number_field(9, 12),   number_field(11, 12),   number_field(13, 12),
      number_field(15, 24),   number_field(17, 24),  fixed_field(19, 12, 4), fixed_field(21, 12, 8),
      fixed_field(23, 12, 4), fixed_field(25, 12, 8)};
  for (const std::string& value : values) {
    const std::string attributes = attribute("comm_type", number_field(9, 0)) +
                                   attribute("comm_size", value) + attribute("is_cpu_op", value) +
                                   attribute("tensor_size", value) + attribute("num_ops", value) +
                                   attribute("comm_tag", value) + attribute("comm_src", value) +
                                   attribute("comm_dst", value);
    const auto graph = read(et_metadata() + et_node(0, kCollective, attributes));
    ASSERT_TRUE(graph) << graph.error().text;
    const TraceNode& node = graph->nodes()[0];
    EXPECT_EQ(node.collective, TraceCollective::kAllReduce);
    EXPECT_EQ(node.bytes, 12u);
    EXPECT_TRUE(node.on_cpu);
    EXPECT_EQ(node.tensor_bytes, 12u);
    EXPECT_EQ(node.operations, 12u);
    EXPECT_EQ(node.tag, 12u);
    EXPECT_EQ(node.source, 12u);
    EXPECT_EQ(node.destination, 12u);
  }
  const auto graph =
      read(et_metadata() + et_node(0, kCompute, attribute("is_cpu_op", number_field(27, 1))));
  ASSERT_TRUE(graph);
  EXPECT_TRUE(graph->nodes()[0].on_cpu);
}

TEST_F(EtFile, OtherTypesAreNamed) {
  const std::string at = "job.0.et: at byte 8: node 3 (n3): ";
  const auto error = [](const std::string& name, const std::string& value) {
    return error_of(et_metadata() + et_node(3, kCollective, attribute(name, value)));
  };
  EXPECT_EQ(error("comm_size", fixed_field(3, 0, 8)), at + "comm_size is a double, not an integer");
  EXPECT_EQ(error("comm_size", fixed_field(5, 0, 4)), at + "comm_size is a float, not an integer");
  EXPECT_EQ(error("comm_size", bytes_field(29, "12")),
            at + "comm_size is a string, not an integer");
  EXPECT_EQ(error("comm_size", bytes_field(10, "")), at + "comm_size is a list, not an integer");
  EXPECT_EQ(error("comm_size", ""), at + "comm_size is without a value, not an integer");
  EXPECT_EQ(error("comm_size", number_field(9, ~uint64_t{0})), at + "comm_size is less than 0");
  EXPECT_EQ(error("comm_tag", number_field(13, uint64_t{1} << 32)), at + "comm_tag is too large");
  EXPECT_EQ(error("comm_type", number_field(9, 10)), at + "comm_type is 10");
  EXPECT_EQ(error("pg_name", number_field(9, 1)), at + "pg_name is an integer, not a string");
  EXPECT_EQ(error("involved_dim", number_field(27, 1)),
            at + "involved_dim is a bool, not a list of bools");
  EXPECT_EQ(error("stream", bytes_field(29, "anything")), "");
}

TEST_F(EtFile, GroupsAndDimensions) {
  const std::string attributes = attribute("pg_name", bytes_field(29, "3")) +
                                 attribute("involved_dim", bytes_field(28, packed(1, {1, 0, 1})));
  const auto graph = read(et_metadata() + et_node(0, kSend, attributes));
  ASSERT_TRUE(graph) << graph.error().text;
  EXPECT_EQ(graph->nodes()[0].group, "3");
  EXPECT_EQ(graph->nodes()[0].dimensions, (std::vector<bool>{true, false, true}));
}

/// Fields that later schemas may add, tensors, and metadata of other tools.
TEST_F(EtFile, WhatHasNoEffectIsPassedOver) {
  const std::string metadata =
      et_message(bytes_field(2, bytes_field(1, "schema") + bytes_field(29, "1.0.2-chakra.0.0.4")) +
                 bytes_field(2, bytes_field(1, "pid") + number_field(13, 7)));
  const std::string node =
      et_node(0, kCompute,
              bytes_field(8, bytes_field(1, "[]")) + number_field(6, 5) + bytes_field(40, "later"));
  EXPECT_EQ(error_of(metadata + node), "");
  EXPECT_EQ(error_of(et_metadata("") + node), "");
  EXPECT_EQ(error_of(et_metadata("1.0.0") + node), "");
  const std::string own = et_message(
      bytes_field(2, bytes_field(1, "schema") + bytes_field(29, "symbolic_tensor_network")));
  EXPECT_EQ(error_of(own + node), "");
}

TEST_F(EtFile, EveryTruncationIsNamedWithItsByte) {
  const std::string metadata = et_metadata(), node = et_node(1, kCompute);
  const std::string whole = metadata + node;
  EXPECT_EQ(error_of(""), "job.0.et: the file is empty");
  for (size_t size = 1; size < whole.size(); ++size) {
    if (size == metadata.size()) continue;
    const size_t begin = size < metadata.size() ? 0 : metadata.size();
    const size_t bytes = (begin == 0 ? metadata : node).size() - 1;
    EXPECT_EQ(error_of(whole.substr(0, size)), "job.0.et: at byte " + std::to_string(begin) +
                                                   ": the file ends within a message of " +
                                                   std::to_string(bytes) + " bytes, of which " +
                                                   std::to_string(size - begin - 1) + " are there");
  }
  EXPECT_EQ(error_of(metadata + "\x80"),
            "job.0.et: at byte 8: the file ends within the length of a message");
  EXPECT_EQ(error_of(metadata + std::string(6, '\x80') + "\x01"),
            "job.0.et: at byte 8: the length of a message is no number of 32 bits");
}

TEST_F(EtFile, OlderSchemasAreNamed) {
  const auto older = [](const std::string& bytes) {
    const std::string error = error_of(bytes);
    return error.find("schema 0.0.4 (2023-10) or later is needed") != std::string::npos
               ? error
               : "READ " + error;
  };
  // 0.0.3, without metadata: a node with attributes at 11, which have a type.
  const std::string old_attribute =
      bytes_field(11, bytes_field(1, "comm_size") + number_field(2, 2));
  const std::string old = et_node(0, kCollective, old_attribute);
  EXPECT_NE(older(old).find("at byte 0: the first message is no metadata"), std::string::npos)
      << older(old);
  // The same after something that passes for metadata.
  EXPECT_NE(older(et_metadata("") + old).find("node 0 (n0): it has fields of an older schema"),
            std::string::npos);
  // 0.0.1: a collective's kind at 13.
  EXPECT_NE(
      older(et_metadata("") + et_node(0, 6, number_field(13, 1))).find("fields of an older schema"),
      std::string::npos);
  // 2023-08: metadata have their attributes at 1.
  const std::string metadata =
      et_message(bytes_field(1, bytes_field(1, "schema") + number_field(2, 7)));
  EXPECT_NE(older(metadata + et_node(0, kCompute)).find("a schema of 2023-08"), std::string::npos);
  EXPECT_NE(older(et_metadata("0.0.3") + et_node(0, kCompute)).find("the version is '0.0.3'"),
            std::string::npos);
  EXPECT_NE(older(et_metadata() + et_message(number_field(1, 5))).find("node 5: it has no type"),
            std::string::npos);
}

TEST_F(EtFile, WhatIsNoTraceIsNamed) {
  EXPECT_EQ(error_of(et_metadata() + et_node(0, 8)),
            "job.0.et: at byte 8: node 0 (n0): its type 8 is not known");
  EXPECT_NE(error_of(et_metadata() + et_message("\x0f")).find("at byte 8: this is no node"),
            std::string::npos);
  EXPECT_EQ(error_of(et_metadata() + et_node(2, kCompute) + et_node(2, kCompute)),
            "job.0.et: node 2 (n2): another node has the same id");
}

}  // namespace
}  // namespace understudy
