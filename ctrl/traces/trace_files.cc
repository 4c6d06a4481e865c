#include "ctrl/traces/trace_files.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <utility>

#include "ctrl/traces/et_file.h"
#include "ctrl/traces/feeder_json.h"
#include "ctrl/traces/goal/goal.h"
#include "ctrl/traces/text_workload.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// A file that is no text has a zero byte near its beginning, as every length of 128 bytes or more
/// and every name has a control character before it.
bool is_text(const std::string& bytes) {
  constexpr size_t kLooked = 256;
  for (const char c : bytes.substr(0, kLooked)) {
    if (static_cast<unsigned char>(c) < ' ' && c != '\t' && c != '\n' && c != '\r') return false;
  }
  return true;
}

Result<TraceGraph> graph_of(const std::string& bytes, const std::string& path, uint32_t passes) {
  if (ends_with(path, ".json")) return read_feeder_json(bytes, path);
  if (ends_with(path, ".et") || !is_text(bytes)) {
    return read_et({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, path);
  }
  return read_text_workload(bytes, path, passes);
}

/// Reads files of ranks; equal ones once.
class EqualFiles {
 public:
  Result<std::shared_ptr<const TraceGraph>> graph(const std::string& path) {
    const std::string bytes = TRY(read_whole_file(path));
    auto& alike = read_[std::hash<std::string>()(bytes)];
    for (const auto& [other, graph] : alike) {
      if (TRY(read_whole_file(other)) == bytes) return graph;
    }
    auto made = std::make_shared<const TraceGraph>(TRY(graph_of(bytes, path, 1)));
    alike.emplace_back(path, made);
    return std::shared_ptr<const TraceGraph>(made);
  }

 private:
  using Read = std::pair<std::string, std::shared_ptr<const TraceGraph>>;
  std::map<size_t, std::vector<Read>> read_;
};

std::string rank_path(const std::string& prefix, uint32_t rank, const char* end) {
  return prefix + "." + std::to_string(rank) + end;
}

Result<TraceJob> read_ranks(const std::string& prefix, const char* end,
                            const TraceFilesOptions& options) {
  namespace fs = std::filesystem;
  TraceJob job;
  EqualFiles files;
  const auto path = [&](uint32_t rank) { return rank_path(prefix, rank, end); };
  const auto there = [&](uint32_t rank) { return fs::exists(path(rank)); };
  uint32_t ranks = options.ranks.value_or(0);
  if (!options.ranks) {
    while (there(ranks)) ++ranks;
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (!there(rank)) {
      return fail(path(rank) + ": there is no such file, and the network has " +
                  std::to_string(ranks) + " ranks");
    }
    job.ranks.push_back(TRY(files.graph(path(rank))));
  }
  if (there(ranks)) {
    return fail(path(ranks) + ": the network has " + std::to_string(ranks) +
                " ranks, and there is a file of one more");
  }
  return job;
}

/// A schedule has all ranks in one file.
Result<TraceJob> read_schedule(const std::string& bytes, const std::string& path,
                               const TraceFilesOptions& options) {
  auto job = goal_traces(TRY(read_goal(bytes, path)));
  if (!job) return fail(path + ": " + job.error().text);
  if (options.ranks && *options.ranks != job->ranks.size()) {
    return fail(path + ": the network has " + std::to_string(*options.ranks) +
                " ranks, and the schedule " + std::to_string(job->ranks.size()));
  }
  return job;
}

}  // namespace

Result<std::string> read_whole_file(const std::string& path) {
  if (std::filesystem::is_directory(path)) return fail(path + ": this is a folder");
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return fail(path + ": cannot be read");
  return std::move(text).str();
}

Result<TraceJob> read_traces(const std::string& trace, const TraceFilesOptions& options) {
  namespace fs = std::filesystem;
  if (!fs::is_regular_file(trace)) {
    for (const char* end : {".et", ".json"}) {
      if (fs::exists(rank_path(trace, 0, end))) return read_ranks(trace, end, options);
    }
    return fail(trace + ": there is no such file, no " + rank_path(trace, 0, ".et") + " and no " +
                rank_path(trace, 0, ".json"));
  }
  const std::string bytes = TRY(read_whole_file(trace));
  if (bytes.empty()) return fail(trace + ": the file is empty");
  if (looks_like_goal(bytes)) return read_schedule(bytes, trace, options);
  const auto graph =
      std::make_shared<const TraceGraph>(TRY(graph_of(bytes, trace, options.passes)));
  TraceJob job;
  job.ranks.assign(options.ranks.value_or(1), graph);
  const bool from_text = !ends_with(trace, ".json") && !ends_with(trace, ".et") && is_text(bytes);
  if (from_text) job.id_step = graph->nodes().size();
  return job;
}

}  // namespace understudy
