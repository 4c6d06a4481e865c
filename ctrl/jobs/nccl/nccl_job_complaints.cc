// What a job says of real ranks that do what they should not, or do not come.
#include "ctrl/jobs/nccl/nccl_job.h"

namespace understudy {
namespace {

constexpr Duration kLongWait = Duration::s(5);

}  // namespace

void NcclJob::look_for_identity() {
  if (waits_since_.is_never()) waits_since_ = now_;
  const std::vector<std::string> waiting = identity_.waiting();
  if (waiting.empty() || now_ - waits_since_ < kLongWait) return;
  const bool agents = job_.join->way == NcclJoinConfig::Way::kRendezvous;
  say_once(Once::kIdentity, "no real rank has joined for 5 s: " + waiting.front() +
                                (is_program(0) && !agents ? ", which the program of " + who(0) +
                                                                " tells: has it started, and "
                                                                "is it rank 0 there, too?"
                                                          : ""));
}

/// Of what real ranks should not do.
void NcclJob::complain() {
  const auto waiting = [&] {
    std::vector<std::string> lines = communicator_->waiting();
    std::erase_if(lines, [](const std::string& line) { return line.starts_with("nothing"); });
    if (const auto link = emulated().missing_link(); lines.empty() && link) {
      lines.push_back(missing_text(config_, job_, setup(), *link));
    }
    return lines;
  };
  for (const std::string& line : mistakes_.look(now_, setup(), emulated().progress(), waiting)) {
    say(line);
  }
  const NcclLinks::Unplanned beside = links_.unplanned();
  if (beside.own > 0 && job_.operations == OperationsMode::kTold) {
    say_once(Once::kUnplanned, unplanned_text(setup()));
  }
  runner_.answered(number_, answered());
  bool failed = beside.failed > 0;
  uint64_t violations = beside.violations, registered = beside.registered;
  for (const CollectiveProgress* progress : runner_.progress(number_)) {
    failed = failed || progress->failed;
    violations += progress->violations;
    registered += progress->registered;
  }
  if (failed) {
    say_once(Once::kFailed,
             std::string("a queue pair has failed: packets of its connection are not answered. ") +
                 kRoceAdvice);
  }
  if (violations > 0) {
    say_once(Once::kViolations,
             "a message of the real rank is none that the operations of the job allow; the report "
             "counts them");
  }
  if (registered > 0) {
    say_once(
        Once::kRegistered,
        "the real rank receives into registered user buffers (ncclCommRegister, or captured CUDA "
        "graphs): their messages are not those of the job's schedule; NCCL_LOCAL_REGISTER=0 and "
        "NCCL_GRAPH_REGISTER=0 on the real node turn that off");
  }
}

}  // namespace understudy
