#include "collective_model/plan/symmetric_plan.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>
#include <utility>

#include "collective_model/plan/plan_check.h"
#include "dataplane/base/assert.h"
#include "dataplane/base/try.h"

namespace understudy {

Result<std::unique_ptr<Plan>> SymmetricPlan::make(const PlanInput& config) {
  if (config.real.empty()) return fail("plan: real: no rank is real");
  return checked(config);
}

Result<std::unique_ptr<Plan>> SymmetricPlan::make_ideal(PlanInput config) {
  config.real.clear();
  return checked(config);
}

Result<std::unique_ptr<Plan>> SymmetricPlan::checked(const PlanInput& config) {
  const auto fits = check_pair_plan_input(config, config.alike->ranks());
  if (!fits) return tl::unexpected(fits.error());
  return std::unique_ptr<Plan>(new SymmetricPlan(config));
}

SymmetricPlan::SymmetricPlan(const PlanInput& config)
    : all_(config.alike),
      hops_(config.pair_hops),
      wire_(config.wire),
      step_cost_(config.step_cost),
      entry_delay_(config.entry_delay),
      n_(all_->ranks()),
      ranks_(n_) {
  entry_delay_.resize(n_);
  for (const uint32_t rank : config.real) ranks_[rank].real = true;
  make_kinds();
  senders_.resize(size_t{n_} * sends_);
  receivers_.resize(size_t{n_} * receives_);
  times_.resize(n_ * kept_);
  to_see_.resize(n_ * lanes_.size());
  work_.reserve(to_see_.size());
  done_.reserve(n_);
  make_borders();
  SymmetricPlan::begin();
}

void SymmetricPlan::make_kinds() {
  const RankSchedule& schedule = all_->first();
  std::map<uint32_t, uint32_t> lane_of;  // by channel
  const auto place = [&](uint64_t times) {
    Place p{static_cast<uint32_t>(kept_), 0};
    if (times == 0) return p;
    p.mask = static_cast<uint32_t>(std::bit_ceil(times) - 1);
    kept_ += p.mask + 1;
    return p;
  };
  for (const Connection& c : schedule.connections()) {
    Kind kind;
    kind.sends = c.direction == Direction::kSend;
    kind.place = kind.sends ? sends_++ : receives_++;
    kind.window = c.window;
    kind.messages = c.messages;
    messages_ += c.messages;
    const auto [it, fresh] = lane_of.try_emplace(c.channel, static_cast<uint32_t>(lanes_.size()));
    if (fresh) lanes_.emplace_back();
    kind.lane = it->second;
    kind.bit = static_cast<uint32_t>(lanes_[kind.lane].size());
    lanes_[kind.lane].push_back(static_cast<uint32_t>(kinds_.size()));
    ASSERT_INVARIANT(lanes_[kind.lane].size() <= 64);  // a bit each
    kinds_.push_back(kind);
  }
  std::vector<bool> named(kinds_.size());
  for (uint32_t c = 0; c < kinds_.size(); ++c) {
    for (uint64_t k = 0; k < kinds_[c].messages; ++k) {
      for (const Wait& wait : schedule.waits(c, k)) {
        kinds_[wait.connection].waiting |= uint64_t{1} << kinds_[c].bit;
        named[wait.connection] = true;
      }
    }
  }
  for (uint32_t c = 0; c < kinds_.size(); ++c) {
    Kind& kind = kinds_[c];
    const uint64_t window = std::min<uint64_t>(kind.window, kind.messages);
    const uint64_t beyond = kind.messages - window;
    kind.times = place(named[c] ? kind.messages : window);
    if (!kind.sends) continue;
    kind.acked = place(std::min(window, beyond));
    kind.credits = place(std::min(window, beyond));
  }
}

void SymmetricPlan::make_borders() {
  uint64_t outputs = 0;
  for (uint32_t rank = 0; rank < n_; ++rank) {
    if (!ranks_[rank].real) continue;
    for (uint32_t c = 0; c < kinds_.size(); ++c) {
      const FarEnd far = all_->far(rank, c);
      if (ranks_[far.rank].real || kinds_[c].messages == 0) continue;
      borders_.push_back({far.rank, far.connection, 0});
      outputs += kinds_[c].window;
    }
  }
  std::ranges::sort(borders_, {}, [](const Border& b) { return std::pair(b.rank, b.connection); });
  outputs_.resize(outputs);
}

void SymmetricPlan::start(Time entry) {
  begin();
  for (uint32_t rank = 0; rank < n_; ++rank) {
    if (!ranks_[rank].real) enter(rank, entry + entry_delay_[rank]);
  }
}

void SymmetricPlan::begin() {
  size_t emulated = 0;
  outputs_.clear();
  std::ranges::fill(senders_, Sender{});
  std::ranges::fill(receivers_, Receiver{});
  for (Rank& r : ranks_) {
    r.entry = Time::never();
    r.left = messages_;
    if (!r.real) ++emulated;
  }
  done_.begin(emulated);
  for (Border& b : borders_) b.taken = 0;
}

void SymmetricPlan::enter(uint32_t rank, Time entry) {
  Rank& r = ranks_[rank];
  DEBUG_ASSERT_INVARIANT(!r.real && r.entry.is_never());
  r.last = r.entry = entry;
  if (r.left == 0) {
    done_.add(rank);
  }
  for (uint32_t c = 0; c < kinds_.size(); ++c) {
    const Kind& kind = kinds_[c];
    if (kind.sends) {
      Sender& s = sender(rank, c);
      s.last = s.wire_free = entry;
      continue;
    }
    receiver(rank, c).last = entry;
    const FarEnd far = all_->far(rank, c);
    if (!ranks_[far.rank].real) {
      send(far.rank, far.connection);
      continue;
    }
    const uint64_t first = std::min<uint64_t>(kind.window, kind.messages);
    for (uint64_t k = 0; k < first; ++k) emit(rank, c, k, entry);
  }
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    const size_t all = lanes_[lane].size();
    wake(rank, lane, all == 64 ? ~uint64_t{0} : (uint64_t{1} << all) - 1);
  }
  settle();
}

SymmetricPlan::Border* SymmetricPlan::border(uint32_t rank, uint32_t connection) {
  const auto it =
      std::ranges::lower_bound(borders_, std::pair(rank, connection), {},
                               [](const Border& b) { return std::pair(b.rank, b.connection); });
  if (it == borders_.end() || it->rank != rank || it->connection != connection) return nullptr;
  return &*it;
}

bool SymmetricPlan::on_real_data(uint32_t rank, uint32_t connection, uint64_t k, Time t) {
  const Border* b = border(rank, connection);
  if (b == nullptr || kinds_[connection].sends || k != receiver(rank, connection).arrived ||
      k >= kinds_[connection].messages || k >= b->taken) {
    return false;
  }
  arrive(rank, connection, t + step_cost_);
  settle();
  return true;
}

bool SymmetricPlan::on_acknowledged(uint32_t rank, uint32_t connection, uint64_t k, Time t) {
  const Border* b = border(rank, connection);
  const Kind& kind = kinds_[connection];
  if (b == nullptr || !kind.sends) return false;
  Sender& s = sender(rank, connection);
  if (k < s.acked || k >= b->taken) return false;
  while (s.acked <= k) {
    if (s.acked + kind.window < kind.messages) at(rank, kind.acked, s.acked) = t;
    ++s.acked;
  }
  wake(rank, kind.lane, uint64_t{1} << kind.bit);
  settle();
  return true;
}

bool SymmetricPlan::next(PlanOutput& out) {
  if (outputs_.empty()) return false;
  const Output& o = outputs_.front();
  Border& b = borders_[o.border];
  const auto kind =
      kinds_[b.connection].sends ? PlanOutput::Kind::kData : PlanOutput::Kind::kCredit;
  out = {kind, b.rank, b.connection, o.message, o.time};
  ++b.taken;
  outputs_.pop();
  return true;
}

void SymmetricPlan::emit(uint32_t rank, uint32_t c, uint64_t k, Time t) {
  DEBUG_ASSERT_INVARIANT(border(rank, c) != nullptr);
  outputs_.push({static_cast<uint32_t>(border(rank, c) - borders_.data()), k, t});
}

void SymmetricPlan::wake(uint32_t rank, uint32_t lane, uint64_t bits) {
  if (bits == 0 || ranks_[rank].entry.is_never()) return;
  const size_t group = rank * lanes_.size() + lane;
  if (to_see_[group] == 0) work_.push_back(static_cast<uint32_t>(group));
  to_see_[group] |= bits;
}

void SymmetricPlan::settle() {
  while (!work_.empty()) {
    const uint32_t group = work_.back();
    const auto rank = static_cast<uint32_t>(group / lanes_.size());
    const std::vector<uint32_t>& lane = lanes_[group % lanes_.size()];
    // What a lane sets free in itself is seen before others go on; its place is last meanwhile.
    work_.pop_back();
    while (to_see_[group] != 0) {
      const uint32_t c = lane[static_cast<size_t>(std::countr_zero(to_see_[group]))];
      Time t;
      if (ready(rank, c, t)) {
        done(rank, c, t);
      } else {
        to_see_[group] &= ~(uint64_t{1} << kinds_[c].bit);
      }
    }
  }
}

/// Whether it is known when the connection can be done with its next message.
bool SymmetricPlan::ready(uint32_t rank, uint32_t c, Time& t) {
  const Kind& kind = kinds_[c];
  uint64_t k;
  if (kind.sends) {
    const Sender& s = sender(rank, c);
    k = s.done;
    t = s.last;
    if (k == kind.messages) return false;
    if (k >= kind.window) {
      if (s.acked <= k - kind.window) return false;
      t = std::max(t, at(rank, kind.acked, k - kind.window));
    }
  } else {
    const Receiver& r = receiver(rank, c);
    k = r.done;
    if (r.arrived <= k) return false;
    t = std::max(r.last, at(rank, kind.times, k));
  }
  for (const Wait& wait : all_->first().waits(c, k)) {
    const Kind& other = kinds_[wait.connection];
    const uint64_t known =
        other.sends ? sender(rank, wait.connection).done : receiver(rank, wait.connection).arrived;
    if (known <= wait.message) return false;
    t = std::max(t, at(rank, other.times, wait.message));
  }
  return true;
}

void SymmetricPlan::done(uint32_t rank, uint32_t c, Time t) {
  const Kind& kind = kinds_[c];
  Rank& own = ranks_[rank];
  DEBUG_ASSERT_INVARIANT(own.left > 0 && !own.entry.is_never());
  own.last = std::max(own.last, t);
  if (--own.left == 0) {
    done_.add(rank);
  }
  const FarEnd far = all_->far(rank, c);
  const bool real = ranks_[far.rank].real;
  if (kind.sends) {
    Sender& s = sender(rank, c);
    const uint64_t k = s.done++;
    s.last = t;
    at(rank, kind.times, k) = t;
    to_see_[rank * lanes_.size() + kind.lane] |= kind.waiting;
    if (real) return emit(rank, c, k, t);
    return send(rank, c);
  }
  Receiver& r = receiver(rank, c);
  const uint64_t k = r.done++;
  r.last = t;
  if (k + kind.window >= kind.messages) return;
  if (real) return emit(rank, c, k + kind.window, t);
  Sender& s = sender(far.rank, far.connection);
  at(far.rank, kinds_[far.connection].credits, s.credits++) =
      t + hops_->hop(far.rank, rank).credit_latency();
  send(far.rank, far.connection);
}

/// All whose start is known now: between emulated ranks the acknowledgement is known with it.
void SymmetricPlan::send(uint32_t rank, uint32_t c) {
  const Kind& kind = kinds_[c];
  Sender& s = sender(rank, c);
  const FarEnd far = all_->far(rank, c);
  const Time entry = ranks_[far.rank].entry;
  const auto known = [&] {
    return s.sent < kind.window ? !entry.is_never() : s.sent - kind.window < s.credits;
  };
  if (s.sent == s.done || !known()) return;
  const Hop hop = hops_->hop(rank, far.rank);
  for (; s.sent < s.done && known(); ++s.sent) {
    const uint64_t k = s.sent;
    const Time credit =
        k < kind.window ? entry + hop.credit_latency() : at(rank, kind.credits, k - kind.window);
    const uint32_t size = all_->first().message(c, k).wire;
    s.wire_free =
        std::max({at(rank, kind.times, k), s.wire_free, credit}) + hop.time_for(wire_, size);
    if (k + kind.window < kind.messages) at(rank, kind.acked, k) = s.wire_free + hop.round_trip();
    ++s.acked;
    arrive(far.rank, far.connection, s.wire_free + hop.latency + step_cost_);
  }
  wake(rank, kind.lane, uint64_t{1} << kind.bit);
}

void SymmetricPlan::arrive(uint32_t rank, uint32_t c, Time t) {
  const Kind& kind = kinds_[c];
  at(rank, kind.times, receiver(rank, c).arrived++) = t;
  wake(rank, kind.lane, kind.waiting | uint64_t{1} << kind.bit);
}

}  // namespace understudy
