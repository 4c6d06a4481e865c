#include "ctrl/traces/trace_output.h"

#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "ctrl/traces/et_write.h"
#include "ctrl/traces/feeder_json_write.h"
#include "dataplane/base/output_file.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

Result<std::string> file_text(const TraceGraph& graph, TraceFormat format, uint64_t more) {
  if (format == TraceFormat::kEt) return write_et(graph, more);
  std::ostringstream text;
  write_feeder_json(graph, text, more);
  return std::move(text).str();
}

}  // namespace

std::string groups_json(const TraceJob& job) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [number, ranks] : job.groups) json[std::to_string(number)] = ranks;
  return json.dump() + "\n";
}

Result<std::string> write_traces(const TraceJob& job, TraceFormat format,
                                 const std::string& prefix) {
  const TraceGraph* last = nullptr;
  std::string text;
  return write_traces(job, format, prefix, [&](size_t rank) -> Result<std::string> {
    // Ranks that do the same often stand side by side.
    if (job.ranks[rank].get() != last || job.id_step > 0) {
      text = TRY(file_text(*job.ranks[rank], format, rank * job.id_step));
      last = job.ranks[rank].get();
    }
    return text;
  });
}

Result<std::string> write_traces(const TraceJob& job, TraceFormat format, const std::string& prefix,
                                 const std::function<Result<std::string>(size_t rank)>& text) {
  const char* const end = format == TraceFormat::kEt ? ".et" : ".json";
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const std::string path = prefix + "." + std::to_string(rank) + end;
    const auto made = text(rank);
    if (!made) return fail(path + ": " + made.error().text);
    TRY(replace_file(path, *made));
  }
  const size_t ranks = job.ranks.size();
  std::string said =
      ranks == 1 ? prefix + ".0" + end
                 : prefix + ".0" + end + " to " + prefix + "." + std::to_string(ranks - 1) + end;
  if (!job.groups.empty()) {
    TRY(replace_file(prefix + ".groups.json", groups_json(job)));
    said += ", groups in " + prefix + ".groups.json";
  }
  return said;
}

}  // namespace understudy
