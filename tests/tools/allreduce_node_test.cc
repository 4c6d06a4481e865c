// allreduce_node without NCCL and CUDA: command line, shapes, values, table.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "ctrl/predict/measured_table.h"
#include "tools/allreduce_node/arguments.h"
#include "tools/allreduce_node/table.h"
#include "tools/allreduce_node/values.h"

namespace understudy {
namespace {

/// What is wrong with a command line, or nothing; fills in `arguments`.
std::string parse(const std::string& line, Arguments& arguments) {
  CLI::App app;
  describe(app, arguments);
  try {
    app.parse(line);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return complete(arguments);
}

NodeOptions options_of(const std::string& line) {
  Arguments arguments;
  EXPECT_EQ(parse(line, arguments), "");
  return arguments.node;
}

std::string fault_of(const std::string& line) {
  Arguments arguments;
  return parse(line, arguments);
}

TEST(AllreduceNode, SizesGrowByTheFactorUpToTheLast) {
  EXPECT_EQ(options_of("--ranks 4 -b 1KiB -e 40K -f 4").sizes,
            (std::vector<uint64_t>{1024, 4096, 16384}));
  EXPECT_EQ(options_of("--ranks 4 -b 100 -e 100B").sizes, (std::vector<uint64_t>{100}));
  // The last one may be as large as a number can be.
  EXPECT_EQ(options_of("--ranks 1 -b 17179869183G -e 17179869183G").sizes.size(), 1u);
}

TEST(AllreduceNode, PlaysAllRanksUnlessTold) {
  EXPECT_EQ(options_of("--ranks 3").local, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(options_of("--ranks 3 --rank 2,0").local, (std::vector<uint32_t>{2, 0}));
  EXPECT_EQ(options_of("--ranks 3 --rank 1").real, (std::vector<uint32_t>{1}));
  EXPECT_EQ(options_of("--ranks 3 --rank 1 --real all").real.size(), 3u);
}

TEST(AllreduceNode, BadCommandLinesNameTheOption) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--ranks 0", "--ranks"},
      {"--ranks 2 --rank 2", "--rank: rank 2 of only 2"},
      {"--ranks 2 --rank 1,1", "--rank: a rank twice"},
      {"--ranks 2 --root 2", "--root"},
      {"--ranks 2 --device -1", "--device"},
      {"--ranks 2 --id-file a --make-id-file b", "exclude each other"},
      {"--ranks 2 --real 0;1", "--real: \"0;1\""},
      {"--ranks 2 --real 5", "--real: rank 5"},
      {"--ranks 2 --collective allreduce", "all_reduce, all_gather"},
      {"--ranks 2 --type fp8", "--type: \"fp8\""},
      {"--ranks 2 --op xor", "--op: \"xor\""},
      {"--ranks 2 --place here", "--place"},
      {"--ranks 2 --collective all_to_all --place in", "does not run in place"},
      {"--ranks 2 -n 0", "-n"},
      {"--ranks 2 -b 1TiB", "-b: \"1TiB\""},
      {"--ranks 2 -e 99999999999999999999", "-e"},
      {"--ranks 2 -e 34359738368G", "-e"},
      {"--ranks 2 -b 2M -e 1M", "-b: expected 1 to 1M"},
      {"--ranks 2 -b 0", "-b"},
      {"--ranks 2 -f 1", "-f"},
      {"--ranks 4 --collective all_gather -b 12", "less than an element of every rank"},
      {"--ranks 2 --rank 0 --verify", "--job-seed"},
      {"--ranks 2 --rank 0 --verify --job-seed 1 --op avg", "real ranks only"},
  };
  for (const auto& [line, expected] : cases) {
    const std::string fault = fault_of(line);
    EXPECT_NE(fault.find(expected), std::string::npos) << line << ": \"" << fault << "\"";
  }
}

TEST(AllreduceNode, ShapesAreThoseOfNcclTests) {
  // 100 bytes are 25 floats, of which 24 are shares of 4 ranks.
  const auto gather = shape_of(CollectiveKind::kAllGather, ElementType::kFloat, 100, 4);
  ASSERT_TRUE(gather);
  EXPECT_EQ(gather->bytes, 96u);
  EXPECT_EQ(gather->count, 6u);
  EXPECT_EQ(gather->send, 6u);
  EXPECT_EQ(gather->receive, 24u);
  const auto scatter = shape_of(CollectiveKind::kReduceScatter, ElementType::kHalf, 100, 4);
  ASSERT_TRUE(scatter);
  EXPECT_EQ(scatter->send, 48u);
  EXPECT_EQ(scatter->receive, 12u);
  const auto exchange = shape_of(CollectiveKind::kAllToAll, ElementType::kInt8, 10, 4);
  ASSERT_TRUE(exchange);
  EXPECT_EQ(exchange->count, 2u);
  EXPECT_EQ(exchange->receive, 8u);
  EXPECT_EQ(shape_of(CollectiveKind::kAllReduce, ElementType::kDouble, 100, 4)->bytes, 96u);
  EXPECT_FALSE(shape_of(CollectiveKind::kAllReduce, ElementType::kDouble, 7, 4));
}

TEST(AllreduceNode, InPlaceOneBufferLiesInTheOther) {
  char memory[64];
  const auto at = [&](CollectiveKind kind) {
    return buffers_of(kind, ElementType::kFloat, *shape_of(kind, ElementType::kFloat, 64, 4), 2,
                      true, memory, nullptr);
  };
  EXPECT_EQ(at(CollectiveKind::kAllReduce).send, memory);
  EXPECT_EQ(at(CollectiveKind::kAllGather).send, memory + 32);
  EXPECT_EQ(at(CollectiveKind::kAllGather).receive, memory);
  EXPECT_EQ(at(CollectiveKind::kReduceScatter).receive, memory + 32);
}

template <class T>
std::vector<T> elements(const std::vector<uint8_t>& bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

/// What rank 1 must receive, from the ranks' inputs by the collective's definition.
template <class T>
std::vector<T> by_definition(const NodeOptions& options, const RankValues& values,
                             const Shape& shape) {
  constexpr uint32_t kRank = 1;
  std::vector<std::vector<T>> in;
  for (uint32_t r = 0; r < options.ranks; ++r) in.push_back(elements<T>(values.input(r, shape)));
  std::vector<T> out(shape.receive);
  for (uint64_t i = 0; i < shape.receive; ++i) {
    const uint32_t peer = static_cast<uint32_t>(i / shape.count);
    switch (options.kind) {
      case CollectiveKind::kAllGather:
        out[i] = in[peer][i % shape.count];
        break;
      case CollectiveKind::kAllToAll:
        out[i] = in[peer][kRank * shape.count + i % shape.count];
        break;
      case CollectiveKind::kBroadcast:
        out[i] = in[options.root][i];
        break;
      case CollectiveKind::kSendRecv:
        out[i] = in[0][i];
        break;
      default: {
        const uint64_t at =
            options.kind == CollectiveKind::kReduceScatter ? kRank * shape.count + i : i;
        T sum{};
        for (const auto& one : in) sum = static_cast<T>(sum + one[at]);
        out[i] = sum;
      }
    }
  }
  return out;
}

template <class T>
void expect_only_right_results_pass(const std::string& type) {
  for (const char* name : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                           "send_recv", "all_to_all"}) {
    SCOPED_TRACE(std::string(name) + " of " + type);
    const NodeOptions options = options_of("--ranks 3 --rank 1 --real 0,1 --job-seed 9 --root 2 " +
                                           std::string("--collective ") + name + " --type " + type);
    const RankValues values(options);
    const Shape shape = *shape_of(options.kind, options.type, 120, options.ranks);
    std::vector<T> right = by_definition<T>(options, values, shape);
    const auto wrong = [&] {
      std::vector<uint8_t> bytes(right.size() * sizeof(T));
      std::memcpy(bytes.data(), right.data(), bytes.size());
      return values.check(1, shape, bytes);
    };
    EXPECT_EQ(wrong().wrong, 0u) << wrong().first;
    right.back() = static_cast<T>(right.back() + 1);
    EXPECT_EQ(wrong().wrong, 1u);
    EXPECT_NE(wrong().first.find("element " + std::to_string(right.size() - 1)), std::string::npos);
  }
}

TEST(AllreduceNode, OnlyRightResultsPass) {
  expect_only_right_results_pass<float>("float");
  expect_only_right_results_pass<double>("double");
  expect_only_right_results_pass<int8_t>("int8");
  expect_only_right_results_pass<uint64_t>("uint64");
}

/// With a job's seed contributions are those of emulated ranks in payload = "exact".
TEST(AllreduceNode, EmulatedRanksContributeAsTheEmulatorDoes) {
  const auto input = [](const std::string& type) {
    const NodeOptions options =
        options_of("--ranks 3 --rank 1 --job-seed 9 --verify --type " + type);
    const RankValues values(options);
    return values.input(2, *shape_of(options.kind, options.type, 80, 3));
  };
  const Pattern pattern(9, 2);
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(elements<double>(input("double"))[i], pattern.double_at(i));
    EXPECT_EQ(elements<uint16_t>(input("half"))[i], pattern.float16_at(i).bits);
    EXPECT_EQ(elements<uint16_t>(input("bfloat16"))[i], pattern.bfloat16_at(i).bits);
    EXPECT_EQ(elements<int8_t>(input("int8"))[i], static_cast<int8_t>(pattern.bits_at(i)));
    EXPECT_EQ(elements<uint64_t>(input("uint64"))[i], pattern.bits_at(i));
  }
}

TEST(AllreduceNode, SumsInAnyOrderPassAndOthersDoNot) {
  const NodeOptions options = options_of("--ranks 64");
  const RankValues values(options);
  const Shape shape = *shape_of(options.kind, options.type, 4096, options.ranks);
  std::vector<float> forwards(shape.count), backwards(shape.count), short_of_one(shape.count);
  for (uint32_t r = 0; r < 64; ++r) {
    const auto one = elements<float>(values.input(r, shape));
    const auto other = elements<float>(values.input(63 - r, shape));
    for (uint64_t i = 0; i < shape.count; ++i) {
      forwards[i] += one[i];
      backwards[i] += other[i];
      if (r != 0) short_of_one[i] += one[i];
    }
  }
  const auto wrong = [&](const std::vector<float>& result) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(result.data());
    return values.check(0, shape, {bytes, result.size() * sizeof(float)}).wrong;
  };
  EXPECT_NE(forwards, backwards);
  EXPECT_EQ(wrong(forwards), 0u);
  EXPECT_EQ(wrong(backwards), 0u);
  EXPECT_EQ(wrong(short_of_one), shape.count);
}

TEST(AllreduceNode, HalvesAreWhatTheyStandFor) {
  for (const char* type : {"half", "bfloat16"}) {
    const NodeOptions options = options_of(std::string("--ranks 1 --type ") + type);
    const RankValues values(options);
    const Shape shape = *shape_of(options.kind, options.type, 2000, 1);
    const auto raw = elements<uint16_t>(values.input(0, shape));
    const std::vector<uint16_t> half = {0, 0x3c00, 0x4000, 0x4200, 0x4400};      // 0 to 4
    const std::vector<uint16_t> bfloat16 = {0, 0x3f80, 0x4000, 0x4040, 0x4080};  // 0 to 4
    const auto& known = std::string(type) == "half" ? half : bfloat16;
    std::vector<bool> seen(5);
    for (const uint16_t bits : raw) {
      const auto found = std::ranges::find(known, bits);
      ASSERT_NE(found, known.end()) << bits;
      seen[static_cast<size_t>(found - known.begin())] = true;
    }
    EXPECT_EQ(std::ranges::count(seen, true), 5);
    EXPECT_EQ(values.check(0, shape, values.input(0, shape)).wrong, 0u);
  }
}

TEST(AllreduceNode, CalibrateReadsTheTable) {
  NodeOptions options = options_of("--ranks 4 -b 1M -e 4M");
  std::string text = table_head();
  for (const uint64_t bytes : options.sizes) {
    const Shape shape = *shape_of(options.kind, options.type, bytes, options.ranks);
    const Measured measured{static_cast<double>(bytes) / 1000, 0};
    text += table_row(options, {shape, measured, std::nullopt});
  }
  const auto table = parse_measured(text, "out.txt", false);
  ASSERT_TRUE(table) << table.error().text();
  ASSERT_EQ(table->rows.size(), 3u);
  EXPECT_EQ(table->rows[1].bytes, 2u << 20);
}

TEST(AllreduceNode, RatesAreThoseOfNcclTests) {
  const NodeOptions options = options_of("--ranks 4 -b 1000000 -e 1000000 --json -");
  const Shape shape = *shape_of(options.kind, options.type, 1000000, options.ranks);
  const std::string json = json_text(options, {{shape, Measured{100, 0}, std::nullopt}});
  EXPECT_NE(json.find("\"algbw_GBps\": 10.0"), std::string::npos) << json;
  EXPECT_NE(json.find("\"busbw_GBps\": 15.0"), std::string::npos) << json;
  EXPECT_NE(json.find("\"in_place\": null"), std::string::npos) << json;
}

}  // namespace
}  // namespace understudy
