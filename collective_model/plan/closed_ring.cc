#include "collective_model/plan/closed_ring.h"

#include <algorithm>
#include <utility>

#include "collective_model/schedule/ring.h"
#include "dataplane/base/assert.h"

namespace understudy {
namespace {

constexpr uint32_t kNone = ~0u;

bool is_ring(const RankSchedule& schedule) {
  return dynamic_cast<const RingRankSchedule*>(&schedule) != nullptr;
}
bool is_pipeline(const RankSchedule& schedule) {
  return dynamic_cast<const PipelineRankSchedule*>(&schedule) != nullptr;
}

}  // namespace

std::unique_ptr<Plan> ClosedRing::make(const PlanInput& config) {
  const auto n = static_cast<uint32_t>(config.ranks.size());
  if (n < 2 || config.hops.size() != n || config.real.empty() || config.wire.mtu == 0 ||
      !config.carried.empty()) {
    return {};
  }
  if (!config.entry_delay.empty() && config.entry_delay.size() != n) return {};
  if (std::ranges::any_of(config.real, [&](uint32_t rank) { return rank >= n; })) return {};
  uint32_t first = kNone, last = 0;  // channel
  for (const Connection& c : config.ranks[0]->connections()) {
    first = std::min(first, c.channel);
    last = std::max(last, c.channel);
  }
  if (first > last) return {};
  for (uint32_t r = 0; r < n; ++r) {
    const RankSchedule& rank = *config.ranks[r];
    if (!is_ring(rank) && !is_pipeline(rank)) return {};
    if (is_ring(rank) != is_ring(*config.ranks[0])) return {};
    if (config.hops[r].size() != rank.connections().size()) return {};
  }
  std::unique_ptr<ClosedRing> out(new ClosedRing(config, last - first + 1));
  for (uint32_t r = 0; r < n; ++r) {
    const std::vector<Connection>& connections = config.ranks[r]->connections();
    for (uint32_t c = 0; c < connections.size(); ++c) {
      const uint32_t lane = connections[c].channel - first;
      if (lane >= out->lanes_) return {};
      Place& place = out->place(r, lane);
      (connections[c].direction == Direction::kSend ? place.sends : place.receives) = c;
    }
  }
  for (uint32_t lane = 0; lane < out->lanes_; ++lane) {
    if (!out->add_lane(config, lane)) return {};
  }
  out->pending_.reserve(out->chains_.size());
  out->begin();
  return out;
}

ClosedRing::ClosedRing(const PlanInput& config, uint32_t lanes)
    : lanes_(lanes), ranks_(config.ranks.size()), places_(ranks_.size() * lanes) {
  for (const uint32_t rank : config.real) ranks_[rank].real = true;
  for (size_t r = 0; r < ranks_.size() && !config.entry_delay.empty(); ++r) {
    ranks_[r].delay = config.entry_delay[r];
  }
  done_.reserve(ranks_.size());
}

/// Cuts a lane's ring, or pipeline, at the real ranks.
bool ClosedRing::add_lane(const PlanInput& config, uint32_t lane) {
  const auto n = static_cast<uint32_t>(ranks_.size());
  // Begins behind a real rank, or where the pipeline does.
  uint32_t rank = kNone;
  for (uint32_t r = 0; r < n; ++r) {
    if (place(r, lane).receives != kNone) continue;
    if (rank != kNone || !is_pipeline(*config.ranks[r])) return false;
    rank = r;
  }
  const bool pipeline = rank != kNone;
  if (!pipeline)
    rank = place(config.real.front(), lane).sends == kNone
               ? kNone
               : config.ranks[config.real.front()]
                     ->connections()[place(config.real.front(), lane).sends]
                     .to;
  std::vector<uint32_t> run;
  bool begins = pipeline;
  for (uint32_t i = 0; i < n; ++i) {
    if (rank >= n) return false;
    const bool real = ranks_[rank].real;
    if (!real) {
      run.push_back(rank);
    } else {
      if (!run.empty() && !add_chain(config, lane, std::exchange(run, {}), begins, false)) {
        return false;
      }
      begins = false;
    }
    const uint32_t sends = place(rank, lane).sends;
    if (sends == kNone) {
      if (i + 1 < n || !pipeline) return false;  // not all in one
      return run.empty() || add_chain(config, lane, std::move(run), begins, true);
    }
    const Connection& send = config.ranks[rank]->connections()[sends];
    if (send.to >= n || place(send.to, lane).receives == kNone) return false;
    const Connection& receive = config.ranks[send.to]->connections()[place(send.to, lane).receives];
    if (receive.from != rank || (real != ranks_[send.to].real && !send.network)) return false;
    if (real && rank == config.real.front() && !pipeline && i + 1 < n) return false;
    rank = send.to;
  }
  return !pipeline && run.empty();
}

bool ClosedRing::add_chain(const PlanInput& config, uint32_t lane, std::vector<uint32_t> ranks,
                           bool begins, bool ends) {
  const RankSchedule& schedule = *config.ranks[ranks.front()];
  const Place& first_place = place(ranks.front(), lane);
  ChainEvaluatorConfig c;
  c.begins = begins;
  c.ends = ends;
  c.sends = first_place.sends != kNone ? first_place.sends : first_place.receives;
  const Connection& first = schedule.connections()[c.sends];
  c.shift = 0;
  c.per_loop = first.messages;
  if (const auto* ring = dynamic_cast<const RingRankSchedule*>(&schedule)) {
    c.shift = first.chunk_steps / first.slice_steps;
    c.per_loop = ring->messages_of_a_loop(lane);
  }
  c.wire = config.wire;
  c.step = config.step_cost;
  c.inside = config.inside;
  if (first.window <= c.shift || first.messages == 0) return false;
  std::vector<uint32_t> nodes = {0};  // ranks of each
  for (size_t i = 0; i < ranks.size(); ++i) {
    c.ranks.push_back(config.ranks[ranks[i]]);
    ++nodes.back();
    const uint32_t sends = place(ranks[i], lane).sends;
    if (sends == kNone) break;
    const Connection& send = config.ranks[ranks[i]]->connections()[sends];
    if (send.messages != first.messages || send.window != first.window) return false;
    if (!send.network) continue;
    if (i + 1 == ranks.size()) continue;  // to a real rank
    c.hops.push_back(config.hops[ranks[i]][sends]);
    nodes.push_back(0);
  }
  c.gpus = *std::ranges::max_element(nodes);
  c.skipped = c.gpus - nodes.front();
  for (size_t v = 0; v < nodes.size(); ++v) {
    if (nodes[v] == c.gpus || (v == 0 && begins) || (v + 1 == nodes.size() && ends)) continue;
    return false;
  }
  const auto index = static_cast<uint32_t>(chains_.size());
  for (uint32_t i = 0; i < ranks.size(); ++i) {
    place(ranks[i], lane).chain = index;
    place(ranks[i], lane).place = c.skipped + i;
  }
  const uint32_t gpus = c.gpus, skipped = c.skipped;
  ChainEvaluator folded(std::move(c));
  if (!folded.regular()) return false;
  Chain chain{std::move(folded), lane, gpus, std::move(ranks), skipped, 0, 0, 0, {}, false, false};
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
  pending_.clear();
  size_t emulated = 0;
  for (Rank& rank : ranks_) {
    if (rank.real) continue;
    ++emulated;
    rank.left = static_cast<uint32_t>(lanes_);
    rank.last = kLongBefore;
  }
  done_.begin(emulated);
  for (Chain& chain : chains_) {
    chain.ring.begin();
    chain.data_taken = chain.credits_taken = 0;
    chain.announced = 0;
    chain.all_done = chain.pending = false;
    chain.open.clear();
    const auto n = static_cast<uint32_t>(chain.ranks.size());
    for (uint32_t i = 0; i < n; ++i) {
      if (i < chain.border || i + chain.border >= n) chain.open.push_back(chain.skipped + i);
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

/// A lane's place of which this is a connection.
const ClosedRing::Place* ClosedRing::find(uint32_t rank, uint32_t connection) const {
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    const Place& at = places_[rank * lanes_ + lane];
    if (at.sends == connection || at.receives == connection) {
      return at.chain == kNone ? nullptr : &at;
    }
  }
  return nullptr;
}

bool ClosedRing::on_real_data(uint32_t rank, uint32_t connection, uint64_t k, Time t) {
  const Place* at = find(rank, connection);
  if (at == nullptr || at->receives != connection) return false;
  Chain& chain = chains_[at->chain];
  if (at->place != chain.skipped || k != chain.ring.arrived() || k >= chain.credits_taken) {
    return false;
  }
  chain.ring.on_data(t);
  advance(at->chain);
  return true;
}

bool ClosedRing::on_acknowledged(uint32_t rank, uint32_t connection, uint64_t k, Time t) {
  const Place* at = find(rank, connection);
  if (at == nullptr || at->sends != connection) return false;
  Chain& chain = chains_[at->chain];
  if (at->place + 1 != chain.skipped + chain.ranks.size() || k < chain.ring.acknowledged() ||
      k >= chain.data_taken) {
    return false;
  }
  while (chain.ring.acknowledged() <= k) chain.ring.on_acknowledged(t);
  advance(at->chain);
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

bool ClosedRing::next(PlanOutput& out) {
  while (!pending_.empty()) {
    Chain& chain = chains_[pending_.back()];
    if (chain.credits_taken < chain.ring.credits_known()) {
      const uint64_t k = chain.credits_taken++;
      const uint32_t rank = chain.ranks.front();
      out = {PlanOutput::Kind::kCredit, rank, place(rank, chain.lane).receives, k,
             chain.ring.credit(k)};
      return true;
    }
    if (chain.data_taken < chain.ring.data_known()) {
      const uint64_t k = chain.data_taken++;
      const uint32_t rank = chain.ranks.back();
      out = {PlanOutput::Kind::kData, rank, place(rank, chain.lane).sends, k, chain.ring.data(k)};
      return true;
    }
    chain.pending = false;
    pending_.pop_back();
  }
  return false;
}

/// Ranks that have done their part: those of the first and last node as soon as it is known, those
/// between them at the end.
void ClosedRing::announce(Chain& chain) {
  if (chain.all_done || chain.ring.completed() == chain.announced) return;
  chain.announced = chain.ring.completed();
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
  for (uint32_t i = chain.border; i + chain.border < chain.ranks.size(); ++i) {
    done(chain, chain.skipped + i);
  }
}

void ClosedRing::done(const Chain& chain, uint32_t place) {
  const uint32_t index = chain.ranks[place - chain.skipped];
  Rank& rank = ranks_[index];
  DEBUG_ASSERT_INVARIANT(!rank.real && rank.left > 0);
  rank.last = std::max(rank.last, chain.ring.completion(place));
  if (--rank.left > 0) return;
  done_.add(index);
}

}  // namespace understudy
