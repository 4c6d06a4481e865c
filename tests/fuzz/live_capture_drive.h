// roce-check on an interface on which anything passes: any frames, cut or not, in batches of any
// size, while the capture drops some, and ends by itself or not.
#pragma once

#include <string>
#include <utility>

#include "tests/fuzz/captured_packets.h"
#include "tests/fuzz/input.h"
#include "tools/roce_check/live/watch.h"
#include "tools/roce_check/output/report.h"

namespace understudy {

class InputCapture final : public LiveCapture {
 public:
  explicit InputCapture(FuzzInput& input) : input_(input) {
    summary_.format = "live";
    summary_.interfaces = {"fuzz0"};
    summary_.has_drop_counts = true;
    summary_.whole_from = Time::zero() + kSettlingIn;
  }
  Time now() const override { return now_; }

  Result<void> take(Duration patience, const Taker& taker) override {
    if (input_.done()) {
      now_ = now_ + patience;
      return {};
    }
    const uint8_t how = input_.byte();
    now_ = now_ + patience * (how & 3) / 3;
    if (how == 0xff) return fail("fuzz0: it went away");
    summary_.drops += how >> 2 & 1;
    for (int i = how >> 3 & 7; i > 0 && !input_.done(); --i) hand_over(taker);
    return {};
  }
  void take_rest(const Taker& taker) override {
    if (!input_.done()) hand_over(taker);
  }

 private:
  void hand_over(const Taker& taker) {
    const uint8_t how = input_.byte();
    std::vector<uint8_t> frame;
    if (const auto in = input_.take(kBytesOfPacket); how % 4 == 0 || in.size() < kBytesOfPacket) {
      frame.assign(in.begin(), in.end());
    } else {
      frame = packet_of(in.first<kBytesOfPacket>());
    }
    const size_t whole = frame.size();
    if (how % 4 == 1) frame.resize(whole - std::min<size_t>(whole, how >> 2));
    summary_.cut_frames += frame.size() < whole ? 1 : 0;
    SourceFrame out;
    out.number = ++summary_.frames;
    out.at = now_ + Duration::us(how >> 4);
    out.bytes = frame;
    out.original_bytes = static_cast<uint32_t>(whole);
    taker(out);
  }

  FuzzInput& input_;
  Time now_;
};

/// Counts of what it has judged.
inline PacketCounts drive_live_capture(std::span<const uint8_t> bytes) {
  FuzzInput input(bytes);
  AnalysisOptions options;
  options.partial = (input.byte() & 1) != 0;
  options.part = size_t{1} << input.byte() % 8;
  options.most_held_back = size_t{1} << input.byte() % 8;
  WatchOptions watching;
  watching.interval = Duration::ms(100);
  watching.duration = Duration::s(4);
  uint64_t said = 0;
  watching.say = [&](const std::string& line) {
    must(!line.empty());
    said += line.starts_with("    ! ") ? 1 : 0;
  };
  InputCapture capture(input);
  const Watched watched = watch(capture, options, watching);
  const Analysis& analysis = watched.analysis;
  must(analysis.source.frames == capture.summary().frames);
  // What was said while it went on is counted at the end, but for what a part of a capture excuses.
  uint64_t counted = 0;
  for (size_t i = 0; i < kChecks; ++i) counted += analysis.findings.count(static_cast<Check>(i));
  must(options.partial || said <= counted);
  must(!report_text(analysis, "fuzz0").empty());
  (void)report_json(analysis, "fuzz0");
  return analysis.table.counts;
}

}  // namespace understudy
