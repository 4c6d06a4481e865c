#include "ctrl/peers/nccl/bootstrap/ring_gather.h"

#include <algorithm>

#include "ctrl/peers/nccl/bootstrap/frames.h"

namespace understudy {
namespace {

/// How far a real rank may be sent slices ahead of what it is seen to have got to: enough that it
/// does not wait for us at each step, little enough that it is no memory to speak of.
constexpr uint32_t kBytesAhead = 65536;
constexpr size_t kBytesAtOnce = 65536;

}  // namespace

RingGather::RingGather(const RingShape& shape, const std::vector<NcclMember>& members,
                       RingGatherUser& user)
    : shape_(shape), user_(user), real_index_(members.size(), kNotReal) {
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    if (members[rank].real) real_index_[rank] = real_ranks_++;
  }
  const size_t ends = 2 * shape.segments().size();
  sent_.resize(ends);
  received_.resize(ends);
  open_.resize(ends);
  waiting_.resize(real_ranks_);
}

uint32_t RingGather::steps_sent(bool to_first) const {
  return to_first ? shape_.steps_forward() : shape_.steps_backward();
}

uint32_t RingGather::steps_received(bool from_first) const { return steps_sent(!from_first); }

uint32_t RingGather::received_slice(size_t segment, bool from_first, uint32_t step) const {
  const RingSegment& s = shape_.segments()[segment];
  return (from_first ? s.first + step : s.last + shape_.ranks() - step) % shape_.ranks();
}

uint32_t RingGather::sent_slice(size_t segment, bool to_first, uint32_t step) const {
  const RingSegment& s = shape_.segments()[segment];
  return (to_first ? s.before + shape_.ranks() - step : s.after + step) % shape_.ranks();
}

void RingGather::open(size_t segment, bool to_first) {
  open_[end(segment, to_first)] = true;
  pump(segment, to_first);
}

bool RingGather::all_open() const {
  return std::all_of(open_.begin(), open_.end(), [](bool open) { return open; });
}

void RingGather::size_came(size_t segment, bool from_first, uint32_t size) {
  if (failed_) return;
  Flow& flow = received_[end(segment, from_first)];
  const uint32_t rank =
      from_first ? shape_.segments()[segment].first : shape_.segments()[segment].last;
  bool begins = false;
  if (flow.gather == begun_) {
    if (!user_.gather_begins(begun_, rank, size)) {
      failed_ = true;
      return;
    }
    gathers_.push_back(
        {size, 0, std::vector<std::vector<uint8_t>>(real_ranks_), std::vector<bool>(real_ranks_)});
    ++begun_;
    begins = true;
  } else if (gather(flow.gather).size != size) {
    failed_ = true;
    user_.ring_failed("rank " + std::to_string(rank) + " announces " + std::to_string(size) +
                      " bytes of a rank where others had " +
                      std::to_string(gather(flow.gather).size) +
                      ": do all real ranks run the same NCCL?");
    return;
  }
  flow.size_done = true;
  if (begins) return pump_all();
  pump(segment, true);
  pump(segment, false);
}

void RingGather::payload_came(size_t segment, bool from_first, std::span<const uint8_t> payload) {
  if (failed_) return;
  Flow& flow = received_[end(segment, from_first)];
  const uint64_t number = flow.gather;
  const uint32_t rank = received_slice(segment, from_first, flow.step);
  flow.size_done = false;
  if (++flow.step == steps_received(from_first)) {
    flow.step = 0;
    ++flow.gather;
    wrapped_ = true;
  }
  const uint32_t index = real_index_[rank];
  if (index != kNotReal && !gather(number).have[index]) {
    Gather& g = gather(number);
    g.have[index] = true;
    g.slices[index].assign(payload.begin(), payload.end());
    ++g.came;
    const bool all = g.came == real_ranks_;
    user_.slice_came(number, rank, payload);
    if (all) user_.gather_came(number);
    std::vector<size_t> woken;
    woken.swap(waiting_[index]);
    for (const size_t e : woken) pump(e / 2, e % 2 == 0);
  }
  drop_done();
}

bool RingGather::may_send(size_t segment, bool to_first, const Flow& flow) const {
  if (flow.gather >= begun_) return false;
  const uint32_t ahead =
      std::max(kBytesAhead / std::max(gathers_[flow.gather - dropped_].size, 1u), 1u);
  // Where the real ranks of the segment are is seen best at the end that this socket leads to; only
  // if that one says nothing, at the other.
  const bool from_first = to_first && steps_received(true) > 0;
  const Flow& seen = received_[end(segment, from_first)];
  if (seen.gather > flow.gather) return true;
  const uint32_t reached = seen.gather < flow.gather ? 0 : seen.step + (seen.size_done ? 1 : 0);
  return flow.step <= reached + ahead;
}

/// Whether the slice of that real rank is not here; the end goes on once it is.
bool RingGather::waits(size_t end, const Gather& gather, uint32_t real) {
  const uint32_t index = real_index_[real];
  if (gather.have[index]) return false;
  auto& waiting = waiting_[index];
  if (std::find(waiting.begin(), waiting.end(), end) == waiting.end()) waiting.push_back(end);
  return true;
}

bool RingGather::waits_for_others(size_t end, const Gather& gather, uint32_t emulated) {
  for (uint32_t rank = 0; gather.came < real_ranks_ && rank < shape_.ranks(); ++rank) {
    if (real_index_[rank] == kNotReal || !shape_.comes_before(rank, emulated)) continue;
    if (waits(end, gather, rank)) return true;
  }
  return false;
}

void RingGather::pump(size_t segment, bool to_first) {
  const size_t e = end(segment, to_first);
  Flow& flow = sent_[e];
  const uint32_t steps = steps_sent(to_first);
  if (failed_ || !open_[e] || steps == 0) return;
  out_.clear();
  while (may_send(segment, to_first, flow)) {
    Gather& g = gather(flow.gather);
    if (!flow.size_done) {
      append_frame_size(out_, g.size);
      flow.size_done = true;
    }
    const uint32_t rank = sent_slice(segment, to_first, flow.step);
    const bool real = real_index_[rank] != kNotReal;
    std::span<const uint8_t> slice;
    if (real || user_.copies(flow.gather)) {
      const uint32_t index = real_index_[real ? rank : shape_.model_of(rank)];
      if (waits(e, g, real ? rank : shape_.model_of(rank))) break;
      slice = g.slices[index];
    }
    if (!real && user_.follows_all(flow.gather) && waits_for_others(e, g, rank)) break;
    if (real) {
      out_.insert(out_.end(), slice.begin(), slice.end());
    } else {
      user_.append_slice(flow.gather, rank, slice, out_);
    }
    flow.size_done = false;
    if (++flow.step == steps) {
      flow.step = 0;
      ++flow.gather;
      wrapped_ = true;
    }
    if (out_.size() >= kBytesAtOnce) {
      user_.ring_send(segment, to_first, out_);
      out_.clear();
    }
  }
  if (!out_.empty()) user_.ring_send(segment, to_first, out_);
}

void RingGather::pump_all() {
  for (size_t segment = 0; segment < shape_.segments().size(); ++segment) {
    pump(segment, true);
    pump(segment, false);
  }
}

void RingGather::drop_done() {
  if (!wrapped_) return;
  wrapped_ = false;
  const auto past = [&](const std::vector<Flow>& flows, bool sent) {
    for (size_t e = 0; e < flows.size(); ++e) {
      const uint32_t steps = sent ? steps_sent(e % 2 == 0) : steps_received(e % 2 == 0);
      if (steps > 0 && flows[e].gather <= dropped_) return false;
    }
    return true;
  };
  while (!gathers_.empty() && gathers_.front().came == real_ranks_ && past(received_, false) &&
         past(sent_, true)) {
    gathers_.pop_front();
    ++dropped_;
  }
}

bool RingGather::at_rest(size_t segment) const {
  for (const bool first : {true, false}) {
    const Flow& in = received_[end(segment, first)];
    const Flow& out = sent_[end(segment, first)];
    if (steps_received(first) > 0 && (in.gather != begun_ || in.size_done)) return false;
    if (steps_sent(first) > 0 && out.gather != begun_) return false;
  }
  return true;
}

bool RingGather::only_forward() const {
  if (steps_received(true) == 0) return false;
  const auto nothing = [](const Flow& f) { return f.gather == 0 && f.step == 0 && !f.size_done; };
  for (size_t segment = 0; segment < shape_.segments().size(); ++segment) {
    if (nothing(received_[end(segment, false)]) || !nothing(received_[end(segment, true)])) {
      return false;
    }
  }
  return true;
}

bool RingGather::under_way(Progress& progress) const {
  bool any = false;
  for (size_t e = 0; e < received_.size(); ++e) {
    const bool first = e % 2 == 0;
    if (steps_received(first) == 0 || received_[e].gather == begun_) continue;
    any = true;
    const RingSegment& s = shape_.segments()[e / 2];
    progress.awaited.push_back(first ? s.first : s.last);
  }
  if (!any) return false;
  const Gather& g = gathers_.back();
  progress.gather = begun_ - 1;
  progress.size = g.size;
  progress.came = g.came;
  progress.real = real_ranks_;
  std::sort(progress.awaited.begin(), progress.awaited.end());
  progress.awaited.erase(std::unique(progress.awaited.begin(), progress.awaited.end()),
                         progress.awaited.end());
  return true;
}

}  // namespace understudy
