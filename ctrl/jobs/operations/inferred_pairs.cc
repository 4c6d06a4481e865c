#include "ctrl/jobs/operations/inferred_pairs.h"

#include <algorithm>

#include "ctrl/compile/ways/nic_ways.h"
#include "ctrl/report/text.h"

namespace understudy {
namespace {

/// What real ranks of different nodes say to each other is not seen.
std::vector<PairConnection> connections_of(const CollectiveJob& told) {
  std::vector<PairConnection> all;
  for (const CollectiveConnection& link : told.links) {
    if (link.among_real()) continue;
    all.push_back({link.channel, link.real, link.far, !link.real_sends});
  }
  return all;
}

/// By link: its position in connections_of().
std::vector<uint32_t> places_of(const CollectiveJob& told) {
  std::vector<uint32_t> places;
  uint32_t next = 0;
  for (const CollectiveConnection& link : told.links) {
    places.push_back(next);
    next += link.among_real() ? 0 : 1;
  }
  return places;
}

}  // namespace

InferredPairs::InferredPairs(const Config& config, const JobConfig& job, const Topology* topology,
                             const CollectiveJob& told)
    : OperationSource(config, job, topology, told, true),
      inference_(maker_.communicator(), told.real, connections_of(told)),
      connections_(places_of(told)),
      real_(told.real.size()),
      give_up_after_(patience()) {
  const Communicator& communicator = maker_.communicator();
  for (const CollectiveConnection& link : told.links) {
    if (link.among_real()) continue;
    const NodeConfig& node = config.nodes[job.ranks[communicator.node_of(link.real)]];
    latency_ = std::max(latency_, link.latency * 2);
    rate_ = slower(rate_, node.nics[link.real_nic].link_rate);
    if (link.real_sends) round_bytes_ += link.slot_bytes;
  }
}

/// The longest pause of a real rank inside an operation, if it waits for nothing of ours: its NIC
/// sends on all connections in turn, a message comes after one of each other.
Duration InferredPairs::quiet() const {
  const uint64_t bytes = inference_.round_bytes().value_or(round_bytes_);
  return latency_ + rate_.time_for(bytes + bytes / 4);
}

void InferredPairs::handle(Time now, const OnlineNotice& notice) {
  switch (notice.kind) {
    case OnlineNotice::Kind::kCredit:
      inference_.on_credit(connections_[notice.link], notice.bytes);
      break;
    case OnlineNotice::Kind::kData:
      inference_.on_data(connections_[notice.link], notice.bytes);
      break;
    case OnlineNotice::Kind::kAcknowledged:
      inference_.on_acknowledged(connections_[notice.link]);
      break;
    case OnlineNotice::Kind::kWaited:
      if (notice.number != concluded() || guess_) return;
      waited_ = true;
      reconsider(now);
      if (!guess_) look_again(now);
      return;
    case OnlineNotice::Kind::kReminder:
      if (notice.number == real_.size()) {
        guess_reminded_ = false;
        return reconsider(now);
      }
      real_[notice.number].reminded = false;
      return look(now, static_cast<uint32_t>(notice.number));
    default:
      return;
  }
  last_ = now;
  const uint32_t real = told_.real_index[told_.links[notice.link].real];
  real_[real].last = now;
  real_[real].patience = Duration();
  remind(now, real);
  if (!guess_ || !inference_.explains(*guess_, connections_[notice.link])) explained_ = false;
  reconsider(now);
}

/// Looks at a real rank when it has been quiet for long.
void InferredPairs::remind(Time now, uint32_t real) {
  if (real_[real].reminded) return;
  real_[real].reminded = true;
  command(now, {.kind = OnlineCommand::Kind::kRemind,
                .number = real,
                .time = real_[real].last + std::max(quiet(), real_[real].patience)});
}

void InferredPairs::look(Time now, uint32_t real) {
  Real& r = real_[real];
  if (!guess_ && !waited_) return;  // it may wait for that
  const Duration quiet_for = now - r.last;
  if (quiet_for < std::max(quiet(), r.patience)) return remind(now, real);
  inference_.settle(told_.real[real]);
  const Duration patience = quiet_for * 2;
  reconsider(now);
  if (lost() || !inference_.waits(told_.real[real])) return;
  // What was guessed may wait for what the real ranks do not send.
  if (guess_ && !inference_.round_bytes()) {
    const auto taken = inference_.current();
    if (taken && !same(*taken, *guess_)) {
      if (guess(now, *taken)) inference_.expect(*taken, false);
      return;
    }
  }
  if (quiet_for >= give_up_after_) {
    return lose(now, "rank " + std::to_string(told_.real[real]) + " has waited for " +
                         duration_text(quiet_for) + " for what no send or receive explains");
  }
  real_[real].patience = patience;
  remind(now, real);
}

/// What followed the operation before when that was there last; else that again.
std::optional<Operation> InferredPairs::expected() const {
  if (before_.empty()) return std::nullopt;
  for (size_t i = before_.size() - 1; i-- > 0;) {
    const Operation& then = kinds_[before_[i + 1]];
    if (before_[i] == before_.back() && inference_.may_be(then)) return then;
  }
  const Operation& last = kinds_[before_.back()];
  if (inference_.may_be(last)) return last;
  return std::nullopt;
}

/// What comes is taken for what explains it, and the plan of that drives the emulated ranks.
void InferredPairs::reconsider(Time now) {
  for (PairInference::Found found; !lost() && inference_.next(found);) conclude_as(now, found);
  if (lost()) return;
  if (inference_.lost()) return lose(now, *inference_.lost());
  if (guess_ && explained_) return;
  const auto again = expected();
  if (!again && !guess_ && !waited_) return;
  if (!again && guess_ && now < next_guess_) {
    // Much may come at once, and plans of many ranks take milliseconds to make.
    if (guess_reminded_) return;
    guess_reminded_ = true;
    return command(
        now, {.kind = OnlineCommand::Kind::kRemind, .number = real_.size(), .time = next_guess_});
  }
  const auto taken = again ? again : inference_.current();
  if (!taken || !guess(now, *taken)) return;
  inference_.expect(*taken, again.has_value());
  // It may have come wholly by now.
  for (PairInference::Found found; !lost() && inference_.next(found);) conclude_as(now, found);
}

bool InferredPairs::guess(Time now, const Operation& operation) {
  guess_ = operation;
  explained_ = true;
  pause_ = std::max(latency_, pause_ * 2);
  next_guess_ = now + pause_;
  const auto installed = install(now, {operation}, false);
  if (!installed) lose(now, "no plan for " + text_of(operation) + ": " + installed.error().text);
  look_again(now);
  return installed.has_value();
}

/// Real ranks may have waited for what has changed now.
void InferredPairs::look_again(Time now) {
  for (uint32_t real = 0; real < real_.size(); ++real) {
    real_[real].last = std::max(real_[real].last, now);
    remind(now, real);
  }
}

/// An operation is over, and so is known as well as it ever will be.
void InferredPairs::conclude_as(Time now, const PairInference::Found& found) {
  if (!found.operation) return lose(now, "sends and receives of no size");
  if (!guess_ || !same(*guess_, *found.operation)) {
    if (!guess(now, *found.operation)) return;
  }
  auto kind = std::ranges::find_if(kinds_, [&](const Operation& o) { return same(o, *guess_); });
  if (kind == kinds_.end()) kind = kinds_.insert(kind, *guess_);
  before_.push_back(static_cast<uint32_t>(kind - kinds_.begin()));
  guess_.reset();
  waited_ = false;
  pause_ = Duration();
  conclude(Beliefs::judge(found));
  command(now, {.kind = OnlineCommand::Kind::kOver});
  look_again(now);
}

void InferredPairs::end() {
  inference_.finish();
  for (PairInference::Found found; !lost() && inference_.next(found);) conclude_as(last_, found);
}

}  // namespace understudy
