#include "ctrl/jobs/nccl/mistakes.h"

#include <utility>

#include "ctrl/jobs/job_watch.h"

namespace understudy {
namespace {

constexpr Duration kLookEvery = Duration::ms(500);
/// A communicator is made in less where nothing is wrong; a program that has not begun may take
/// longer.
constexpr Duration kStill = Duration::s(5);
constexpr unsigned kMostWaits = 3;  // of one communicator

std::string odd_text(const CollectiveSetup& setup, const OddMessage& odd) {
  const CollectiveConnection& link = setup.job.links[odd.link];
  return operation_text(setup, odd.operation) + ": a message of rank " + std::to_string(link.real) +
         " to rank " + std::to_string(link.far) + " has " + std::to_string(odd.bytes) +
         " bytes, of the job's schedule " + std::to_string(odd.expected) +
         ": real ranks carry out other operations, sizes, algorithms, protocols or channels than "
         "the [[job]] lists (or release: nccl)";
}

std::string goes_on_text(const CollectiveSetup& setup, uint32_t link) {
  return "all " + std::to_string(setup.operations.size()) +
         " operations of the job are done, and rank " + std::to_string(setup.job.links[link].real) +
         " begins another one, which nobody answers: give the [[job]] as many sizes, iterations "
         "and "
         "warmup, or operations = \"fed\"";
}

}  // namespace

std::string left_early_text(const CollectiveSetup& setup, const CollectiveProgress& progress,
                            const std::string& who) {
  const size_t all = setup.operations.size(), done = progress.finished;
  if (done >= all) return {};
  const std::string count = std::to_string(done) + " of " + std::to_string(all) + " operations";
  if (progress.entered <= done) {
    return "the real ranks have left the communicator after " + count +
           ": they have ended early, or do fewer than the [[job]] lists";
  }
  return who + " has gone in the middle of " + operation_text(setup, done) +
         ": its process has ended, or has aborted the communicator (ncclCommAbort); " + count +
         " were done";
}

std::string left_inside_text(const CollectiveProgress& progress, const InferenceReport& found,
                             const std::string& who) {
  const size_t done = progress.finished;
  if (progress.entered <= done || !found.lost.empty()) return {};
  std::string text = who + " has gone in the middle of operation " + std::to_string(done + 1);
  if (done < found.operations.size()) text += " (" + found.operations[done].operation + ")";
  return text +
         ": its process has ended, or has aborted the communicator (ncclCommAbort); "
         "operations before it were done";
}

std::string rank_text(const Config& config, const JobConfig& job, const CollectiveSetup& setup,
                      uint32_t rank) {
  return "rank " + std::to_string(rank) + " (" +
         config.nodes[job.ranks[setup.communicator.node_of(rank)]].name + ")";
}

std::string missing_text(const Config& config, const JobConfig& job, const CollectiveSetup& setup,
                         uint32_t link) {
  const CollectiveConnection& l = setup.job.links[link];
  return rank_text(config, job, setup, l.real) + " has no connection " +
         (l.real_sends ? "to " : "from ") + "rank " + std::to_string(l.far) + " on channel " +
         std::to_string(l.channel) + ", which " + operation_text(setup, 0) +
         " uses, and has others that it uses: are its channels (channels = " +
         std::to_string(job.channels) + ") and its algorithm those of the [[job]]?";
}

std::string unplanned_text(const CollectiveSetup& setup) {
  return "messages go over connections that the operations of the job do not use (" +
         operation_text(setup, 0) +
         "): real ranks carry out another algorithm or another collective. They are answered at "
         "once, and not timed";
}

std::vector<std::string> NcclMistakes::look(Time now, const CollectiveSetup& setup,
                                            const CollectiveProgress& progress,
                                            const Waiting& waiting) {
  std::vector<std::string> lines;
  const bool told = !setup.operations.empty();
  if (!odd_ && told && progress.has_odd.load(std::memory_order_acquire)) {
    odd_ = true;
    lines.push_back(odd_text(setup, progress.odd));
  }
  const uint32_t goes_on = progress.goes_on.load(std::memory_order_relaxed);
  if (!goes_on_ && goes_on != 0 && progress.finished == setup.operations.size()) {
    goes_on_ = true;
    lines.push_back(goes_on_text(setup, goes_on - 1));
  }
  if (waits_ < kMostWaits && now >= next_look_) look_at_waiting(now, waiting, lines);
  return lines;
}

void NcclMistakes::look_at_waiting(Time now, const Waiting& waiting,
                                   std::vector<std::string>& lines) {
  next_look_ = now + kLookEvery;
  std::vector<std::string> all = waiting();
  if (all != waited_for_) {
    waited_for_ = std::move(all);
    said_ = false;
    waited_since_ = now;
  }
  if (waited_for_.empty() || said_ || now - waited_since_ < kStill) return;
  said_ = true;
  ++waits_;
  const size_t more = waited_for_.size() - 1;
  lines.push_back("nothing has changed for 5 s: " + waited_for_.front() +
                  (more == 0 ? "" : "; and " + std::to_string(more) + " more (understudy status)"));
}

}  // namespace understudy
