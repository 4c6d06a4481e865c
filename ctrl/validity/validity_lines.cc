#include "ctrl/validity/validity_lines.h"

#include <algorithm>

#include "dataplane/base/assert.h"

namespace understudy {
namespace {

/// Most jobs that a line names.
constexpr size_t kMostNames = 4;

std::string names_text(const std::vector<std::string>& jobs) {
  std::string text = " (job ";
  for (size_t i = 0; i < std::min(jobs.size(), kMostNames); ++i) {
    text.append(i == 0 ? "" : ", ").append(jobs[i]);
  }
  if (jobs.size() > kMostNames) {
    text += " and " + std::to_string(jobs.size() - kMostNames) + " more";
  }
  return text + ")";
}

}  // namespace

void ValidityLines::add(std::string_view id, std::string text, const std::string& job) {
  auto entry = std::ranges::find_if(
      entries_, [&](const Entry& known) { return known.id == id && known.text == text; });
  if (entry == entries_.end()) {
    entries_.push_back({id, std::move(text), {}});
    entry = std::prev(entries_.end());
  }
  if (!job.empty() && std::ranges::find(entry->jobs, job) == entry->jobs.end()) {
    entry->jobs.push_back(job);
  }
}

void ValidityLines::add(const std::vector<ValidityLine>& lines, const std::string& job) {
  for (const ValidityLine& line : lines) add(line.id, line.text, job);
}

std::vector<ValidityLine> ValidityLines::take(size_t jobs) const {
  std::vector<ValidityLine> lines;
  for (const auto& [id, kind] : kValidityIds) {
    for (const Entry& entry : entries_) {
      if (entry.id != id) continue;
      const bool all = entry.jobs.empty() || entry.jobs.size() == jobs;
      lines.push_back({kind, id, entry.text + (all ? "" : names_text(entry.jobs))});
    }
  }
  ASSERT_INVARIANT(lines.size() == entries_.size());  // every id is known
  return lines;
}

}  // namespace understudy
