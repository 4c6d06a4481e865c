#include "tools/rigs/ring_node/values/rank_values.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tools/rigs/ring_node/values/plain_collective.h"

namespace understudy {
namespace {

/// Of one rank.
uint64_t input_bytes(const Operation& o, uint32_t ranks) {
  const bool parts = o.collective == Collective::kReduceScatter ||
                     o.collective == Collective::kAllToAll || o.collective == Collective::kScatter;
  return o.bytes() * (parts ? ranks : 1);
}

void append(RankResult& all, const plain::Collective::Result& one) {
  all.bytes.insert(all.bytes.end(), one.bytes.begin(), one.bytes.end());
  all.moved.insert(all.moved.end(), one.moved.begin(), one.moved.end());
}

/// Bytes [from, from + out.size()) of a contribution: from an element's begin on where it is
/// reduced, anywhere where it is only moved.
void contribute(DataType type, const Pattern& own, uint64_t from, std::span<uint8_t> out) {
  const uint64_t each = element_bytes(type);
  for (uint64_t done = 0; done < out.size();) {
    const uint64_t at = from + done, skip = at % each;
    const uint64_t count = std::min<uint64_t>(each - skip, out.size() - done);
    const uint64_t value = plain::contribution(type, own, at / each) >> 8 * skip;
    std::memcpy(out.data() + done, &value, count);
    done += count;
  }
}

}  // namespace

uint64_t bytes_of_plain(const Communicator& communicator, std::span<const Operation> operations) {
  uint64_t most = 0, results = 0;
  const uint64_t n = communicator.ranks();
  for (const Operation& o : operations) {
    uint64_t all = 0;
    for (const uint64_t bytes : o.pair_bytes) all += bytes == kNoPair ? 0 : bytes;
    if (o.pair_bytes.empty()) all = n * input_bytes(o, communicator.ranks());
    most = std::max(most, all);
    results += o.collective == Collective::kAllGather ? n * all : all;
  }
  // Inputs, and what they become, of one operation at a time.
  return 2 * most + results;
}

std::vector<RankResult> plain_results(const Communicator& communicator,
                                      std::span<const Operation> operations, ReduceOp reduction,
                                      const std::vector<uint64_t>& seeds) {
  std::vector<OperationCut> cuts(operations.size());
  if (!is_p2p(operations.front().collective)) {
    if (auto made = cut_group(communicator, operations)) cuts = std::move(*made);
  }
  std::vector<RankResult> all(communicator.ranks());
  for (size_t i = 0; i < operations.size(); ++i) {
    const auto ranks = rank_schedules(communicator, operations[i], cuts[i]);
    plain::Collective collective(communicator, operations[i], reduction, ranks, seeds);
    const auto results = collective.results();
    for (uint32_t r = 0; r < all.size(); ++r) append(all[r], results[r]);
  }
  return all;
}

RankValues::RankValues(const RankSchedule& schedule, DataType type, ReduceOp reduction,
                       const Pattern& own)
    : schedule_(schedule), type_(type), reduction_(reduction), own_(own) {
  for (const Connection& c : schedule.connections()) came_.emplace_back(c.messages);
}

void RankValues::take(uint32_t connection, uint64_t k, std::vector<uint8_t> data) {
  came_[connection][k] = std::move(data);
}

/// Its own, then what has come, in the part's order.
std::vector<uint8_t> RankValues::made(const ValuePart& part) const {
  const size_t each = element_bytes(type_);
  std::vector<uint8_t> out(part.bytes);
  if (part.own) contribute(type_, own_, part.from, out);
  for (uint32_t s = 0; s < part.size(); ++s) {
    const std::vector<uint8_t>& other = came_[part[s].connection][part[s].message];
    if (other.size() < part[s].at + out.size()) return {};  // a result without it is wrong
    if (!part.own && s == 0) {
      std::copy_n(other.begin() + part[s].at, out.size(), out.begin());
      continue;
    }
    for (size_t b = 0; b < out.size(); b += each) {
      uint64_t x = 0, y = 0;
      std::memcpy(&x, out.data() + b, each);
      std::memcpy(&y, other.data() + part[s].at + b, each);
      x = plain::reduced(type_, reduction_, x, y);
      std::memcpy(out.data() + b, &x, each);
    }
  }
  return out;
}

std::vector<uint8_t> RankValues::made(uint32_t connection, uint64_t k) const {
  std::vector<uint8_t> data(schedule_.message(connection, k).data);
  for (uint32_t i = 0; i < schedule_.value_parts(connection, k); ++i) {
    const ValuePart part = schedule_.value_part(connection, k, i);
    std::ranges::copy(made(part), data.begin() + part.at);
  }
  return data;
}

uint64_t RankValues::wrong(const RankResult& right) const {
  const size_t each = element_bytes(type_);
  std::vector<int> times(right.bytes.size());
  std::vector<bool> bad((right.bytes.size() + each - 1) / each);
  for (uint32_t c = 0; c < came_.size(); ++c) {
    if (schedule_.connections()[c].direction != Direction::kReceive) continue;
    for (uint64_t k = 0; k < came_[c].size(); ++k) {
      for (uint32_t i = 0; i < schedule_.result_parts(c, k); ++i) {
        const ValuePart part = schedule_.result_part(c, k, i);
        const std::vector<uint8_t> result = made(part);
        for (size_t b = 0; b < result.size(); ++b) {
          const size_t at = part.to + b;
          ++times[at];
          if (result[b] != right.bytes[at]) bad[at / each] = true;
        }
      }
    }
  }
  for (size_t b = 0; b < times.size(); ++b) {
    if (times[b] != (right.moved[b] ? 1 : 0)) bad[b / each] = true;
  }
  return static_cast<uint64_t>(std::ranges::count(bad, true));
}

}  // namespace understudy
