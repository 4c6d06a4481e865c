#include "collective_model/plan/chain_evaluator.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace understudy {

ChainEvaluator::ChainEvaluator(ChainEvaluatorConfig config)
    : c_(std::move(config)),
      ranks_(c_.skipped + static_cast<uint32_t>(c_.ranks.size())),
      nodes_((ranks_ + c_.gpus - 1) / c_.gpus),
      gpus_(c_.gpus),
      per_loop_(static_cast<int64_t>(c_.per_loop)),
      shift_(c_.shift),
      entries_(ranks_),
      completions_(ranks_) {
  const Connection& sends = c_.ranks.front()->connections()[c_.sends];
  messages_ = static_cast<int64_t>(sends.messages);
  window_ = sends.window;
  arrivals_.resize(sends.messages);
  acks_.resize(sends.messages);
  first_ = -shift_ * int64_t{ranks_ - 1};
  for (const Hop& hop : c_.hops) {
    uint32_t kind = 0;
    while (kind < kind_hop_.size() && kind_hop_[kind] != hop) ++kind;
    if (kind == kind_hop_.size()) kind_hop_.push_back(hop);
    kind_.push_back(kind);
  }
  slots_ = c_.inside ? 2 * gpus_ : gpus_ + 1;
  ways_.resize(ranks_);
  for (uint32_t r = c_.skipped; r < ranks_; ++r) {
    ways_[r] = ways_out(*c_.ranks[r - c_.skipped]);
    most_ways_ = std::max(most_ways_, ways_[r] + 1);
  }
  kinds_ = std::max<uint32_t>(1, static_cast<uint32_t>(kind_hop_.size()));
  run_end_.resize(kind_.size());
  for (size_t v = kind_.size(); v-- > 0;) {
    const bool same = v + 1 < kind_.size() && kind_[v + 1] == kind_[v];
    run_end_[v] = same ? run_end_[v + 1] : static_cast<uint32_t>(v) + 1;
  }
  base_.resize(nodes_);
  for (size_t v = 0; v < c_.hops.size(); ++v) {
    base_[v + 1] = base_[v] + c_.hops[v].latency + c_.step;
    const auto node = static_cast<uint32_t>(v);
    longest_ = std::max({longest_, acknowledged_after(node), credited_after(node)});
    one_rate_ &= c_.hops[v].rate == c_.hops[0].rate && c_.hops[v].limits == c_.hops[0].limits;
  }
  kept_ = window_ + shift_ * (gpus_ + 1) + 2;
  // A rank is at most two windows ahead of the next one; in a large ring there is room for as many
  // as are under way if real ranks pass on what they have received.
  const int64_t most = std::min(messages_ + shift_ * ranks_, 2 * window_ * ranks_) + 2 * kept_;
  const int64_t alive = std::min(most, std::max(kRoom, shift_ * ranks_ * 5 / 4 + 2 * kept_));
  diagonals_.resize(std::bit_ceil(static_cast<size_t>(alive)));
  mask_ = diagonals_.size() - 1;
  // In a steady state; room for more is made when it is needed.
  const bool loops = per_loop_<messages_, irregular = kinds_> 1;
  const int64_t each = alive * (2 + (loops ? 2 : 0) + (irregular ? 4 : 0)) * slots_;
  rows_ = RowTimes(slots_, static_cast<size_t>(alive), static_cast<size_t>(kPieceRoom + each),
                   static_cast<size_t>(kPartRoom + (irregular ? alive * 12 : 0)));
  cursors_.resize(size_t{3} * gpus_ + 1);
  compared_.resize(size_t{2} * slots_);
  to_hop_.resize(gpus_);
  steep_.reserve(cursors_.size());
  lines_.reserve(cursors_.size() * 2 + 1);
  sizes_.reserve(kSizes);
  times_.reserve(size_t{kSizes} * kinds_);
  inner_times_.reserve(size_t{kSizes} * most_ways_);
  for (Demand* demand : {&first_demand_, &last_demand_, &end_demand_}) demand->reserve(ranks_ + 2);
  begin();
}

bool ChainEvaluator::regular() const {
  for (uint32_t r = 2 * gpus_; c_.inside && r + gpus_ < ranks_; ++r) {
    if (ways_[r] != ways_[r - gpus_]) return false;
  }
  return true;
}

void ChainEvaluator::begin() {
  std::fill(entries_.begin(), entries_.end(), Time::never());
  std::fill(completions_.begin(), completions_.end(), Time::never());
  entered_ = completed_ = 0;
  all_entered_ = false;
  arrived_ = acked_ = data_known_ = credits_known_ = first_known_ = 0;
  created_ = oldest_ = swept_ = first_;
  alternates_ = 0;
  rows_.reset();
  never_.forget();
  never_.clear(rows_.pieces(), 0);
  never_.push(rows_.pieces(), nodes_ + 1, kLongBefore, Duration());
  first_need_ = last_need_ = {};
  first_demand_.clear();
  last_demand_.clear();
}

void ChainEvaluator::enter(uint32_t rank, Time entry) {
  entries_[rank] = entry;
  ++entered_;
}

/// The place in sizes_ of a message's size.
uint32_t ChainEvaluator::size_of(uint32_t rank, int64_t m) {
  if (rank != c_.skipped) return look_up(rank, m);
  // Of the rank with which most diagonals begin two sizes in turn are kept.
  if (m >= alternates_) {
    alternates_ = static_cast<int64_t>(
        c_.ranks.front()->alternates_until(c_.sends, static_cast<uint64_t>(m)));
    for (const int64_t k : {m, m + 1}) {
      if (k < alternates_) alternating_[static_cast<size_t>(k % 2)] = look_up(rank, k);
    }
  }
  return alternating_[static_cast<size_t>(m % 2)];
}

uint32_t ChainEvaluator::look_up(uint32_t rank, int64_t m) {
  const uint32_t size =
      c_.ranks[rank - c_.skipped]->message(c_.sends, static_cast<uint64_t>(m)).wire;
  uint32_t i = 0;
  while (i < sizes_.size() && sizes_[i] != size) ++i;
  if (i == sizes_.size()) {
    sizes_.push_back(size);
    if (kind_hop_.empty()) times_.push_back({});
    for (const Hop& hop : kind_hop_) times_.push_back(hop.time_for(c_.wire, size));
    for (uint64_t ways = 0; c_.inside && ways < most_ways_; ++ways) {
      inner_times_.push_back(c_.inside->rate.time_for(size * ways));
    }
  }
  return i;
}

/// Begins the next diagonal.
void ChainEvaluator::create(int64_t index) {
  if (index - oldest_ + kept_ >= static_cast<int64_t>(diagonals_.size())) {
    std::vector<Diagonal> more(diagonals_.size() * 2);
    for (int64_t i = std::max(first_, oldest_ - kept_); i < index; ++i) {
      more[static_cast<size_t>(i - first_) & (more.size() - 1)] = diagonal(i);
    }
    diagonals_ = std::move(more);
    mask_ = diagonals_.size() - 1;
  }
  Diagonal& d = diagonal(index);
  // Divides only where it must: this is done for every message.
  const int64_t shift = std::max<int64_t>(shift_, 1);
  const int64_t from = index >= 0 ? c_.skipped : (shift - 1 - index) / shift;
  int64_t to = ranks_ - 1;
  if (index + shift_ * to >= messages_) to = (messages_ - 1 - index) / shift;
  const int64_t first = index + shift_ * from, last = index + shift_ * to;
  if (first >= border_ || first < border_ - per_loop_)
    border_ = (first / per_loop_ + 1) * per_loop_;
  d.border = border_;
  d.sizes[0] = size_of(static_cast<uint32_t>(from), first);
  d.sizes[1] = last < d.border ? d.sizes[0] : size_of(static_cast<uint32_t>(to), last);
  const auto start = static_cast<uint32_t>(from), end = static_cast<uint32_t>(to);
  if (gpus_ == 1) {
    d.at = 2 * start;
    d.end = 2 * end + (end + 1 < ranks_ ? 2 : 1);
    rows_.create(d.row, start, 0);
    d.later = 0;
    return;
  }
  d.at = position(start / gpus_, done_slot(start % gpus_));
  d.end = position(end / gpus_, done_slot(end % gpus_)) + 1;
  if ((end % gpus_ + 1 == gpus_ || c_.inside) && end + 1 < ranks_) ++d.end;
  rows_.create(d.row, start / gpus_, done_slot(start % gpus_));
  d.later = 0;
}

/// Works out what the demand begins with; false, with need_, if that waits for an input.
bool ChainEvaluator::ensure(Demand& demand) {
  while (!demand.empty()) {
    const auto [index, position] = demand.back();
    for (; created_ <= index; ++created_) create(created_);
    if (diagonal(index).at <= position) {
      extend(index);
      if (diagonal(index).at <= position) {
        if (need_.kind != Need::Kind::kDiagonal) return false;
        if (&demand == &first_demand_ && sweep()) continue;
        demand.push_back({need_.index, need_.position});
        continue;
      }
    }
    demand.pop_back();
  }
  return true;
}

/// Diagonals lie as they were when they began, until one behind them needs more: then goes on with
/// all, if enough have ended since the last time. False if not.
bool ChainEvaluator::sweep() {
  const int64_t open = created_ - oldest_;
  if (oldest_ - swept_ < std::max<int64_t>(1, open / kSweepsPerLife)) return false;
  swept_ = oldest_;
  for (int64_t i = oldest_; i < created_; ++i) extend(i);
  return true;
}

/// Goes on as far as nothing is missing, and with those before it that have waited for it: where a
/// loop begins the first slices wait for the last one of the loop before.
void ChainEvaluator::extend(int64_t index) {
  const auto go_on = [&](int64_t i) { gpus_ == 1 ? this->go_on<true>(i) : this->go_on<false>(i); };
  go_on(index);
  bool again = false;
  for (int64_t i = std::max(first_, index - shift_ + 1); i < index; ++i) {
    const Diagonal& d = diagonal(i);
    if (d.later != index - i || diagonal(index).at <= d.later_position) continue;
    go_on(i);
    again = true;
  }
  if (again) go_on(index);
}

void ChainEvaluator::advance() {
  if (entered_ + c_.skipped == ranks_ && !all_entered_) {
    all_entered_ = true;
    for (int64_t i = std::max(first_, oldest_); i <= 0; ++i) {
      if (created_ <= i) create(created_++);
      extend(i);
    }
  }
  while (!c_.begins && first_known_ < messages_ && !open(first_need_)) {
    if (!passes_on(first_known_)) break;
    if (!demand(first_demand_, first_known_, done_slot(c_.skipped))) {
      first_need_ = need_;
      break;
    }
    first_done_[static_cast<size_t>(first_known_) % kKept] =
        time_at(diagonal(first_known_), done_slot(c_.skipped), 0);  // base_[0]: 0
    ++first_known_;
  }
  grant();
  while (oldest_ < messages_ && !open(last_need_)) {
    for (; created_ <= oldest_; ++created_) create(created_);
    if (!may_end(oldest_)) break;
    if (!demand(last_demand_, oldest_, diagonal(oldest_).end - 1)) {
      last_need_ = need_;
      break;
    }
    finish(oldest_++);
    if (oldest_ - kept_ > first_) rows_.release(diagonal(oldest_ - kept_ - 1).row);
  }
  if (first_known_ == messages_ || oldest_ == messages_) complete_first_node();
}

/// Whether what the first rank sends as message `m` has come; if not, first_need_. It is looked at
/// after every input, so that this is worth knowing beforehand.
bool ChainEvaluator::passes_on(int64_t m) {
  const int64_t p = m < per_loop_ ? m : m % per_loop_;
  const int64_t waits = p >= shift_ ? m - shift_ : m - p - 1;
  if (waits < arrived_) return true;
  first_need_ = {Need::Kind::kArrival, waits, 0};
  return false;
}

/// The same of the acknowledgement for which a diagonal's last message to a real rank waits.
bool ChainEvaluator::may_end(int64_t index) {
  const int64_t m = index + shift_ * int64_t{ranks_ - 1};
  if (c_.ends || m >= messages_ || m - window_ < acked_) return true;
  last_need_ = {Need::Kind::kAcknowledged, m - window_, 0};
  return false;
}

/// Credits of the first rank.
void ChainEvaluator::grant() {
  if (c_.begins || !entered(c_.skipped)) return;
  for (; credits_known_ < messages_; ++credits_known_) {
    const int64_t k = credits_known_ - window_;
    Time t = entries_[c_.skipped];
    if (k >= 0) {
      int64_t carried = k + shift_;
      const int64_t p = k < per_loop_ ? k : k % per_loop_;
      if (p + shift_ >= per_loop_) {
        if (arrived_ <= k) return;
        t = arrivals_[static_cast<size_t>(k)];
        carried = k - p + per_loop_ - 1;
      }
      if (first_known_ <= carried) return;
      t = std::max(t, first_done_[static_cast<size_t>(carried) % kKept]);
    }
    credits_[static_cast<size_t>(credits_known_) % kKept] = t;
  }
}

/// The diagonal is worked out.
void ChainEvaluator::finish(int64_t index) {
  const int64_t m = index + shift_ * int64_t{ranks_ - 1};
  if (m < messages_ && !c_.ends) {
    data_[static_cast<size_t>(m) % kKept] =
        time_at(diagonal(index), done_slot(gpus_ - 1), nodes_ - 1) + base_[nodes_ - 1];
    data_known_ = m + 1;
  }
  // Whose last message has come now: on a pipeline all at once.
  const auto ended = [&](uint32_t r) {
    Time used, came;
    done_at<false>(r / gpus_, r % gpus_, messages_ - 1, used);
    arrival<false>(r / gpus_, r % gpus_, messages_ - 1, came);
    complete(r, std::max(used, came));
  };
  if (shift_ == 0) {
    for (uint32_t r = gpus_; index + 1 == messages_ && r < ranks_; ++r) ended(r);
    return;
  }
  const int64_t before = index - shift_, left = messages_ - 1 - before;
  if (before < first_ || left > shift_ * int64_t{ranks_} || left % shift_ != 0) return;
  const int64_t rank = left / shift_;
  if (rank < ranks_ && rank >= gpus_) ended(static_cast<uint32_t>(rank));
}

void ChainEvaluator::complete(uint32_t rank, Time t) {
  completions_[rank] = t;
  ++completed_;
}

void ChainEvaluator::complete_first_node() {
  for (uint32_t r = c_.skipped; r < std::min(gpus_, ranks_); ++r) {
    if (!completions_[r].is_never()) continue;
    end_demand_.clear();
    if (!demand(end_demand_, messages_ - 1 - shift_ * r, done_slot(r))) continue;
    Time used, came = kLongBefore;
    if (r > c_.skipped) {
      end_demand_.clear();
      const uint32_t slot = c_.inside ? start_slot(r - 1) : done_slot(r - 1);
      if (!demand(end_demand_, messages_ - 1 - shift_ * (r - 1), slot)) continue;
    }
    const bool receives = r > c_.skipped || !c_.begins;
    if (receives && !arrival<false>(0, r, messages_ - 1, came)) continue;
    if (done_at<false>(0, r, messages_ - 1, used)) complete(r, std::max(used, came));
  }
}

}  // namespace understudy
