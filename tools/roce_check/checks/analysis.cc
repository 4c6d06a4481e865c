#include "tools/roce_check/checks/analysis.h"

#include <utility>

#include "tools/roce_check/checks/collective_check.h"
#include "tools/roce_check/checks/configured_headers.h"
#include "tools/roce_check/checks/congestion_check.h"
#include "tools/roce_check/checks/follower.h"
#include "tools/roce_check/checks/rate_check.h"
#include "tools/roce_check/packets/packet_reader.h"

namespace understudy {
namespace {

void check_completeness(const SourceSummary& source, const PacketTable& table, Findings& findings) {
  findings.examined(Rule::kComplete);
  if (source.truncated) {
    findings.add(Rule::kComplete, {}, "the file ends inside a packet");
  }
  if (source.cut_frames != 0) {
    findings.add(Rule::kComplete, {},
                 std::to_string(source.cut_frames) + " frames were cut by a snap length");
  }
  if (source.drops != 0) {
    findings.add(Rule::kComplete, {},
                 std::to_string(source.drops) + " frames were dropped by the capture");
  }
  if (!source.has_drop_counts && source.has_run_times) {
    findings.add(Rule::kComplete, {}, "no statistics block: the capture was not closed");
  }
  if (table.counts.roce == 0) findings.add(Rule::kComplete, {}, "no RoCEv2 packet");
}

/// Where packets are lost behind the capture, the last DREQ of a program that ends has no DREP.
ReadOptions read_options(const AnalysisOptions& options) {
  return {options.open_end || options.partial || options.impaired, options.impaired};
}

}  // namespace

struct Analyser::Parts {
  explicit Parts(const AnalysisOptions& o)
      : options(o),
        reader(read_options(options), analysis.table, analysis.findings),
        congestion(analysis.table, {o.cnp_interval, o.without_cnps, o.config}, analysis.findings),
        follower(options, analysis) {
    if (o.config != nullptr) headers.emplace(*o.config, analysis);
  }

  /// The capture lacks nothing: it says so at its end, which may be known before it is read.
  bool complete(const SourceSummary& source, bool over) const {
    const bool counted = source.has_drop_counts || (!over && source.foretold_drops == 0u);
    return counted && !source.whole_from && source.drops == 0 && !source.truncated &&
           source.cut_frames == 0 && !options.partial;
  }

  const AnalysisOptions options;
  Analysis analysis;
  PacketReader reader;
  CongestionCheck congestion;
  Follower follower;
  std::optional<ConfiguredHeaders> headers;
  bool judged_as_complete = false;
};

Analyser::Analyser(const AnalysisOptions& options) : parts_(std::make_unique<Parts>(options)) {}
Analyser::~Analyser() = default;

void Analyser::frame(const SourceFrame& frame, const SourceSummary& summary) {
  Parts& p = *parts_;
  if (summary.whole_from) p.analysis.findings.set_whole_from(*summary.whole_from);
  p.reader.frame(frame);
  const PacketTable& table = p.analysis.table;
  const size_t fresh = table.packets.size() - table.newest + table.cnps.size();
  if (fresh >= p.options.part && !p.options.keeps_all()) settle(summary);
}

void Analyser::settle(const SourceSummary& summary) {
  Parts& p = *parts_;
  if (p.options.keeps_all()) return;
  p.analysis.source = summary;
  const bool complete = p.complete(summary, false);
  p.judged_as_complete |= complete;
  p.follower.set_complete(complete);
  p.reader.settle();
  p.congestion.add();
  if (p.headers) p.headers->add();
  p.follower.follow(false);
  p.reader.forget();
  if (p.analysis.table.packets.size() > p.options.most_held_back) {
    p.follower.follow(true);
    p.reader.forget();
  }
}

const Findings& Analyser::findings() const { return parts_->analysis.findings; }
const PacketCounts& Analyser::counts() const { return parts_->analysis.table.counts; }
size_t Analyser::connections() const { return parts_->follower.connections(); }

Analysis Analyser::finish(const SourceSummary& summary) {
  Parts& p = *parts_;
  const AnalysisOptions& options = p.options;
  Analysis& out = p.analysis;
  out.source = summary;
  const bool complete = p.complete(summary, true);
  p.follower.set_complete(complete);
  p.reader.settle();
  p.reader.finish();
  p.follower.finish();
  p.congestion.add();
  p.congestion.finish();
  check_completeness(out.source, out.table, out.findings);
  if (p.judged_as_complete && !complete) {
    out.findings.note(Check::kComplete,
                      "that frames were dropped became known in mid-capture: what was found before "
                      "may be missing packets");
  }
  if (p.headers) {
    p.headers->add();
    p.headers->finish();
  }
  if (options.config != nullptr && options.endless) {
    out.findings.note(Check::kRate,
                      "not judged: it looks at all packets at once; record to a file");
  } else if (options.config != nullptr) {
    check_rates(*options.config, out);
    if (options.partial) {
      out.findings.note(Check::kCollective,
                        "not judged: a part of the traffic has not all messages");
    } else {
      check_collectives(*options.config, options.open_end, out);
    }
  }
  out.findings.settle(p.follower.gapless() && !options.partial);
  if (options.partial) out.findings.excuse(Rule::kComplete);
  return std::move(out);
}

Result<Analysis> analyse(CaptureSource& source, const AnalysisOptions& options) {
  Analyser analyser(options);
  for (;;) {
    auto frame = source.next();
    if (!frame) return tl::unexpected(frame.error());
    if (!*frame) return analyser.finish(source.summary());
    analyser.frame(**frame, source.summary());
  }
}

Result<Analysis> analyse(const std::string& path, const AnalysisOptions& options) {
  auto source = open_capture_source(path);
  if (!source) return tl::unexpected(source.error());
  return analyse(**source, options);
}

}  // namespace understudy
