#include "collective_model/plan/all_to_all_plan.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "collective_model/plan/plan_check.h"
#include "dataplane/base/assert.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

Result<void> check_pairs(const PlanInput& config) {
  const AllToAll& all = *config.all_to_all;
  const uint32_t n = all.ranks();
  if (auto fits = check_pair_plan_input(config, n); !fits) return fits;
  std::vector<bool> real(n);
  for (const uint32_t rank : config.real) real[rank] = true;
  for (uint32_t rank = 0; rank + 1 < n; ++rank) {
    if (!all.local(rank, rank + 1) || real[rank] == real[rank + 1]) continue;
    return mixed_node(rank, rank + 1);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Plan>> AllToAllPlan::make(const PlanInput& config) {
  if (config.real.empty()) return fail("plan: real: no rank is real");
  return checked(config);
}

Result<std::unique_ptr<Plan>> AllToAllPlan::make_ideal(PlanInput config) {
  config.real.clear();
  return checked(config);
}

Result<std::unique_ptr<Plan>> AllToAllPlan::checked(const PlanInput& config) {
  if (auto fits = check_pairs(config); !fits) return tl::unexpected(fits.error());
  return std::unique_ptr<Plan>(new AllToAllPlan(config));
}

AllToAllPlan::AllToAllPlan(const PlanInput& config)
    : all_(config.all_to_all),
      hops_(config.pair_hops),
      wire_(config.wire),
      step_cost_(config.step_cost),
      inside_(config.inside),
      entry_delay_(config.entry_delay),
      n_(all_->ranks()),
      ranks_(n_ + 1),
      lanes_(size_t{all_->channels()} * n_) {
  entry_delay_.resize(n_);
  for (const uint32_t rank : config.real) ranks_[rank].real = true;
  uint64_t most = 0;
  if (all_->even()) {
    for (const bool inside : {false, true}) {
      const uint32_t to = inside ? 1 : n_ - 1;
      for (uint32_t p = 0; p < all_->parts(); ++p) {
        const bool any = all_->local(0, to) == inside;
        parts_.push_back(any ? all_->part(0, to, p) : AllToAll::Part());
        most = std::max(most, parts_.back().messages);
      }
    }
  } else {
    most = kWindow + 1;
  }
  waits_for_entries_ = most > kWindow;
  if (inside_) {
    for (uint32_t rank = 0; rank < n_; ++rank) {
      ways_out_.push_back(rank > 0 && all_->even() ? ways_out_[0] : all_->ways_out(rank));
    }
  }
  uint32_t batches = 1;  // of one step each, at most
  for (uint32_t c = 0; c < all_->channels(); ++c) {
    batches = std::max(batches, static_cast<uint32_t>(all_->steps(c).size()));
  }
  while (depth_ / 2 >= batches) depth_ /= 2;
  ASSERT_INVARIANT(std::has_single_bit(depth_));
  began_.resize(lanes_.size() * depth_);
  work_.reserve(lanes_.size());
  done_.reserve(n_);
  make_borders();
  AllToAllPlan::begin();
}

void AllToAllPlan::make_borders() {
  std::vector<uint32_t> real;
  for (uint32_t rank = 0; rank < n_; ++rank) {
    if (ranks_[rank].real) real.push_back(rank);
  }
  uint64_t outputs = 0;
  for (uint32_t rank = 0; rank < n_; ++rank) {
    ranks_[rank].first_border = static_cast<uint32_t>(borders_.size());
    if (ranks_[rank].real) continue;
    for (const uint32_t other : real) {
      for (uint32_t part = 0; part < all_->parts(); ++part) {
        for (const bool receives : {false, true}) {
          const uint32_t from = receives ? other : rank, to = receives ? rank : other;
          const uint64_t messages = all_->part(from, to, part).messages;
          if (messages == 0) continue;
          Border b;
          b.rank = rank;
          b.channel = all_->channel(from, to, part);
          b.sends = !receives;
          b.messages = messages;
          const uint32_t round = all_->round(from, to);
          b.connection = all_->connection(rank, round, part, receives);
          b.key = key({round, part, 0, 0}, receives);
          borders_.push_back(b);
          outputs += std::min(kWindow, messages);
        }
      }
    }
    std::sort(borders_.begin() + ranks_[rank].first_border, borders_.end(),
              [](const Border& a, const Border& b) { return a.key < b.key; });
  }
  ranks_[n_].first_border = static_cast<uint32_t>(borders_.size());
  borders_.shrink_to_fit();
  outputs_.resize(outputs);
}

void AllToAllPlan::start(Time entry) {
  begin();
  for (uint32_t rank = 0; rank < n_; ++rank) {
    if (!ranks_[rank].real) enter(rank, entry + entry_delay_[rank]);
  }
}

void AllToAllPlan::begin() {
  if (done_.unfinished() != 0) std::ranges::fill(began_, Began{});
  size_t emulated = 0;
  outputs_.clear();
  std::ranges::fill(lanes_, Lane{});
  for (uint32_t rank = 0; rank < n_; ++rank) {
    Rank& r = ranks_[rank];
    r.entry = Time::never();
    r.lanes_left = all_->channels();
    if (!r.real) ++emulated;
  }
  done_.begin(emulated);
  for (Border& b : borders_) {
    b.began = false;
    b.done = b.heard = b.granted = b.taken = 0;
  }
}

void AllToAllPlan::enter(uint32_t rank, Time entry) {
  Rank& r = ranks_[rank];
  DEBUG_ASSERT_INVARIANT(!r.real && r.entry.is_never());
  r.entry = r.last = entry;
  for (uint32_t i = r.first_border; i < ranks_[rank + 1].first_border; ++i) {
    Border& b = borders_[i];
    if (b.sends) continue;
    const uint64_t first = std::min(kWindow, b.messages);
    while (b.granted < first) emit(b, b.granted, entry);
  }
  if (waits_for_entries_) free_senders_to(rank);
  for (uint32_t c = all_->channels(); c-- > 0;) {
    Lane& own = lane(c, rank);
    own.done = entry;
    work_.push_back(c * n_ + rank);
  }
  settle();
}

/// Those who have sent as much as they may before they know when the rank enters.
void AllToAllPlan::free_senders_to(uint32_t rank) {
  for (uint32_t c = 0; c < all_->channels(); ++c) {
    const std::vector<AllToAll::Step>& steps = all_->steps(c);
    for (uint32_t s = 0; s < steps.size(); ++s) {
      const uint32_t from = all_->peers(rank, steps[s]).from;
      Lane& sender = lane(c, from);
      if (from == rank || ranks_[from].real || sender.first > s || sender.end <= s) continue;
      const PairTransfer t = transfer(from, rank, steps[s].part);
      if (t.sender_is_free() || !t.needs_credits_only()) continue;
      wake(sender, t.sent_early(sender.start, ranks_[rank].entry));
    }
  }
}

AllToAllPlan::Border* AllToAllPlan::border(uint32_t rank, uint32_t connection) {
  const auto first = borders_.begin() + ranks_[rank].first_border;
  const auto end = borders_.begin() + ranks_[rank + 1].first_border;
  const auto it = std::lower_bound(first, end, connection,
                                   [](const Border& b, uint32_t c) { return b.connection < c; });
  return it == end || it->connection != connection ? nullptr : &*it;
}

bool AllToAllPlan::on_real_data(uint32_t rank, uint32_t connection, uint64_t k, Time t) {
  Border* b = border(rank, connection);
  if (b == nullptr || b->sends || k != b->heard || k >= b->messages || k >= b->taken) return false;
  b->arrivals[b->heard++ % kWindow] = t + step_cost_;
  if (b->began) use(*b);
  settle();
  return true;
}

bool AllToAllPlan::on_acknowledged(uint32_t rank, uint32_t connection, uint64_t k, Time t) {
  Border* b = border(rank, connection);
  if (b == nullptr || !b->sends || k < b->heard || k >= b->taken) return false;
  b->heard = k + 1;
  const uint64_t free = std::min(b->heard + kWindow, b->messages);
  if (b->done < free) {
    b->last = std::max(b->last, t);
    while (b->done < free) emit(*b, b->done++, b->last);
    if (b->done == b->messages) wake(lane(b->channel, rank), b->last);
  }
  settle();
  return true;
}

bool AllToAllPlan::next(PlanOutput& out) {
  if (outputs_.empty()) return false;
  const Output& o = outputs_.front();
  Border& b = borders_[o.border];
  const auto kind = b.sends ? PlanOutput::Kind::kData : PlanOutput::Kind::kCredit;
  out = {kind, b.rank, b.connection, o.message, o.time};
  ++b.taken;
  outputs_.pop();
  return true;
}

void AllToAllPlan::emit(Border& b, uint64_t message, Time t) {
  DEBUG_ASSERT_INVARIANT(b.granted < b.messages && message < b.messages);
  ++b.granted;
  outputs_.push({static_cast<uint32_t>(&b - borders_.data()), message, t});
}

/// Messages that have come to a rank that is at them.
void AllToAllPlan::use(Border& b) {
  for (; b.done < b.heard; ++b.done) {
    b.last = std::max(b.last, b.arrivals[b.done % kWindow]);
    if (b.granted < b.messages) emit(b, b.granted, b.last);
  }
  if (b.done == b.messages) wake(lane(b.channel, b.rank), b.last);
}

void AllToAllPlan::begin_border(Lane& own, uint32_t rank, uint64_t key) {
  auto it = borders_.begin() + ranks_[rank].first_border;
  const auto end = borders_.begin() + ranks_[rank + 1].first_border;
  it = std::lower_bound(it, end, key, [](const Border& b, uint64_t k) { return b.key < k; });
  if (it == end || it->key != key) return;
  Border& b = *it;
  b.began = true;
  b.last = own.start;
  ++own.open;
  if (!b.sends) return use(b);
  const uint64_t first = std::min(kWindow, b.messages);
  while (b.done < first) emit(b, b.done++, own.start);
  if (b.done == b.messages) --own.open;
}

/// One of a lane's connections ended at `end`.
void AllToAllPlan::wake(Lane& lane, Time end) {
  DEBUG_ASSERT_INVARIANT(lane.open > 0);
  lane.done = std::max(lane.done, end);
  if (--lane.open == 0) work_.push_back(static_cast<uint32_t>(&lane - lanes_.data()));
}

void AllToAllPlan::settle() {
  while (!work_.empty()) {
    const uint32_t next = work_.back();
    work_.pop_back();
    advance(next / n_, next % n_);
  }
}

/// The batch that a lane is in is over.
void AllToAllPlan::advance(uint32_t channel, uint32_t rank) {
  const std::vector<AllToAll::Step>& steps = all_->steps(channel);
  Lane& own = lane(channel, rank);
  do {
    if (own.end == steps.size()) return lane_done(rank, own.done);
    own.first = own.end;
    own.end = all_->batch_end(channel, rank, own.first);
    own.start = own.done;
    remember(own);
    ++own.open;  // until all have begun
    for (uint32_t s = own.first; s < own.end; ++s) {
      const P2pRound peer = all_->peers(rank, steps[s]);
      if (peer.to == rank) continue;  // a copy
      begin_sending(channel, rank, s, peer.to);
      begin_receiving(channel, rank, s, peer.from);
    }
  } while (--own.open == 0);
}

void AllToAllPlan::lane_done(uint32_t rank, Time end) {
  Rank& r = ranks_[rank];
  DEBUG_ASSERT_INVARIANT(r.lanes_left > 0);
  r.last = std::max(r.last, end);
  if (--r.lanes_left != 0) return;
  done_.add(rank);
}

void AllToAllPlan::begin_sending(uint32_t channel, uint32_t rank, uint32_t step, uint32_t to) {
  const AllToAll::Step& s = all_->steps(channel)[step];
  Lane& own = lane(channel, rank);
  if (ranks_[to].real) return begin_border(own, rank, key(s, false));
  const PairTransfer t = transfer(rank, to, s.part);
  if (t.messages == 0) return;
  Lane& receiver = lane(channel, to);
  if (receiver.end > step) {
    const auto ends = t.carry_out(own.start, receiver.start, ranks_[to].entry);
    own.done = std::max(own.done, ends.sent);
    wake(receiver, ends.received);
    return;
  }
  ++began(own, own.batch).asked;
  if (t.sender_is_free()) return;
  if (t.needs_credits_only() && !ranks_[to].entry.is_never()) {
    own.done = std::max(own.done, t.sent_early(own.start, ranks_[to].entry));
  } else {
    ++own.open;
  }
}

void AllToAllPlan::begin_receiving(uint32_t channel, uint32_t rank, uint32_t step, uint32_t from) {
  const AllToAll::Step& s = all_->steps(channel)[step];
  Lane& own = lane(channel, rank);
  if (ranks_[from].real) return begin_border(own, rank, key(s, true));
  const PairTransfer t = transfer(from, rank, s.part);
  if (t.messages == 0) return;
  Lane& sender = lane(channel, from);
  if (sender.end <= step) {
    ++own.open;
    return;
  }
  const auto ends = t.carry_out(ask(sender, step), own.start, ranks_[rank].entry);
  own.done = std::max(own.done, ends.received);
  if (!t.sender_is_free() && !t.needs_credits_only()) wake(sender, ends.sent);
}

/// When a lane began with what it sends at `step`; that was asked for.
Time AllToAllPlan::ask(const Lane& lane, uint32_t step) {
  uint32_t batch = lane.batch;
  while (began(lane, batch).first > step) --batch;
  Began& b = began(lane, batch);
  --b.asked;
  return b.start;
}

/// A lane begins with its next batch.
void AllToAllPlan::remember(Lane& lane) {
  while (began(lane, lane.batch + 1).asked != 0) keep_twice_as_many();
  began(lane, ++lane.batch) = {lane.first, 0, lane.start};
}

void AllToAllPlan::keep_twice_as_many() {
  std::vector<Began> more(began_.size() * 2);
  for (size_t l = 0; l < lanes_.size(); ++l) {
    const uint32_t last = lanes_[l].batch;
    for (uint32_t batch = last; batch > 0 && last - batch < depth_; --batch) {
      more[l * depth_ * 2 + (batch & (2 * depth_ - 1))] = began(lanes_[l], batch);
    }
  }
  depth_ *= 2;
  began_ = std::move(more);
}

PairTransfer AllToAllPlan::transfer(uint32_t from, uint32_t to, uint32_t part) {
  const bool local = all_->local(from, to), even = all_->even();
  const AllToAll::Part p =
      even ? parts_[(local ? all_->parts() : 0) + part] : all_->part(from, to, part);
  PairTransfer t;
  t.messages = p.messages;
  if (p.messages == 0) return t;
  t.network = !local;
  if (local) {
    if (!inside_) return t;
    t.full = inside_->rate.time_for(uint64_t{p.chunk} * ways_out_[from]);
    t.last = inside_->rate.time_for(uint64_t{p.last} * ways_out_[from]);
    t.latency = inside_->latency;
    return t;
  }
  const Hop hop = hops_->hop(from, to);
  t.latency = hop.latency;
  t.credit_more = hop.credit_more;
  t.ack_more = hop.ack_more;
  t.step_cost = step_cost_;
  if (!even) {
    if (p.messages > 1) t.full = hop.time_for(wire_, p.chunk);
    t.last = hop.time_for(wire_, p.last);
    return t;
  }
  Price& price = prices_[(hop.rate.bps() * 0x9e3779b97f4a7c15 >> 58 ^ part) % prices_.size()];
  if (!price.known || price.rate != hop.rate || price.limits != hop.limits || price.part != part) {
    price = {hop.rate, hop.limits, part, hop.time_for(wire_, p.chunk), hop.time_for(wire_, p.last),
             true};
  }
  t.full = price.full;
  t.last = price.last;
  return t;
}

}  // namespace understudy
