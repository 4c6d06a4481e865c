// A capture in memory that tests of roce-check change and write back.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "dataplane/wire/headers.h"
#include "dataplane/wire/icrc.h"
#include "dataplane/wire/parse.h"
#include "dataplane/wire/pcapng.h"
#include "tools/roce_check/checks/analysis.h"

namespace understudy {

inline std::string recording(const std::string& name) {
  return std::string(UNDERSTUDY_TEST_DATA) + "/rxe/" + name + ".pcap";
}

struct TestFrame {
  std::vector<uint8_t> bytes;
  Time at;
  Time scheduled = Time::never();
  CaptureDirection direction = CaptureDirection::kUnknown;
  std::vector<LinkChange> changes;
  uint32_t cut = 0;        ///< bytes that a snap length has taken away
  uint32_t interface = 0;  ///< that saw it; of a capture of ours

  RoceView roce() const {
    FrameView view;
    RoceView out;
    EXPECT_EQ(parse_frame(bytes, view, out), FrameKind::kRoce);
    return out;
  }
  bool is_rc() const {
    FrameView view;
    RoceView out;
    return parse_frame(bytes, view, out) == FrameKind::kRoce && out.info().kind != OpKind::kUd;
  }
  /// Puts the right ICRC under changed contents.
  void seal() {
    FrameView view;
    RoceView out;
    ASSERT_EQ(parse_frame(bytes, view, out), FrameKind::kRoce);
    const size_t end = view.ip_end - kIcrcBytes;
    store_icrc(bytes.data() + end, icrc({bytes.data() + view.l3, end - view.l3}));
  }
  /// The header of this type that begins `offset` bytes after the BTH does.
  template <typename T>
  T& header(uint32_t offset) {
    return *reinterpret_cast<T*>(bytes.data() + roce().bth + offset);
  }
  Bth& bth() { return header<Bth>(0); }
};

class TestCapture {
 public:
  static TestCapture load(const std::string& path) {
    TestCapture out;
    auto source = open_capture_source(path);
    EXPECT_TRUE(source) << path;
    for (;;) {
      auto frame = (*source)->next();
      EXPECT_TRUE(frame);
      if (!frame || !*frame) return out;
      TestFrame f;
      f.bytes.assign((*frame)->bytes.begin(), (*frame)->bytes.end());
      f.at = (*frame)->at;
      f.scheduled = (*frame)->scheduled;
      f.direction = (*frame)->direction;
      out.frames.push_back(std::move(f));
    }
  }

  std::vector<uint8_t> file() const {
    std::vector<uint8_t> out;
    append_pcapng_section(out, "test");
    uint32_t interfaces = 1;
    for (const TestFrame& f : frames) interfaces = std::max(interfaces, f.interface + 1);
    for (uint32_t i = 0; i < interfaces; ++i) {
      append_pcapng_interface(out, "port" + std::to_string(i), 0, {});
    }
    for (const TestFrame& f : frames) {
      const auto kept = std::span(f.bytes).first(f.bytes.size() - f.cut);
      CapturedFrame frame{f.direction, f.at, f.scheduled, kept,
                          static_cast<uint32_t>(f.bytes.size())};
      if (own) {
        append_pcapng_packet(out, f.interface, {}, frame, f.changes);
      } else {
        append_foreign_packet(out, frame);
      }
    }
    if (statistics) append_pcapng_statistics(out, 0, {}, Time::zero(), {frames.size(), 0, drops});
    return out;
  }

  /// Writes the capture to a temporary file and judges it.
  Analysis judge(const AnalysisOptions& options = {}) const { return judge_bytes(file(), options); }
  static Analysis judge_bytes(const std::vector<uint8_t>& bytes,
                              const AnalysisOptions& options = {}) {
    const std::string path = (std::filesystem::temp_directory_path() /
                              ("roce_check_" + std::to_string(::getpid()) + "_test.pcapng"))
                                 .string();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    auto analysis = analyse(path, options);
    std::filesystem::remove(path);
    EXPECT_TRUE(analysis) << (analysis ? "" : analysis.error().text);
    return analysis ? std::move(*analysis) : Analysis{};
  }

  /// Index of the n-th frame (from 0) that fits.
  size_t find(const std::function<bool(const RoceView&)>& fits, size_t n = 0) const {
    for (size_t i = 0; i < frames.size(); ++i) {
      if (frames[i].is_rc() && fits(frames[i].roce()) && n-- == 0) return i;
    }
    ADD_FAILURE() << "no such frame";
    return 0;
  }
  size_t find(Opcode opcode, size_t n = 0) const {
    return find([&](const RoceView& r) { return r.opcode == static_cast<uint8_t>(opcode); }, n);
  }
  void erase(size_t index) { frames.erase(frames.begin() + static_cast<std::ptrdiff_t>(index)); }

  std::vector<TestFrame> frames;
  uint64_t drops = 0;
  bool statistics = true;  ///< false: the file does not say what it lacks
  bool own = true;         ///< false: as others write it, without directions and times of the run

 private:
  /// Our block without its options: they stand behind the padded frame.
  static void append_foreign_packet(std::vector<uint8_t>& out, const CapturedFrame& frame) {
    std::vector<uint8_t> block;
    append_pcapng_packet(block, 0, {}, frame);
    const size_t options = 28 + (frame.bytes.size() + 3) / 4 * 4;
    block.resize(options + 4);
    for (size_t i = 0; i < 4; ++i) {
      block[4 + i] = block[options + i] = static_cast<uint8_t>(block.size() >> (8 * i));
    }
    out.insert(out.end(), block.begin(), block.end());
  }
};

inline std::string all_examples(const Analysis& analysis) {
  std::string out;
  for (size_t i = 0; i < kChecks; ++i) {
    for (const Finding& finding : analysis.findings.examples(static_cast<Check>(i))) {
      out += std::string(check_info(static_cast<Check>(i)).name) + ": " + finding.line() + "\n";
    }
  }
  return out;
}

inline void expect_holds(const Analysis& analysis) {
  EXPECT_TRUE(analysis.findings.hold()) << all_examples(analysis);
}
inline void expect_fails(const Analysis& analysis, Check check) {
  EXPECT_EQ(analysis.findings.verdict(check), Verdict::kFails) << check_info(check).name << '\n'
                                                               << all_examples(analysis);
}

}  // namespace understudy
