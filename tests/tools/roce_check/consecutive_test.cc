// One capture in several files, and one that comes through a pipe.
#include "tools/roce_check/packets/consecutive_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/tools/roce_check/capture_formats.h"
#include "tests/tools/roce_check/conversation.h"
#include "tools/roce_check/output/report.h"

namespace understudy {
namespace {

constexpr uint32_t kMicroseconds = 0xa1b2c3d4, kNanoseconds = 0xa1b23c4d;

using Bytes = std::vector<uint8_t>;

TestCapture part_of(const TestCapture& whole, size_t from, size_t to) {
  TestCapture out = whole;
  out.frames.assign(whole.frames.begin() + static_cast<std::ptrdiff_t>(from),
                    whole.frames.begin() + static_cast<std::ptrdiff_t>(to));
  return out;
}

class Consecutive : public testing::Test {
 protected:
  Consecutive()
      : folder_(std::filesystem::temp_directory_path() /
                ("roce_check_files_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Consecutive() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const Bytes& bytes) const {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return path;
  }

  static Analysis judge(const std::vector<std::string>& paths) {
    auto source = open_consecutive(paths);
    EXPECT_TRUE(source) << (source ? "" : source.error().text);
    auto analysis = analyse(**source, talk_options());
    EXPECT_TRUE(analysis) << (analysis ? "" : analysis.error().text);
    return std::move(*analysis);
  }

  static std::string error_of(const std::vector<std::string>& paths) {
    auto source = open_consecutive(paths);
    if (!source) return source.error().text;
    const auto analysis = analyse(**source, talk_options());
    return analysis ? "" : analysis.error().text;
  }

  const std::filesystem::path folder_;
};

nlohmann::json report_of(const Analysis& analysis) {
  auto out = nlohmann::json::parse(report_json(analysis, "capture"));
  out.erase("files");
  out.erase("format");
  return out;
}

// At every place, whatever the order and the formats: what the whole capture says.
TEST_F(Consecutive, CutAnywhere) {
  const TestCapture good = eventful().capture;
  TestCapture broken = good;
  broken.frames[7].bytes.back() ^= 1;
  for (const TestCapture& capture : {good, broken}) {
    const size_t n = capture.frames.size();
    const auto whole = report_of(judge({file("whole", pcap(capture, kMicroseconds, 1'000'000))}));
    for (size_t cut = 1; cut + 1 < n; cut += 3) {
      const size_t second = cut + (n - cut) / 2;
      const std::string a = file("a", pcap(part_of(capture, 0, cut), kMicroseconds, 1'000'000));
      const std::string b = file("b", pcap(part_of(capture, cut, second), kNanoseconds, 1'000));
      const std::string c = file("c", pcap(part_of(capture, second, n), kMicroseconds, 1'000'000));
      const Analysis analysis = judge({c, a, b});
      EXPECT_EQ(report_of(analysis), whole) << cut;
      ASSERT_EQ(analysis.source.files.size(), 3u);
      EXPECT_EQ(analysis.source.files[1].path, b);
      EXPECT_EQ(analysis.source.files[2].before, second);
    }
  }
}

TEST_F(Consecutive, FormatsMayDiffer) {
  const TestCapture capture = eventful().capture;
  const size_t n = capture.frames.size();
  const Analysis analysis =
      judge({file("a", pcap(part_of(capture, 0, n / 2), kMicroseconds, 1'000'000)),
             file("b", erf(part_of(capture, n / 2, n)))});
  expect_holds(analysis);
  EXPECT_EQ(analysis.source.format, "mixed");
  EXPECT_EQ(analysis.source.frames, n);
}

// A file of a later second counts its own times from there.
TEST_F(Consecutive, TimesGoOnOverSeconds) {
  Conversation c;
  c.client(Opcode::kSendOnly, talk_psn(0), 64);
  c.wait(Duration::us(2'500'100)).ack(talk_psn(0), 1);
  TestCapture& capture = c.capture;
  Bytes late = pcap(part_of(capture, 1, 2), kNanoseconds, 1'000);
  const auto second = static_cast<uint32_t>(kCalendarSecond + 2);
  const auto part = static_cast<uint32_t>((capture.frames[1].at.ps() - 2'000'000'000'000) / 1'000);
  for (size_t i = 0; i < 4; ++i) {
    late[24 + i] = static_cast<uint8_t>(second >> (8 * i));
    late[28 + i] = static_cast<uint8_t>(part >> (8 * i));
  }
  const Analysis analysis =
      judge({file("late", late), file("early", pcap(part_of(capture, 0, 1), kNanoseconds, 1'000))});
  expect_holds(analysis);
  ASSERT_EQ(analysis.connections.size(), 1u);
  const Duration apart = capture.frames[1].at - capture.frames[0].at;
  const Duration seen = analysis.table.last - analysis.table.first;
  EXPECT_LT(seen - apart, Duration::us(1));
  EXPECT_LT(apart - seen, Duration::us(1));
}

// Only where each file says that it lacks nothing is the whole held to it.
TEST_F(Consecutive, EachFileMustCountItsDrops) {
  Conversation c = eventful();
  c.capture.erase(c.at("middle"));
  c.capture.own = false;
  const size_t n = c.capture.frames.size();
  for (const bool counted : {true, false}) {
    TestCapture first = part_of(c.capture, 0, n / 3), rest = part_of(c.capture, n / 3, n);
    rest.statistics = counted;
    const Analysis analysis = judge({file("a", first.file()), file("b", rest.file())});
    EXPECT_EQ(analysis.findings.count(Rule::kA4_2), counted ? 1u : 0u) << all_examples(analysis);
    EXPECT_EQ(analysis.findings.hold(), false);
  }
  TestCapture lossy = part_of(c.capture, 0, n / 3);
  lossy.drops = 2;
  EXPECT_EQ(
      judge({file("a", lossy.file()), file("b", part_of(c.capture, n / 3, n).file())}).source.drops,
      2u);
}

TEST_F(Consecutive, CapturesOfARun) {
  const TestCapture capture = eventful().capture;
  const size_t n = capture.frames.size();
  const Analysis whole = judge({file("whole", capture.file())});
  const Analysis analysis = judge(
      {file("b", part_of(capture, n / 2, n).file()), file("a", part_of(capture, 0, n / 2).file())});
  expect_holds(analysis);
  EXPECT_TRUE(analysis.source.has_run_times);
  EXPECT_EQ(report_of(analysis), report_of(whole));
}

TEST_F(Consecutive, AnEmptyFileIsNoFault) {
  const TestCapture capture = eventful().capture;
  const std::string empty = file("z", pcap(part_of(capture, 0, 0), kNanoseconds, 1'000));
  expect_holds(judge({empty, file("a", pcap(capture, kNanoseconds, 1'000))}));
}

TEST_F(Consecutive, FilesThatAreNotOneCapture) {
  const TestCapture capture = eventful().capture;
  const size_t n = capture.frames.size();
  const std::string a = file("a", pcap(capture, kNanoseconds, 1'000));
  const std::string b = file("b", pcap(part_of(capture, n / 2, n), kNanoseconds, 1'000));
  EXPECT_EQ(error_of({a, b}),
            b + " begins before " + a +
                " ends: they are not files of one capture that follow each other");
  EXPECT_EQ(error_of({a, file("run", capture.file())}).find(a) == std::string::npos, false);
  EXPECT_EQ(error_of({a, folder_ / "none"}),
            (folder_ / "none").string() + ": No such file or directory");
}

/// What comes through a pipe that `bytes` are written into.
Result<Analysis> through_pipe(const Bytes& bytes) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  std::thread writer([&] {
    EXPECT_EQ(::write(ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    ::close(ends[1]);
  });
  auto out = analyse("/proc/self/fd/" + std::to_string(ends[0]), talk_options());
  ::close(ends[0]);
  writer.join();
  return out;
}

TEST(Pipe, BringsPcap) {
  const TestCapture capture = eventful().capture;
  const auto analysis = through_pipe(pcap(capture, kNanoseconds, 1'000));
  ASSERT_TRUE(analysis) << analysis.error().text;
  expect_holds(*analysis);
  EXPECT_EQ(analysis->source.frames, capture.frames.size());
  Bytes half = pcap(capture, kNanoseconds, 1'000);
  half.resize(half.size() - 5);
  EXPECT_TRUE(through_pipe(half)->source.truncated);
}

TEST(Pipe, BringsNothingElse) {
  for (const auto& [bytes, message] :
       {std::pair<Bytes, std::string>(eventful().capture.file(), "must bring pcap, not pcapng"),
        {{}, "nothing came through the pipe"},
        {Bytes(100, 'x'), "not pcap, as a pipe must bring it"},
        {{0xd4, 0xc3}, "not pcap, as a pipe must bring it"}}) {
    const auto analysis = through_pipe(bytes);
    ASSERT_FALSE(analysis);
    EXPECT_NE(analysis.error().text.find(message), std::string::npos) << analysis.error().text;
  }
}

}  // namespace
}  // namespace understudy
