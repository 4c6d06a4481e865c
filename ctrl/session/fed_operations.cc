#include "ctrl/session/fed_operations.h"

#include <algorithm>
#include <cstdio>

#include "collective_model/channel_cut.h"
#include "ctrl/report/text.h"

namespace understudy {
namespace {

// What a reminder is for; its number is the operation's, twice, and this.
constexpr uint64_t kPiece = 0, kPatience = 1;
/// Operations that the shard has at a time: plans of many ranks are large.
constexpr size_t kAhead = 8;
static_assert(kAhead < ReactiveEnvironment::kMost);

std::string hash_text(uint64_t communicator) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(communicator));
  return text;
}

}  // namespace

FedOperations::FedOperations(const Config& config, const JobConfig& job, const Topology* topology,
                             const CollectiveJob& told)
    : OperationSource(config, job, topology, told, false),
      settings_(job.feed),
      ranks_(told.real.size()) {
  report_.fed = true;
}

bool FedOperations::wants(ReactiveNotice::Kind kind) const {
  return kind != ReactiveNotice::Kind::kCredit && kind != ReactiveNotice::Kind::kData &&
         kind != ReactiveNotice::Kind::kSent && kind != ReactiveNotice::Kind::kWaited;
}

void FedOperations::follow(std::vector<std::vector<uint8_t>> pieces) {
  pieces_.emplace(std::make_move_iterator(pieces.begin()), std::make_move_iterator(pieces.end()));
}

void FedOperations::handle(Time now, const ReactiveNotice& notice) {
  const auto remind = [&](Time time, uint64_t what) {
    command(now, {.kind = ReactiveCommand::Kind::kRemind,
                  .number = notice.number << 1 | what,
                  .time = time});
  };
  switch (notice.kind) {
    case ReactiveNotice::Kind::kBegan:
      if (notice.number < concluded()) return;  // it is on its way
      unknown_ = notice.number;
      if (pieces_) remind(notice.entry + settings_.delay, kPiece);
      remind(now + settings_.patience, kPatience);
      return hand_over(now);
    case ReactiveNotice::Kind::kReminder:
      if (unknown_ != notice.number >> 1) return;
      if ((notice.number & 1) == kPiece) return take_piece(now);
      return lose(now, "the feed has told nothing of operation " + std::to_string(*unknown_) +
                           " for " + duration_text(settings_.patience));
    case ReactiveNotice::Kind::kFinished:
      return hand_over(now);
    default:
      return;
  }
}

void FedOperations::take_piece(Time now) {
  if (pieces_->empty()) return closed(now, decoder_.in_record() ? "it ends inside a record" : "");
  std::vector<FedOperation> operations;
  const bool good = decoder_.take(pieces_->front(), operations);
  pieces_->pop_front();
  if (decoder_.dropped() > 0) missing(now, decoder_.dropped());
  for (const FedOperation& operation : operations) fed(now, operation);
  if (!good) closed(now, decoder_.error());
  if (unknown_ && pieces_->empty()) closed(now, "");
}

void FedOperations::fed(Time now, const FedOperation& fed) {
  if (lost()) return;
  if (const std::string what = wrong(fed); !what.empty()) return lose(now, what);
  hand_over(now);
}

/// Takes what a rank tells; what is wrong with it, if something is.
std::string FedOperations::wrong(const FedOperation& fed) {
  const Operation& o = fed.operation;
  const std::string rank_text = "rank " + std::to_string(fed.rank);
  if (!communicator_) communicator_ = fed.communicator;
  if (*communicator_ != fed.communicator) {
    return "the feed speaks of communicator " + hash_text(fed.communicator) + ", the job's is " +
           hash_text(*communicator_);
  }
  const auto real = std::ranges::find(told_.real, fed.rank);
  if (real == told_.real.end()) return "the feed speaks of " + rank_text + ", which is not real";
  if (o.collective == Collective::kSendRecv) {
    return "the feed tells that " + rank_text + (fed.sends ? " sends to" : " receives from") +
           " rank " + std::to_string(fed.peer) + ": it can drive collectives only";
  }
  Rank& rank = ranks_[static_cast<size_t>(real - told_.real.begin())];
  const auto [last, first] = rank.sequences.try_emplace(o.collective, fed.sequence);
  if (!first && fed.sequence != last->second + 1) {
    return "the feed has a gap: " + rank_text + " tells " +
           std::string(name_of(kCollectiveNames, o.collective)) + " " +
           std::to_string(fed.sequence) + " after " + std::to_string(last->second);
  }
  last->second = fed.sequence;
  const uint64_t number = rank.told++;
  if (number < first_ + told_operations_.size()) {
    const Operation& before = told_operations_[number - first_];
    if (same(before, o)) return "";
    return "the feed contradicts itself: operation " + std::to_string(number) + " is " +
           text_of(o) + " to " + rank_text + ", and was " + text_of(before);
  }
  told_operations_.push_back(o);
  return "";
}

void FedOperations::missing(Time now, uint64_t records) {
  lose(now,
       "the feed lacks " + std::to_string(records) + (records == 1 ? " operation" : " operations"));
}

void FedOperations::closed(Time now, const std::string& failure) {
  if (!failure.empty()) return lose(now, failure);
  if (!ended_) ended_ = "the feed ended";
  hand_over(now);
}

/// What the operation was limited to, that it uses as many channels as were told.
uint32_t FedOperations::channels_for(const Operation& operation) const {
  Operation o = operation;
  for (; o.channels <= maker_.communicator().channels; ++o.channels) {
    const auto cut = cut_group(maker_.communicator(), {&o, 1});
    if (cut && (*cut)[0].parts.size() == operation.channels) return o.channels;
  }
  return operation.channels;
}

/// Makes the plans of what was told, as far as the shard takes them.
void FedOperations::hand_over(Time now) {
  while (!lost() && concluded() < first_ + told_operations_.size() && held() < kAhead) {
    const uint64_t number = concluded();
    Operation operation = told_operations_[number - first_];
    operation.channels = channels_for(operation);
    if (unknown_ == number) unknown_.reset();
    if (auto made = install(now, operation, true); !made) {
      return lose(now, "the feed tells " + text_of(operation) +
                           ", which the job cannot do: " + made.error().text);
    }
  }
  uint64_t known = concluded();
  for (const Rank& rank : ranks_) known = std::min(known, rank.told);
  for (; first_ < known; ++first_) told_operations_.pop_front();
  if (!lost() && ended_ && unknown_) {
    lose(now, *ended_ + " after " + std::to_string(concluded()) + " operations");
  }
}

}  // namespace understudy
