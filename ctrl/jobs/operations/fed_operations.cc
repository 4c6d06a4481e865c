#include "ctrl/jobs/operations/fed_operations.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "collective_model/nccl/channel_cut.h"
#include "ctrl/report/text.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

// What a reminder is for; its number is the operation's, twice, and this.
constexpr uint64_t kPiece = 0, kPatience = 1;
/// Operations that the shard has at a time: plans of many ranks are large.
constexpr size_t kAhead = 8;
static_assert(kAhead < OnlineEmulatedRanks::kMost);
// More than that is not kept: a feed comes from another host.
constexpr size_t kMostCollectives = 256;  ///< in a group
constexpr size_t kMostKernels = 1 << 16;  ///< told before they begin

std::string hash_text(uint64_t communicator) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(communicator));
  return text;
}

std::string unknown_text(uint64_t records) {
  if (records == 0) return "";
  return "; " + std::to_string(records) +
         " records were of communicators that emulated ranks are not in";
}

}  // namespace

FedOperations::FedOperations(const Config& config, const JobConfig& job, const Topology* topology,
                             const CollectiveJob& told)
    : OperationSource(config, job, topology, told, false),
      settings_(job.feed),
      ranks_(told.real.size()) {
  report_.fed = true;
}

bool FedOperations::wants(OnlineNotice::Kind kind) const {
  switch (kind) {
    case OnlineNotice::Kind::kCredit:
    case OnlineNotice::Kind::kData:
    case OnlineNotice::Kind::kSent:
    case OnlineNotice::Kind::kAcknowledged:
    case OnlineNotice::Kind::kWaited:
      return false;
    default:
      return true;
  }
}

void FedOperations::follow(std::vector<std::vector<uint8_t>> pieces) {
  pieces_.emplace(std::make_move_iterator(pieces.begin()), std::make_move_iterator(pieces.end()));
}

void FedOperations::handle(Time now, const OnlineNotice& notice) {
  const auto remind = [&](Time time, uint64_t what) {
    command(
        now,
        {.kind = OnlineCommand::Kind::kRemind, .number = notice.number << 1 | what, .time = time});
  };
  switch (notice.kind) {
    case OnlineNotice::Kind::kBegan:
      if (notice.number < concluded()) return;  // it is on its way
      unknown_ = notice.number;
      if (follower().pieces_) remind(notice.entry + settings_.delay, kPiece);
      remind(now + settings_.patience, kPatience);
      return hand_over(now);
    case OnlineNotice::Kind::kReminder:
      if (unknown_ != notice.number >> 1) return;
      if ((notice.number & 1) == kPiece) return follower().take_piece(now);
      return lose(now,
                  (*unknown_ < first_ + told_kernels_.size()
                       ? "the feed has told operation " + std::to_string(*unknown_) +
                             " of some real ranks only"
                       : "the feed has told nothing of operation " + std::to_string(*unknown_)) +
                      " for " + duration_text(settings_.patience) + unknown_text(unknown_records_));
    case OnlineNotice::Kind::kFinished:
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
  taken_ = pieces_->empty();
  hand_over(now);
}

/// Hands it on, or counts it.
bool FedOperations::is_for_others(Time now, const FedOperation& fed) {
  if (!routes_.find) return false;
  const FedRoute route = routes_.find(fed.communicator);
  if (route.to == FedRoute::To::kSelf) return false;
  if (route.to == FedRoute::To::kUnknown) {
    if (pieces_) return false;  // a record of another run has other numbers
    ++unknown_records_;
    return true;
  }
  if (route.other != nullptr) {
    route.other->take(now, fed);
  } else if (route.answered) {
    ++report_.beside;
  }
  return true;
}

void FedOperations::fed(Time now, const FedOperation& fed) {
  if (!is_for_others(now, fed)) take(now, fed);
}

void FedOperations::take(Time now, const FedOperation& fed) {
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
  Rank& rank = ranks_[static_cast<size_t>(real - told_.real.begin())];
  if (!is_p2p(o.collective)) {
    const auto [last, first] = rank.sequences.try_emplace(o.collective, fed.sequence);
    if (!first && fed.sequence != last->second + 1) {
      return "the feed has a gap: " + rank_text + " tells " +
             std::string(name_of(kCollectiveNames, o.collective)) + " " +
             std::to_string(fed.sequence) + " after " + std::to_string(last->second);
    }
    last->second = fed.sequence;
  }
  if (!rank.group.empty() && rank.group.front().group != fed.group) {
    return "the feed has a gap: " + rank_text + " tells group " + std::to_string(fed.group) +
           " before the end of group " + std::to_string(rank.group.front().group);
  }
  if (rank.group.size() == kMostCollectives + 2 * size_t{maker_.communicator().ranks()}) {
    return "the feed tells more than " + std::to_string(rank.group.size()) + " operations of " +
           rank_text + " in one group";
  }
  rank.group.push_back(fed);
  if (!fed.last) return "";
  std::string what = wrong_group(rank);
  rank.group.clear();
  return what;
}

/// Takes a group that a rank has told wholly; what is wrong with it, if something is.
std::string FedOperations::wrong_group(Rank& rank) {
  const uint32_t teller = rank.group.front().rank;
  const std::string rank_text = "rank " + std::to_string(teller);
  Kernel collectives;
  RankPairs pairs{teller, {}, {}};
  for (const FedOperation& fed : rank.group) {
    if (!is_p2p(fed.operation.collective)) {
      collectives.push_back(fed.operation);
      continue;
    }
    auto& peers = fed.sends ? pairs.sends : pairs.receives;
    if (!peers.try_emplace(fed.peer, fed.operation.bytes()).second) {
      return "the feed tells that " + rank_text + (fed.sends ? " sends to" : " receives from") +
             " rank " + std::to_string(fed.peer) +
             " twice in a group, which is not known to follow";
    }
  }
  if (collectives.size() > kMostCollectives) {
    return "the feed tells more than " + std::to_string(kMostCollectives) + " collectives of " +
           rank_text + " in one group";
  }
  const bool sends = collectives.size() < rank.group.size();
  if (sends && !collectives.empty()) {
    return "the feed tells that " + rank_text +
           " has collectives, and sends or receives, in one group, which is not known to follow";
  }
  if (told_kernels_.size() == kMostKernels) {
    return "the feed tells more than " + std::to_string(kMostKernels) +
           " operations before they begin";
  }
  const uint64_t number = rank.told++;
  if (number == first_ + told_kernels_.size()) {
    if (end_) return "the feed tells a further operation after its end";
    told_kernels_.push_back({teller, std::move(collectives), {}});
    if (sends) told_kernels_.back().pairs.push_back(std::move(pairs));
    return "";
  }
  Told& before = told_kernels_[number - first_];
  if (sends && before.collectives.empty()) {
    before.pairs.push_back(std::move(pairs));
    return "";
  }
  if (!sends && same(before.collectives, collectives)) return "";
  const auto text = [](const Kernel& kernel) {
    return kernel.empty() ? "sends and receives" : text_of(kernel);
  };
  return "the feed contradicts itself: operation " + std::to_string(number) + " is " +
         text(collectives) + " to " + rank_text + ", and was " + text(before.collectives) +
         " to rank " + std::to_string(before.teller);
}

void FedOperations::missing(Time now, uint64_t records) {
  for (FedOperations* other : routes_.others ? routes_.others() : std::vector<FedOperations*>()) {
    other->missing(now, records);  // nobody knows whose they were
  }
  lose(now,
       "the feed lacks " + std::to_string(records) + (records == 1 ? " operation" : " operations"));
}

void FedOperations::closed(Time now, const std::string& failure) {
  for (FedOperations* other : routes_.others ? routes_.others() : std::vector<FedOperations*>()) {
    other->closed(now, failure);
  }
  if (!failure.empty()) return lose(now, failure);
  if (!ended_) ended_ = "the feed ended";
  hand_over(now);
}

/// What the operations were limited to, that they use as many channels as were told.
void FedOperations::limit_channels(Kernel& kernel) const {
  const Communicator& communicator = maker_.communicator();
  for (const Operation& operation : kernel) {
    if (!check_operation(communicator, operation)) return;  // install() says why
  }
  const auto as_told = [&](const Kernel& limited) {
    const auto cuts = cut_group(communicator, limited);
    if (!cuts) return false;
    for (size_t i = 0; i < kernel.size(); ++i) {
      if ((*cuts)[i].parts.size() != kernel[i].channels) return false;
    }
    return true;
  };
  if (as_told(kernel)) return;
  // Those of a group share the channels of the one that may use most.
  Kernel limited = kernel;
  for (uint32_t most = 1; most <= communicator.channels; ++most) {
    for (Operation& operation : limited) operation.channels = most;
    if (!as_told(limited)) continue;
    kernel = std::move(limited);
    return;
  }
}

Result<Kernel> FedOperations::kernel_of(const Told& told) const {
  if (told.collectives.empty()) {
    auto operation = TRY(pair_operation(maker_.communicator(), told.pairs));
    return Kernel{std::move(operation)};
  }
  Kernel kernel = told.collectives;
  limit_channels(kernel);
  return kernel;
}

/// Makes the plans of what was told, as far as the shard takes them.
void FedOperations::hand_over(Time now) {
  while (!lost() && concluded() < first_ + told_kernels_.size() && held() < kAhead) {
    const uint64_t number = concluded();
    const Told& told = told_kernels_[number - first_];
    if (told.collectives.empty() && told.pairs.size() < ranks_.size()) break;
    const auto kernel = kernel_of(told);
    if (!kernel) {
      return lose(now, "the feed tells sends and receives that do not fit together: " +
                           kernel.error().text);
    }
    if (unknown_ == number) unknown_.reset();
    if (auto made = install(now, *kernel, true); !made) {
      return lose(now, "the feed tells " + text_of(*kernel) +
                           ", which the job cannot do: " + made.error().text);
    }
  }
  uint64_t known = concluded();
  for (const Rank& rank : ranks_) known = std::min(known, rank.told);
  for (; first_ < known; ++first_) told_kernels_.pop_front();
  const bool all = concluded() == first_ + told_kernels_.size();
  if (!lost() && (ended_ || taken_) && all && !std::exchange(end_, true)) {
    command(now, {.kind = OnlineCommand::Kind::kEnd});
  }
  if (!lost() && ended_ && unknown_) {
    lose(now, *ended_ + " after " + std::to_string(concluded()) + " operations");
  }
}

}  // namespace understudy
