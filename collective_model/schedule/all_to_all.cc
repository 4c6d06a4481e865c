#include "collective_model/schedule/all_to_all.h"

#include <algorithm>

#include "collective_model/nccl/chunking.h"

namespace understudy {

AllToAll::AllToAll(const Communicator& communicator, const Operation& operation)
    : communicator_(communicator),
      operation_(operation),
      rounds_(communicator),
      ranks_(communicator.ranks()),
      size_(rounds_.group_size()),
      groups_(ranks_ / size_),
      group_of_(ranks_),
      steps_(communicator.p2p_channels()),
      batch_ends_(steps_.size()) {
  for (uint32_t rank = 0; rank < ranks_; ++rank) group_of_[rank] = rank / size_;
  if (even()) {
    parts_ = full_parts_ = parts_of(0, 1);
    while (full_parts_ > 1 && part(0, 1, full_parts_ - 1).messages == 0) --full_parts_;
  } else {
    parts_ = communicator.p2p_channels_per_peer();
    alike_ = parts_ == 1 &&
             std::ranges::find(operation.pair_bytes, kNoPair) == operation.pair_bytes.end();
  }
  for (uint32_t round = 0; round < ranks_; ++round) {
    // As the first rank meets them.
    const uint32_t to = rounds_.of(0, round).to;
    for (uint32_t part = 0; part < parts_; ++part) {
      steps_[p2p_channel(communicator, round, part)].push_back(
          {round, part, to / size_, to % size_});
    }
  }
  for (uint32_t channel = 0; channel < channels() && alike_; ++channel) {
    const auto count = static_cast<uint32_t>(steps_[channel].size());
    batch_ends_[channel].resize(count);
    for (uint32_t first = 0; first < count;) {
      const uint32_t end = find_batch_end(channel, 0, first);
      batch_ends_[channel][first] = end;
      first = end;
    }
  }
}

/// Whether a rank does something then, if only a copy.
bool AllToAll::takes(uint32_t rank, const Step& step) const {
  if (alike_) return true;
  const P2pRound peer = peers(rank, step);
  return step.part < std::max(parts_of(rank, peer.to), parts_of(peer.from, rank));
}

uint32_t AllToAll::find_batch_end(uint32_t channel, uint32_t rank, uint32_t first) const {
  const std::vector<Step>& steps = steps_[channel];
  uint32_t first_round = 0, count = 0;
  for (; first < steps.size(); ++first) {
    if (!takes(rank, steps[first])) continue;
    const uint32_t round = steps[first].round;
    if (count == 0) first_round = round;
    if (count != 0 && !joins_p2p_batch(communicator_.version, first_round, count, round)) break;
    ++count;
  }
  return first;
}

AllToAll::Part AllToAll::part(uint32_t from, uint32_t to, uint32_t part) const {
  const uint64_t all = bytes(from, to);
  if (all == kNoPair) return {};
  const P2pCut cut = p2p_cut(communicator_, all, !communicator_.local(from, to));
  if (part >= cut.parts) return {};
  const uint64_t begin = std::min(part * cut.part_bytes, all);
  const uint64_t own = std::min(all - begin, cut.part_bytes);
  if (all == 0) return {1, cut.chunk, 0};
  if (own == 0) return {};
  const uint64_t messages = ceil_div(own, uint64_t{cut.chunk});
  return {messages, cut.chunk, static_cast<uint32_t>(own - (messages - 1) * cut.chunk)};
}

uint32_t AllToAll::connection(uint32_t rank, uint32_t round, uint32_t own, bool receives) const {
  // The first round is the rank's with itself.
  if (alike_) return ((round - 1) * full_parts_ + own) * 2 + (receives ? 1 : 0);
  uint32_t position = 0;
  for (uint32_t r = 1; r <= round; ++r) {
    const P2pRound peer = rounds_.of(rank, r);
    for (uint32_t p = 0; p < parts_; ++p) {
      if (r == round && p == own && !receives) return position;
      if (part(rank, peer.to, p).messages != 0) ++position;
      if (r == round && p == own) return position;
      if (part(peer.from, rank, p).messages != 0) ++position;
    }
  }
  return position;
}

std::vector<FarEnd> AllToAll::far_ends(const RankSchedule& schedule) const {
  std::vector<FarEnd> ends;
  ends.reserve(schedule.connections().size());
  for (const Connection& c : schedule.connections()) {
    const bool sends = c.direction == Direction::kSend;
    const uint32_t far = sends ? c.to : c.from, round = rounds_.between(c.from, c.to);
    uint32_t part = 0;
    while (p2p_channel(communicator_, round, part) != c.channel) ++part;
    ends.push_back({far, connection(far, round, part, sends)});
  }
  return ends;
}

uint32_t AllToAll::ways_out(uint32_t rank) const {
  uint32_t ways = 0;
  const uint32_t first = rank / communicator_.gpus * communicator_.gpus;
  for (uint32_t to = first; to < first + communicator_.gpus; ++to) {
    if (to == rank) continue;
    for (uint32_t p = 0; p < parts_; ++p) ways += part(rank, to, p).messages != 0 ? 1 : 0;
  }
  return ways;
}

}  // namespace understudy
