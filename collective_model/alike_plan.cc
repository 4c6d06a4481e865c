#include "collective_model/alike_plan.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace understudy {
namespace {

Result<void> check(const EnvironmentConfig& config) {
  const uint32_t n = config.alike->ranks();
  for (const uint32_t rank : config.real) {
    if (rank >= n)
      return fail("plan: real: rank " + std::to_string(rank) + " of " + std::to_string(n));
  }
  if (config.pair_hops == nullptr) return fail("plan: pair_hops: missing");
  if (!config.entry_delay.empty() && config.entry_delay.size() != n) {
    return fail("plan: entry_delay: " + std::to_string(config.entry_delay.size()) + " given for " +
                std::to_string(n) + " ranks");
  }
  if (config.wire.mtu == 0) return fail("plan: wire.mtu: must not be 0");
  return {};
}

}  // namespace

Result<std::unique_ptr<Plan>> AlikePlan::make(const EnvironmentConfig& config) {
  if (config.real.empty()) return fail("plan: real: no rank is real");
  if (auto fits = check(config); !fits) return tl::unexpected(fits.error());
  return std::unique_ptr<Plan>(new AlikePlan(config));
}

Result<std::unique_ptr<Plan>> AlikePlan::make_ideal(EnvironmentConfig config) {
  config.real.clear();
  if (auto fits = check(config); !fits) return tl::unexpected(fits.error());
  return std::unique_ptr<Plan>(new AlikePlan(config));
}

AlikePlan::AlikePlan(const EnvironmentConfig& config)
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
  begin();
}

void AlikePlan::make_kinds() {
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

void AlikePlan::make_borders() {
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
  outputs_.resize(std::max<uint64_t>(outputs, 1));
}

void AlikePlan::start(Time entry) {
  begin();
  for (uint32_t rank = 0; rank < n_; ++rank) {
    if (!ranks_[rank].real) enter(rank, entry + entry_delay_[rank]);
  }
}

void AlikePlan::begin() {
  unfinished_ = 0;
  done_.clear();
  done_taken_ = 0;
  output_head_ = output_count_ = 0;
  std::ranges::fill(senders_, Sender{});
  std::ranges::fill(receivers_, Receiver{});
  for (Rank& r : ranks_) {
    r.entry = Time::never();
    r.left = messages_;
    if (!r.real) ++unfinished_;
  }
  for (Border& b : borders_) b.taken = 0;
}

void AlikePlan::enter(uint32_t rank, Time entry) {
  Rank& r = ranks_[rank];
  r.last = r.entry = entry;
  if (r.left == 0) {
    --unfinished_;
    done_.push_back(rank);
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

bool AlikePlan::next_done(uint32_t& rank) {
  if (done_taken_ == done_.size()) return false;
  rank = done_[done_taken_++];
  return true;
}

AlikePlan::Border* AlikePlan::border(uint32_t rank, uint32_t connection) {
  const auto it =
      std::ranges::lower_bound(borders_, std::pair(rank, connection), {},
                               [](const Border& b) { return std::pair(b.rank, b.connection); });
  if (it == borders_.end() || it->rank != rank || it->connection != connection) return nullptr;
  return &*it;
}

bool AlikePlan::on_real_data(uint32_t rank, uint32_t connection, uint64_t k, Time t) {
  const Border* b = border(rank, connection);
  if (b == nullptr || kinds_[connection].sends || k != receiver(rank, connection).arrived ||
      k >= kinds_[connection].messages || k >= b->taken) {
    return false;
  }
  arrive(rank, connection, t + step_cost_);
  settle();
  return true;
}

bool AlikePlan::on_acknowledged(uint32_t rank, uint32_t connection, uint64_t k, Time t) {
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

bool AlikePlan::next(EnvironmentOutput& out) {
  if (output_count_ == 0) return false;
  const Output& o = outputs_[output_head_];
  Border& b = borders_[o.border];
  const auto kind = kinds_[b.connection].sends ? EnvironmentOutput::Kind::kData
                                               : EnvironmentOutput::Kind::kCredit;
  out = {kind, b.rank, b.connection, o.message, o.time};
  ++b.taken;
  output_head_ = output_head_ + 1 == outputs_.size() ? 0 : output_head_ + 1;
  --output_count_;
  return true;
}

void AlikePlan::emit(uint32_t rank, uint32_t c, uint64_t k, Time t) {
  size_t place = output_head_ + output_count_++;
  if (place >= outputs_.size()) place -= outputs_.size();
  outputs_[place] = {static_cast<uint32_t>(border(rank, c) - borders_.data()), k, t};
}

void AlikePlan::wake(uint32_t rank, uint32_t lane, uint64_t bits) {
  if (bits == 0 || ranks_[rank].entry.is_never()) return;
  const size_t group = rank * lanes_.size() + lane;
  if (to_see_[group] == 0) work_.push_back(static_cast<uint32_t>(group));
  to_see_[group] |= bits;
}

void AlikePlan::settle() {
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
bool AlikePlan::ready(uint32_t rank, uint32_t c, Time& t) {
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

void AlikePlan::done(uint32_t rank, uint32_t c, Time t) {
  const Kind& kind = kinds_[c];
  Rank& own = ranks_[rank];
  own.last = std::max(own.last, t);
  if (--own.left == 0) {
    --unfinished_;
    done_.push_back(rank);
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
      t + hops_->hop(far.rank, rank).latency;
  send(far.rank, far.connection);
}

/// All whose start is known now: between emulated ranks the acknowledgement is known with it.
void AlikePlan::send(uint32_t rank, uint32_t c) {
  const Kind& kind = kinds_[c];
  Sender& s = sender(rank, c);
  const FarEnd far = all_->far(rank, c);
  const Time entry = ranks_[far.rank].entry;
  const auto known = [&] {
    return s.sent < kind.window ? !entry.is_never() : s.sent - kind.window < s.credits;
  };
  if (s.sent == s.done || !known()) return;
  const RingHop hop = hops_->hop(rank, far.rank);
  for (; s.sent < s.done && known(); ++s.sent) {
    const uint64_t k = s.sent;
    const Time credit =
        k < kind.window ? entry + hop.latency : at(rank, kind.credits, k - kind.window);
    const uint32_t size = all_->first().message(c, k).wire;
    s.wire_free = std::max({at(rank, kind.times, k), s.wire_free, credit}) +
                  hop.rate.time_for(wire_.bytes(size));
    if (k + kind.window < kind.messages) at(rank, kind.acked, k) = s.wire_free + hop.latency * 2;
    ++s.acked;
    arrive(far.rank, far.connection, s.wire_free + hop.latency + step_cost_);
  }
  wake(rank, kind.lane, uint64_t{1} << kind.bit);
}

void AlikePlan::arrive(uint32_t rank, uint32_t c, Time t) {
  const Kind& kind = kinds_[c];
  at(rank, kind.times, receiver(rank, c).arrived++) = t;
  wake(rank, kind.lane, kind.waiting | uint64_t{1} << kind.bit);
}

}  // namespace understudy
