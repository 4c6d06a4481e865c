#include "collective_model/closed_ring.h"

#include <algorithm>
#include <utility>

#include "collective_model/schedule_ring.h"

namespace understudy {
namespace {

const RingRankSchedule* ring_of(const EnvironmentConfig& config, uint32_t rank) {
  return dynamic_cast<const RingRankSchedule*>(config.ranks[rank].get());
}

}  // namespace

std::unique_ptr<Plan> ClosedRing::make(const EnvironmentConfig& config) {
  const auto n = static_cast<uint32_t>(config.ranks.size());
  if (n < 2 || config.hops.size() != n || config.real.empty() || config.wire.mtu == 0 ||
      !config.carried.empty()) {
    return {};
  }
  if (!config.entry_delay.empty() && config.entry_delay.size() != n) return {};
  if (std::ranges::any_of(config.real, [&](uint32_t rank) { return rank >= n; })) return {};
  const size_t lanes = config.ranks[0]->connections().size() / 2;
  for (uint32_t r = 0; r < n; ++r) {
    if (ring_of(config, r) == nullptr || config.ranks[r]->connections().size() != lanes * 2 ||
        config.hops[r].size() != lanes * 2) {
      return {};
    }
  }
  std::unique_ptr<ClosedRing> out(new ClosedRing(config, lanes));
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if (!out->add_lane(config, lane)) return {};
  }
  out->pending_.reserve(out->chains_.size());
  out->begin();
  return out;
}

ClosedRing::ClosedRing(const EnvironmentConfig& config, size_t lanes)
    : lanes_(lanes), ranks_(config.ranks.size()), places_(ranks_.size() * lanes) {
  for (const uint32_t rank : config.real) ranks_[rank].real = true;
  for (size_t r = 0; r < ranks_.size() && !config.entry_delay.empty(); ++r) {
    ranks_[r].delay = config.entry_delay[r];
  }
  done_.reserve(ranks_.size());
}

/// Cuts a lane's ring at the real ranks.
bool ClosedRing::add_lane(const EnvironmentConfig& config, uint32_t lane) {
  const auto n = static_cast<uint32_t>(ranks_.size());
  std::vector<uint32_t> run;
  uint32_t rank = config.real.front();
  for (uint32_t i = 0; i < n; ++i) {
    const Connection& send = config.ranks[rank]->connections()[size_t{2} * lane];
    if (send.to >= n || send.direction != Direction::kSend) return false;
    const uint32_t next = send.to;
    if (config.ranks[next]->connections()[size_t{2} * lane + 1].from != rank) return false;
    if (next == config.real.front() && i + 1 < n) return false;  // not all in one ring
    if (ranks_[rank].real != ranks_[next].real && !send.network) return false;
    rank = next;
    if (!ranks_[rank].real) {
      run.push_back(rank);
    } else if (!run.empty()) {
      if (!add_chain(config, lane, std::exchange(run, {}))) return false;
    }
  }
  return rank == config.real.front();
}

bool ClosedRing::add_chain(const EnvironmentConfig& config, uint32_t lane,
                           std::vector<uint32_t> ranks) {
  const RingRankSchedule& schedule = *ring_of(config, ranks.front());
  const Connection& first = schedule.connections()[size_t{2} * lane];
  FoldedChainConfig c;
  c.sends = 2 * lane;
  c.shift = first.chunk_steps / first.slice_steps;
  c.per_loop = schedule.messages_of_a_loop(lane);
  c.wire = config.wire;
  c.step = config.step_cost;
  if (first.window <= c.shift || first.messages == 0) return false;
  uint32_t node = 0, nodes = 0;  // `node`: ranks of the present one
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RingRankSchedule& other = *ring_of(config, ranks[i]);
    const Connection& send = other.connections()[size_t{2} * lane];
    if (send.messages != first.messages || send.window != first.window) return false;
    c.ranks.push_back(config.ranks[ranks[i]]);
    ++node;
    if (!send.network && config.inside) return false;
    if (!send.network) continue;
    if (nodes++ == 0) c.gpus = node;
    if (node != c.gpus) return false;
    node = 0;
    // The last one's is to a real rank.
    if (i + 1 < ranks.size()) c.hops.push_back(config.hops[ranks[i]][size_t{2} * lane]);
  }
  if (node != 0) return false;
  const auto index = static_cast<uint32_t>(chains_.size());
  for (uint32_t i = 0; i < ranks.size(); ++i) places_[ranks[i] * lanes_ + lane] = {index, i};
  const auto messages = static_cast<uint32_t>(first.messages);
  const uint32_t gpus = c.gpus;
  Chain chain{
      FoldedChain(std::move(c)), lane, messages, gpus, std::move(ranks), 0, 0, {}, false, false};
  chain.open.reserve(size_t{2} * gpus);
  chains_.push_back(std::move(chain));
  return true;
}

void ClosedRing::start(Time entry) {
  begin();
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].real) continue;
    for (uint32_t lane = 0; lane < lanes_; ++lane) {
      const Place& at = place(r, lane);
      chains_[at.chain].ring.enter(at.place, entry + ranks_[r].delay);
    }
  }
  for (uint32_t c = 0; c < chains_.size(); ++c) advance(c);
}

void ClosedRing::begin() {
  done_.clear();
  pending_.clear();
  done_taken_ = unfinished_ = 0;
  for (Rank& rank : ranks_) {
    if (rank.real) continue;
    ++unfinished_;
    rank.left = static_cast<uint32_t>(lanes_);
    rank.last = kLongBefore;
  }
  for (Chain& chain : chains_) {
    chain.ring.begin();
    chain.data_taken = chain.credits_taken = 0;
    chain.all_done = chain.pending = false;
    chain.open.clear();
    const auto n = static_cast<uint32_t>(chain.ranks.size());
    for (uint32_t i = 0; i < n; ++i) {
      if (i < chain.border || i + chain.border >= n) chain.open.push_back(i);
    }
  }
}

void ClosedRing::enter(uint32_t rank, Time entry) {
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    const Place& at = place(rank, lane);
    chains_[at.chain].ring.enter(at.place, entry);
    advance(at.chain);
  }
}

bool ClosedRing::on_real_data(uint32_t rank, uint32_t connection, uint64_t k, Time t) {
  const Place& at = place(rank, connection / 2);
  if (at.chain == ~0u || at.place != 0 || connection % 2 == 0) return false;
  Chain& chain = chains_[at.chain];
  if (k != chain.ring.arrived() || k >= chain.credits_taken) return false;
  chain.ring.on_data(t);
  advance(at.chain);
  return true;
}

bool ClosedRing::on_acknowledged(uint32_t rank, uint32_t connection, uint64_t k, Time t) {
  const Place& at = place(rank, connection / 2);
  if (at.chain == ~0u || connection % 2 != 0) return false;
  Chain& chain = chains_[at.chain];
  if (at.place + 1 != chain.ranks.size() || k < chain.ring.acknowledged() ||
      k >= chain.data_taken) {
    return false;
  }
  while (chain.ring.acknowledged() <= k) chain.ring.on_acknowledged(t);
  advance(at.chain);
  return true;
}

void ClosedRing::advance(uint32_t index) {
  Chain& chain = chains_[index];
  chain.ring.advance();
  if (!chain.pending) {
    chain.pending = true;
    pending_.push_back(index);
  }
  announce(chain);
}

bool ClosedRing::next(EnvironmentOutput& out) {
  while (!pending_.empty()) {
    Chain& chain = chains_[pending_.back()];
    if (chain.credits_taken < chain.ring.credits_known()) {
      const uint64_t k = chain.credits_taken++;
      out = {EnvironmentOutput::Kind::kCredit, chain.ranks.front(), 2 * chain.lane + 1, k,
             chain.ring.credit(k)};
      return true;
    }
    if (chain.data_taken < chain.ring.data_known()) {
      const uint64_t k = chain.data_taken++;
      out = {EnvironmentOutput::Kind::kData, chain.ranks.back(), 2 * chain.lane, k,
             chain.ring.data(k)};
      return true;
    }
    chain.pending = false;
    pending_.pop_back();
  }
  return false;
}

bool ClosedRing::next_done(uint32_t& rank) {
  if (done_taken_ == done_.size()) return false;
  rank = done_[done_taken_++];
  return true;
}

/// Ranks that have done their part: those of the first and last node as soon as it is known, those
/// between them at the end.
void ClosedRing::announce(Chain& chain) {
  if (chain.all_done) return;
  if (chain.ring.arrived() < chain.messages && chain.ring.data_known() < chain.messages) return;
  for (size_t i = 0; i < chain.open.size();) {
    if (chain.ring.completion(chain.open[i]).is_never()) {
      ++i;
      continue;
    }
    done(chain, chain.open[i]);
    chain.open[i] = chain.open.back();
    chain.open.pop_back();
  }
  if (!chain.ring.finished()) return;
  chain.all_done = true;
  for (uint32_t i = chain.border; i + chain.border < chain.ranks.size(); ++i) done(chain, i);
}

void ClosedRing::done(const Chain& chain, uint32_t place) {
  const uint32_t index = chain.ranks[place];
  Rank& rank = ranks_[index];
  rank.last = std::max(rank.last, chain.ring.completion(place));
  if (--rank.left > 0) return;
  --unfinished_;
  done_.push_back(index);
}

}  // namespace understudy
