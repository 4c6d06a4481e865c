#include "dataplane/nccl/one_sided_rank.h"

#include <algorithm>

namespace understudy {
namespace {

constexpr size_t kPutsKept = 512;
constexpr uint64_t kSignalBytes = 8;

void add_to(std::atomic<uint64_t>& counter, uint64_t by) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

}  // namespace

OneSidedRank::OneSidedRank(OneSidedTraffic& traffic) : traffic_(traffic) {
  // All that the packet path may need.
  ranges_.reserve(kRanges);
  puts_.reserve(kPutsKept);
  answers_.resize(kAnswers);
}

void OneSidedRank::on_wake(Time now, uint64_t cookie) {
  if (cookie == kJoin) joined_ = true;
  SymmetricRange range;
  while (ranges_.size() < kRanges && added_.pop(range)) ranges_.push_back(range);
  post(now);
}

void OneSidedRank::on_received(Time, Qp&, const Received& message) {
  if (!message.is_write) return;
  add_to(traffic_.puts, 1);
  add_to(traffic_.put_bytes, message.length);
  if (puts_.size() < kPutsKept) {
    puts_.push_back({message.va, message.length});
  } else {
    add_to(traffic_.unanswered, 1);
  }
}

const SymmetricRange* OneSidedRank::range_of(uint64_t va, uint64_t bytes) const {
  const auto it = std::ranges::find_if(ranges_, [&](const SymmetricRange& r) {
    return va >= r.va && bytes <= r.bytes && va - r.va <= r.bytes - bytes;
  });
  return it == ranges_.end() ? nullptr : &*it;
}

/// In a collective all ranks put to the same place of their peers but for their own number: what the
/// real rank put into the slot of its number is answered into the slot of ours. Else to the same
/// place.
std::optional<WorkRequest> OneSidedRank::answer_to(const Put& put) const {
  const SymmetricRange* const range = range_of(put.va, put.bytes);
  if (range == nullptr) return std::nullopt;
  uint64_t offset = put.va - range->va;
  if (bare_) {
    const uint64_t ahead = uint64_t{range->real} * put.bytes,
                   own = uint64_t{range->rank} * put.bytes;
    const bool fits = offset >= ahead && offset - ahead + own <= range->bytes - put.bytes;
    if (!fits) return std::nullopt;
    offset = offset - ahead + own;
  }
  WorkRequest write;
  write.op = WorkOp::kWrite;
  write.id = put.bytes;
  write.remote_va = range->real_va + offset;
  write.rkey = range->real_rkey;
  write.length = static_cast<uint32_t>(put.bytes);
  write.payload.bytes = range->contents;
  write.payload.offset = offset;
  return write;
}

void OneSidedRank::queue(const WorkRequest& request) {
  if (end_ - first_ == kAnswers) return add_to(traffic_.unanswered, 1);
  answers_[end_++ % kAnswers] = request;
}

/// Where a signal is answered at the real rank, as an offset. One of the RMA proxy, in its own rank's
/// place. GIN's barriers have a signal of each rank, in their order, and no data
/// (gin_barrier__funcs.h); with data comes the one that the kernel names to all its peers.
std::optional<uint64_t> OneSidedRank::signal_for(const SymmetricRange& range, uint64_t va,
                                                 bool bare) {
  using Signals = SymmetricRange::Signals;
  const uint64_t offset = va - range.va;
  if (range.signals == Signals::kNone || (range.signals == Signals::kNamed && !bare)) {
    return offset;
  }
  const uint64_t first =
      range.signals == Signals::kNamed ? offset - uint64_t{range.real} * kSignalBytes : 0;
  if (first > offset) return std::nullopt;
  const uint64_t own = first + uint64_t{range.rank} * kSignalBytes;
  if (own + kSignalBytes > range.bytes) return std::nullopt;
  return own;
}

void OneSidedRank::on_atomic(Time now, Qp&, uint64_t va, uint64_t operand) {
  add_to(traffic_.signals, 1);
  const SymmetricRange* const range = range_of(va, kSignalBytes);
  const bool of_ranks = range != nullptr && range->signals == SymmetricRange::Signals::kOfRanks;
  for (const Put& put : puts_) {
    chunked_ = of_ranks && put.bytes > kMayBeChunk && (bare_ || chunked_);
    if (chunked_) {
      add_to(traffic_.chunks, 1);
      continue;
    }
    const auto answer = answer_to(put);
    if (answer) {
      queue(*answer);
    } else {
      add_to(traffic_.unanswered, 1);
    }
  }
  bare_ = puts_.empty();
  puts_.clear();
  const auto to = range == nullptr ? std::nullopt : signal_for(*range, va, bare_);
  if (!to) return add_to(traffic_.unanswered, 1);
  WorkRequest signal;
  signal.op = WorkOp::kFetchAdd;
  signal.remote_va = range->real_va + *to;
  signal.rkey = range->real_rkey;
  signal.compare_add = operand;
  queue(signal);
  post(now);
}

void OneSidedRank::post(Time now) {
  while (joined_ && !failed_ && first_ != end_) {
    const WorkRequest& next = answers_[first_ % kAnswers];
    if (!host_->post(now, *out_, next)) return;
    if (next.op == WorkOp::kWrite) {
      add_to(traffic_.answers, 1);
      add_to(traffic_.answer_bytes, next.length);
    }
    ++first_;
  }
}

void OneSidedRank::on_completed(Time now, Qp&, uint64_t, WorkStatus status) {
  if (status == WorkStatus::kSuccess) return post(now);
  if (!failed_) add_to(traffic_.failed, 1);
  failed_ = true;
}

}  // namespace understudy
