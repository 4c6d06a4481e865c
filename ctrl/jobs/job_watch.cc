#include "ctrl/jobs/job_watch.h"

#include <algorithm>

#include "ctrl/jobs/operations/operation_maker.h"
#include "ctrl/report/inference_doubt.h"

namespace understudy {
namespace {

/// Longer than any operation or retry of a queue pair that works.
constexpr Duration kStill = Duration::s(5);
constexpr unsigned kMostTimes = 3;
constexpr uint64_t kFewOperations = 3;  ///< say nothing of how fast others are

}  // namespace

std::string operation_text(const CollectiveSetup& setup, size_t operation) {
  return "operation " + std::to_string(operation + 1) + " of " +
         std::to_string(setup.operations.size()) + " (" +
         text_of(setup.kinds[setup.operations[operation].size]) + ")";
}

std::string wait_text(const CollectiveSetup& setup, const LinkWait& wait) {
  const CollectiveConnection& link = setup.job.links[wait.link];
  const std::string message =
      "message " + std::to_string(wait.message + 1) + " of " + std::to_string(wait.messages);
  const std::string far = "rank " + std::to_string(link.far);
  const std::string real = "rank " + std::to_string(link.real);
  switch (wait.what) {
    case LinkWait::What::kData:
      return far + " waits for " + message + " of " + real;
    case LinkWait::What::kCredit:
      return far + " waits for a credit of " + real + " for " + message;
    case LinkWait::What::kAcknowledgement:
      return far + " waits for the NIC of " + real + " to acknowledge " + message;
  }
  return "";
}

/// Operations that are not told may be others than the job lists, or more.
std::string JobWatch::operation_of(const Context& context, uint32_t operation) {
  if (context.found == nullptr) return operation_text(context.setup, operation);
  std::string number = "operation " + std::to_string(operation + 1);
  if (operation >= context.found->operations.size()) return number;
  return number + " (" + context.found->operations[operation].operation + ")";
}

std::vector<std::string> JobWatch::look(Time now, const Context& context,
                                        CollectiveProgress& progress, const Ask& ask) {
  std::vector<std::string> lines;
  const uint64_t moved = progress.moved.load(std::memory_order_relaxed);
  const uint32_t finished = progress.finished.load(std::memory_order_acquire);
  // How many operations there are is known where they are told.
  const bool told = context.found == nullptr;
  const bool over =
      told ? progress.over() || context.setup.operations.empty() : progress.failed.load();
  if (moved != moved_ || finished != finished_ || over || moved == 0) {
    moved_ = moved;
    if (finished != finished_ && context.run.real_time) look_at_pace(context, progress, lines);
    finished_ = finished;
    since_ = now;
    asked_ = false;
    standing_.clear();
    return lines;
  }
  if (!asked_ && now - since_ >= kStill) {
    asked_ = true;
    progress.has_standing.store(false, std::memory_order_relaxed);
    ask();
  }
  if (!asked_ || !standing_.empty() || !progress.has_standing.load(std::memory_order_acquire)) {
    return lines;
  }
  const StandingOperation& found = progress.standing;
  if (found.waits == 0) return lines;
  standing_ = operation_of(context, found.operation) + " does not go on";
  for (size_t i = 0; i < std::min<size_t>(found.waits, found.first.size()); ++i) {
    standing_ += (i == 0 ? ": " : "; ") + wait_text(context.setup, found.first[i]);
  }
  if (found.waits > found.first.size()) {
    standing_ += "; and " + std::to_string(found.waits - found.first.size()) + " more";
  }
  if (said_++ < kMostTimes) lines.push_back(standing_ + " (nothing has come for 5 s)");
  return lines;
}

void JobWatch::look_at_pace(const Context& context, const CollectiveProgress& progress,
                            std::vector<std::string>& lines) {
  if (!context.listed) return;  // times are modelled once the run is over
  const uint32_t finished = progress.finished.load(std::memory_order_acquire);
  for (uint32_t i = finished_; i < finished; ++i) {
    if (context.setup.operations[i].warmup) continue;
    const CollectiveResult& result = progress.results[i];
    CollectiveReport operation;
    operation.measured = result.end - result.entry;
    operation.modelled = context.state.modelled[i];
    operation.lateness = result.lateness;
    pace_.add(operation);
  }
  if (slow_ || pace_.operations < kFewOperations || !context.state.doubt.empty()) return;
  // Nor where nobody knows that the operations were those which were modelled.
  if (context.found != nullptr && !inference_doubt(*context.found).empty()) return;
  const std::string text = pace_text(pace_, context.run.others);
  if (text.empty()) return;
  slow_ = true;
  lines.push_back("the first " + std::to_string(pace_.operations) + " " + text);
}

}  // namespace understudy
