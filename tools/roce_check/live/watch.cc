#include "tools/roce_check/live/watch.h"

#include <algorithm>
#include <set>
#include <utility>

#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

class Lines {
 public:
  Lines(Time begin, const WatchOptions& options) : options_(options), last_(begin) {}

  void say(Time now, const Analyser& analyser, const SourceSummary& summary) {
    if (!options_.say) return;
    const Findings& findings = analyser.findings();
    uint64_t violations = 0, notes = 0;
    for (size_t i = 0; i < kChecks; ++i) {
      violations += findings.count(static_cast<Check>(i));
      notes += findings.remark_count(static_cast<Check>(i));
    }
    const uint64_t packets = analyser.counts().roce;
    const double seconds = (now - last_).seconds();
    const double rate = seconds > 0 ? static_cast<double>(packets - packets_) / seconds : 0;
    options_.say(format_text(
        "%10.3f s  %llu packets, %.0f/s; %zu connections; violations %llu, suspicions %llu, "
        "notes %llu; dropped %llu",
        now.seconds(), static_cast<unsigned long long>(packets), rate, analyser.connections(),
        static_cast<unsigned long long>(violations),
        static_cast<unsigned long long>(findings.suspicions()),
        static_cast<unsigned long long>(notes), static_cast<unsigned long long>(summary.drops)));
    last_ = now;
    packets_ = packets;
    for (size_t i = 0; i < kChecks; ++i) show_new(findings.examples(static_cast<Check>(i)));
  }

 private:
  void show_new(const std::vector<Finding>& examples) {
    for (const Finding& finding : examples) {
      if (shown_.insert(finding.line()).second) options_.say("    ! " + finding.line());
    }
  }

  const WatchOptions& options_;
  Time last_;
  uint64_t packets_ = 0;
  std::set<std::string> shown_;  ///< not more than the findings keep
};

}  // namespace

Watched watch(LiveCapture& capture, AnalysisOptions options, const WatchOptions& watch) {
  options.open_end = true;
  options.endless = true;
  Watched out;
  Analyser analyser(options);
  const auto taker = [&](const SourceFrame& f) { analyser.frame(f, capture.summary()); };
  const Time begin = capture.now();
  const Time end = begin + std::min(watch.duration, kLongestWatch);
  Time next = begin + watch.interval;
  Lines lines(begin, watch);
  while (watch.signal == nullptr || *watch.signal == 0) {
    const Time now = capture.now();
    if (now >= next) {
      analyser.settle(capture.summary());
      lines.say(now, analyser, capture.summary());
      while (next <= now) next = next + watch.interval;
    }
    if (now >= end) break;
    if (auto taken = capture.take(std::min(next, end) - now, taker); !taken) {
      out.broken = taken.error().text;
      break;
    }
  }
  capture.take_rest(taker);
  out.analysis = analyser.finish(capture.summary());
  return out;
}

}  // namespace understudy
