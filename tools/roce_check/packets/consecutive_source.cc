#include "tools/roce_check/packets/consecutive_source.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// Frames of several receive queues come this far out of order.
constexpr Duration kDisorder = Duration::ms(1);
/// As far as times of one capture may be apart, and what counts as a calendar's.
constexpr int64_t kFarthestApart = 4'000'000;  // seconds
constexpr int64_t kLastSecond = int64_t{1} << 40;

int64_t seconds_between(int64_t from, int64_t to) {
  const auto known = [](int64_t s) { return std::clamp(s, -kLastSecond, kLastSecond); };
  return std::clamp<int64_t>(known(to) - known(from), -kFarthestApart, kFarthestApart);
}

struct Part {
  std::string path;
  bool empty = false;
  bool run_times = false;
  int64_t second = 0;  ///< that its times count from
  Time first;
  std::optional<uint64_t> foretold_drops;
};

Result<Part> look_at(const std::string& path) {
  auto source = TRY(open_capture_source(path));
  const auto frame = TRY(source->next());
  const SourceSummary& summary = source->summary();
  Part out{path, !frame, summary.has_run_times, summary.first_second, {}, summary.foretold_drops};
  if (frame) out.first = frame->at;
  return out;
}

class ConsecutiveSource final : public CaptureSource {
 public:
  explicit ConsecutiveSource(std::vector<Part> parts) : parts_(std::move(parts)) {
    summary_.foretold_drops = 0;
    for (const Part& part : parts_) {
      if (!part.foretold_drops) summary_.foretold_drops.reset();
      if (summary_.foretold_drops) *summary_.foretold_drops += *part.foretold_drops;
    }
    summary_.first_second = parts_.front().second;
  }

  Result<std::optional<SourceFrame>> next() override {
    for (;;) {
      if (source_ == nullptr) {
        if (at_ == parts_.size()) {
          summary_.has_drop_counts = all_count_;
          return std::nullopt;
        }
        source_ = TRY(open_capture_source(parts_[at_].path));
        begins_ = true;
      }
      auto frame = TRY(source_->next());
      if (frame) return placed(*frame);
      end_file();
    }
  }

 private:
  Result<std::optional<SourceFrame>> placed(SourceFrame frame) {
    const SourceSummary& own = source_->summary();
    frame.number = ++summary_.frames;
    frame.at = frame.at + Duration::s(seconds_between(summary_.first_second, own.first_second));
    frame.at = std::clamp(frame.at, Time::zero() - Duration::s(kFarthestApart),
                          Time::zero() + Duration::s(kFarthestApart));
    if (begins_ && at_ != 0 && frame.at + kDisorder < last_) {
      return fail(parts_[at_].path + " begins before " + parts_[at_ - 1].path +
                  " ends: they are not files of one capture that follow each other");
    }
    begins_ = false;
    last_ = std::max(last_, frame.at);
    summary_.cut_frames = cut_before_ + own.cut_frames;
    summary_.drops = drops_before_ + own.drops;
    summary_.has_run_times = own.has_run_times;
    return frame;
  }

  void end_file() {
    const SourceSummary& own = source_->summary();
    if (summary_.format.empty()) summary_.format = own.format;
    if (summary_.format != own.format) summary_.format = "mixed";
    for (const std::string& name : own.interfaces) {
      auto& names = summary_.interfaces;
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    summary_.truncated |= own.truncated;
    summary_.cut_frames = cut_before_ += own.cut_frames;
    summary_.drops = drops_before_ += own.drops;
    all_count_ = all_count_ && own.has_drop_counts;
    summary_.files.push_back({parts_[at_].path, summary_.frames - own.frames, own.frames});
    source_.reset();
    ++at_;
  }

  const std::vector<Part> parts_;
  size_t at_ = 0;
  std::unique_ptr<CaptureSource> source_;  ///< the file of `at_`
  bool begins_ = false;
  bool all_count_ = true;
  Time last_;
  uint64_t cut_before_ = 0, drops_before_ = 0;
};

}  // namespace

Result<std::unique_ptr<CaptureSource>> open_consecutive(const std::vector<std::string>& paths) {
  std::vector<Part> parts;
  parts.reserve(paths.size());
  for (const std::string& path : paths) parts.push_back(TRY(look_at(path)));
  // One that has no frames yet, as a program that has just begun it leaves it, stands at the end.
  std::ranges::stable_sort(
      parts, {}, [](const Part& part) { return std::tuple(part.empty, part.second, part.first); });
  for (const Part& part : parts) {
    if (part.empty || part.run_times == parts.front().run_times) continue;
    return fail(part.path + " and " + parts.front().path +
                ": one has the times of a run, the other those of a calendar");
  }
  return std::make_unique<ConsecutiveSource>(std::move(parts));
}

}  // namespace understudy
