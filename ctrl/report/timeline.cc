#include "ctrl/report/timeline.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "ctrl/report/inference_doubt.h"
#include "ctrl/report/run_report.h"
#include "ctrl/report/text.h"
#include "dataplane/base/output_file.h"

namespace understudy {
namespace {

using Json = nlohmann::ordered_json;

/// One operation after the other, as they were measured.
TimelineTrack operations(const JobReport& job) {
  TimelineTrack track{"job " + job.name, job.collective, {}};
  // Where each of them was found out.
  const bool inferred = job.inferred && !job.inferred->fed &&
                        job.inferred->operations.size() == job.collectives.size();
  for (size_t i = 0; i < job.collectives.size(); ++i) {
    const CollectiveReport& c = job.collectives[i];
    track.slices.push_back({c.entry,
                            c.measured,
                            size_text(c.bytes) + (c.warmup ? ", warm-up" : ""),
                            {{"bytes", c.bytes},
                             {"modelled_ps", static_cast<uint64_t>(c.modelled.ps())},
                             {"late_ps", static_cast<uint64_t>(c.lateness.ps())}}});
    if (!inferred) continue;
    const InferredReport& found = job.inferred->operations[i];
    TimelineSlice& slice = track.slices.back();
    slice.name += ", " + certainty_text(found);
    slice.numbers.push_back({"confidence_percent", static_cast<uint64_t>(found.confidence * 100)});
  }
  return track;
}

class Writer {
 public:
  explicit Writer(ReplacedFile& file) : file_(file) {
    file_.write("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
  }
  ~Writer() { file_.write("\n]}\n"); }

  /// Tracks are numbered from 1 on.
  void track(const TimelineTrack& track) {
    const auto [group, fresh] = groups_.try_emplace(track.group, groups_.size() + 1);
    if (fresh) name("process_name", group->second, 0, track.group);
    const size_t thread = ++threads_;
    name("thread_name", group->second, thread, track.name);
    for (const TimelineSlice& slice : track.slices) {
      Json event = {{"ph", "X"},
                    {"pid", group->second},
                    {"tid", thread},
                    {"ts", (slice.from - Time::zero()).microseconds()},
                    {"dur", slice.length.microseconds()},
                    {"name", slice.name}};
      for (const auto& [key, value] : slice.numbers) event["args"][key] = value;
      add(event);
    }
  }

  /// Between slices of tracks that have been written.
  void arrow(const std::vector<TimelineTrack>& tracks, const TimelineArrow& arrow, size_t number) {
    const auto end = [&](const char* kind, uint32_t track, uint32_t slice) {
      const TimelineTrack& known = tracks[track];
      // Each end is bound to the slice that is there then: the one that begins then, of two that meet.
      Json event = {
          {"ph", kind},         {"pid", groups_.at(known.group)},
          {"tid", track + 1},   {"ts", (known.slices[slice].from - Time::zero()).microseconds()},
          {"id", number},       {"cat", "waits"},
          {"name", "waits for"}};
      if (*kind == 'f') event["bp"] = "e";
      add(event);
    };
    end("s", arrow.from_track, arrow.from_slice);
    end("f", arrow.to_track, arrow.to_slice);
  }

 private:
  void name(const char* what, size_t process, size_t thread, const std::string& text) {
    add({{"ph", "M"},
         {"pid", process},
         {"tid", thread},
         {"name", what},
         {"args", {{"name", text}}}});
  }
  void add(const Json& event) {
    file_.write(first_ ? "\n" : ",\n");
    file_.write(event.dump(-1, ' ', false, Json::error_handler_t::replace));
    first_ = false;
  }

  ReplacedFile& file_;
  std::map<std::string, size_t> groups_;
  size_t threads_ = 0;
  bool first_ = true;
};

template <typename Write>
Result<void> write_with(const std::string& path, Write write) {
  auto file = ReplacedFile::create(path);
  if (!file) return fail("timeline " + file.error().text);
  {
    Writer writer(*file);
    write(writer);
  }
  if (auto written = file->commit(); !written) return fail("timeline " + written.error().text);
  return {};
}

}  // namespace

void append(TimelineTrack& track, Time from, Time to, std::string name,
            std::vector<std::pair<const char*, uint64_t>> numbers) {
  if (!track.slices.empty()) {
    const TimelineSlice& last = track.slices.back();
    from = std::max(from, last.from + last.length);
  }
  if (to > from) track.slices.push_back({from, to - from, std::move(name), std::move(numbers)});
}

Result<void> write_timeline(const RunReport& report, const std::string& path) {
  return write_with(path, [&](Writer& writer) {
    for (const JobReport& job : report.jobs) writer.track(operations(job));
    for (const TimelineTrack& track : report.timeline) writer.track(track);
  });
}

Result<void> write_timeline(const std::vector<TimelineTrack>& tracks,
                            const std::vector<TimelineArrow>& arrows, const std::string& path) {
  return write_with(path, [&](Writer& writer) {
    for (const TimelineTrack& track : tracks) writer.track(track);
    size_t number = 0;
    for (const TimelineArrow& arrow : arrows) writer.arrow(tracks, arrow, ++number);
  });
}

}  // namespace understudy
