#include "ctrl/jobs/operations/operation_source.h"

#include <algorithm>

#include "collective_model/predict/time_model.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr size_t kNoticeRing = 1 << 16;
constexpr size_t kKept = 8;  ///< finished operations
/// Messages, credits and acknowledgements of operations that are not settled: of a guess all that
/// it has, else what can come before it is known.
constexpr size_t kInputs = 1 << 18, kInputsOfSure = 1 << 14;

}  // namespace

OperationSource::OperationSource(const Config& config, const JobConfig& job,
                                 const Topology* topology, const CollectiveJob& told, bool guesses)
    : maker_(config, job, topology, told, !guesses),
      told_(told),
      guesses_(guesses),
      config_(config),
      job_(job),
      work_(config, job, maker_.communicator().gpus) {}

OnlineEmulatedRanks::Settings OperationSource::settings() const {
  OnlineEmulatedRanks::Settings settings;
  const Communicator& communicator = maker_.communicator();
  for (uint32_t rank = 0; rank < communicator.ranks(); ++rank) {
    const Duration late = work_.late(rank) - work_.late(told_.real.front());
    settings.delay.push_back(std::max(late, Duration()));
  }
  for (const CollectiveConnection& link : told_.links) {
    const NodeConfig& node = config_.nodes[job_.ranks[link.real / communicator.gpus]];
    // What the largest message of every channel takes.
    const uint64_t bytes = uint64_t{link.slot_bytes} * communicator.channels;
    const Duration wire = node.nics[link.real_nic].link_rate.time_for(bytes + bytes / 16);
    settings.wait.push_back(link.latency * 2 + wire * 2);
  }
  settings.inputs = guesses_ ? kInputs : kInputsOfSure;
  return settings;
}

Duration OperationSource::patience() const {
  Duration latest;
  for (uint32_t rank = 0; rank < told_.ranks(); ++rank) {
    latest = std::max(latest, work_.late(rank));
  }
  return Duration::s(1) + latest;
}

void OperationSource::attach(OnlineEmulatedRanks& ranks, ShardControl* control) {
  ranks_ = &ranks;
  control_ = control;
  if (control != nullptr) noticed_ = std::make_unique<SpscRing<Noticed>>(kNoticeRing);
}

bool OperationSource::on_notice(Time now, const OnlineNotice& notice) {
  if (!wants(notice.kind)) return true;
  if (control_ == nullptr) {
    answer(now, notice);
    return true;
  }
  if (noticed_->push({now, notice})) return true;
  overrun_.store(true, std::memory_order_relaxed);
  return false;
}

void OperationSource::poll(Time now) {
  for (Noticed noticed; noticed_->pop(noticed);) answer(noticed.now, noticed.notice);
  if (overrun_.load(std::memory_order_relaxed) && !lost()) {
    lose(now, "more came than could be looked at in real time");
  }
  flush();
}

void OperationSource::answer(Time now, const OnlineNotice& notice) {
  switch (notice.kind) {
    case OnlineNotice::Kind::kReleased:
      return keep(notice.operation);
    case OnlineNotice::Kind::kFinished:
      if (notice.number < report_.operations.size()) {
        InferredReport& report = report_.operations[notice.number];
        report.late = notice.operation->late;
        report.late_messages = notice.operation->late_messages;
        report.wrong_sizes = notice.operation->wrong_sizes;
      }
      break;
    case OnlineNotice::Kind::kDisagrees: {
      const CollectiveConnection& link = told_.links[notice.link];
      const std::string what = notice.credit ? "a credit" : "a message";
      lose(now, "operation " + std::to_string(notice.number) + " was told to be " +
                    report_.operations[notice.number].operation + ", but on channel " +
                    std::to_string(link.channel) + " rank " + std::to_string(link.real) +
                    (notice.credit ? " gave " : " sent ") + "rank " + std::to_string(link.far) +
                    " " + what + " of " + std::to_string(notice.bytes) + " bytes where " +
                    std::to_string(notice.expected) + " are due");
      return;
    }
    case OnlineNotice::Kind::kOverfull:
      lose(now, "an operation has more messages than can be kept until it is known");
      return;
    default:
      break;
  }
  if (!lost()) handle(now, notice);
}

void OperationSource::command(Time now, const OnlineCommand& command) {
  if (control_ == nullptr) return ranks_->carry_out(now, command);
  backlog_.push_back(command);
}

void OperationSource::flush() {
  if (backlog_.empty()) return;
  bool any = false;
  while (!backlog_.empty() && ranks_->commands().push(backlog_.front())) {
    backlog_.pop_front();
    any = true;
  }
  if (any) control_->wake(*ranks_, OnlineEmulatedRanks::kCommands);
}

/// Operations repeat, and plans of many ranks take milliseconds to make.
Result<std::unique_ptr<OnlineOperation>> OperationSource::take(const Kernel& kernel) {
  const auto at =
      std::ranges::find_if(finished_, [&](const Made& m) { return same(m.kernel, kernel); });
  if (at == finished_.end()) return maker_.make(kernel);
  std::unique_ptr<OnlineOperation> made = std::move(at->made);
  finished_.erase(at);
  made->reset();
  return made;
}

void OperationSource::keep(OnlineOperation* released) {
  const auto at = owned_.find(released);
  if (released->finished) finished_.push_back(std::move(at->second));
  if (finished_.size() > kKept) finished_.pop_front();
  owned_.erase(at);
}

Result<void> OperationSource::install(Time now, const Kernel& kernel, bool sure) {
  auto made = TRY(take(kernel));
  OnlineOperation* handed = made.get();
  handed->number = concluded();
  handed->sure = sure;
  handed->delay.clear();
  for (uint32_t rank = 0; rank < told_.ranks(); ++rank) {
    handed->delay.push_back(work_.delay(concluded(), rank));
  }
  last_ = kernel;
  last_shape_ = handed->shape.get();
  owned_[handed] = {kernel, std::move(made)};
  if (sure) conclude({});
  command(now, {.kind = OnlineCommand::Kind::kInstall, .operation = handed});
  return {};
}

void OperationSource::conclude(const Belief& belief) {
  InferredReport report;
  report.operation = text_of(last_);
  report.unique = belief.confidence == 1;
  report.confidence = belief.confidence;
  report.explanations.reset();
  if (belief.explanations != SizeSet::kUnbounded) report.explanations = belief.explanations;
  if (belief.other) report.other = text_of(*belief.other);
  if (job_.listed) {
    report.right = right(*last_shape_, concluded());
  } else {
    const auto kind =
        std::ranges::find_if(kinds_, [&](const Kernel& known) { return same(known, last_); });
    kind_of_.push_back(static_cast<uint32_t>(kind - kinds_.begin()));
    if (kind == kinds_.end()) kinds_.push_back(last_);
  }
  report_.operations.push_back(std::move(report));
}

FoundKind OperationSource::describe(const Kernel& kernel) const {
  const Operation& first = kernel.front();
  uint64_t bytes = 0;
  for (const Operation& operation : kernel) bytes += operation.bytes();
  return {.text = text_of(kernel),
          .bytes = bytes,
          .type = std::string(name_of(kDataTypeNames, first.type)),
          .element = element_bytes(first.type),
          .bus_factor = bus_factor(first.collective, told_.ranks())};
}

/// It has the messages of the operation that the client plays.
bool OperationSource::right(const CollectiveShape& shape, uint64_t number) const {
  if (number >= told_.operations.size()) return false;
  for (uint32_t l = 0; l < told_.links.size(); ++l) {
    const CollectiveShape::Use& use = shape.uses[l];
    const uint64_t messages = told_.messages(number, l);
    if (messages != use.messages) return false;
    const RankSchedule& real = *shape.real[told_.real_index[told_.links[l].real]];
    for (uint64_t k = 0; k < messages; ++k) {
      if (told_.message(number, l, k).wire != real.message(use.real, k).wire) return false;
    }
  }
  return true;
}

void OperationSource::lose(Time now, const std::string& why) {
  if (lost()) return;
  report_.lost = why;
  command(now, {.kind = OnlineCommand::Kind::kGiveUp});
}

}  // namespace understudy
