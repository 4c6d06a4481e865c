#include "collective_model/inference/pair_operation.h"

#include <algorithm>
#include <optional>
#include <string>

#include "collective_model/schedule/p2p.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

std::optional<uint64_t> at(const std::map<uint32_t, uint64_t>& by_peer, uint32_t peer) {
  const auto found = by_peer.find(peer);
  if (found == by_peer.end()) return std::nullopt;
  return found->second;
}

/// Of which each pair's bytes are kept: half a gigabyte.
constexpr uint32_t kMostListedRanks = 8192;

std::string text_of(const std::optional<uint64_t>& bytes) {
  return bytes ? std::to_string(*bytes) + " bytes" : "nothing";
}

Result<void> check(const Communicator& communicator, std::span<const RankPairs> real) {
  for (const RankPairs& a : real) {
    for (const auto* peers : {&a.sends, &a.receives}) {
      for (const auto& [peer, bytes] : *peers) {
        if (peer < communicator.ranks()) continue;
        return fail("rank " + std::to_string(a.rank) +
                    (peers == &a.sends ? " sends to" : " receives from") + " rank " +
                    std::to_string(peer) + " of " + std::to_string(communicator.ranks()));
      }
    }
    for (const RankPairs& b : real) {
      const auto sent = at(a.sends, b.rank), received = at(b.receives, a.rank);
      if (sent == received) continue;
      return fail("rank " + std::to_string(a.rank) + " sends " + text_of(sent) + " to rank " +
                  std::to_string(b.rank) + ", which receives " + text_of(received));
    }
  }
  return {};
}

/// What all ranks send at each distance, if they do the same.
std::optional<std::map<uint32_t, uint64_t>> distances(uint32_t ranks,
                                                      std::span<const RankPairs> real) {
  std::optional<std::map<uint32_t, uint64_t>> first;
  const auto alike = [](const auto& a, const auto& b) { return a.first == b.first; };
  for (const RankPairs& r : real) {
    std::map<uint32_t, uint64_t> to, from;
    for (const auto& [peer, bytes] : r.sends) to[(peer + ranks - r.rank) % ranks] = bytes;
    for (const auto& [peer, bytes] : r.receives) from[(r.rank + ranks - peer) % ranks] = bytes;
    if (!first) first = to;
    if (!std::ranges::equal(to, *first, alike) || !std::ranges::equal(from, *first, alike)) {
      return std::nullopt;
    }
  }
  return first;
}

/// The one size of all that the real ranks send and receive.
std::optional<uint64_t> common_size(std::span<const RankPairs> real) {
  std::optional<uint64_t> size;
  for (const RankPairs& r : real) {
    for (const auto* peers : {&r.sends, &r.receives}) {
      for (const auto& [peer, bytes] : *peers) {
        if (!size) size = bytes;
        if (size != bytes) return std::nullopt;
      }
    }
  }
  return size;
}

/// The real rank that sends to all ranks (or receives from all), itself included, while the other
/// real ones do nothing else than to take part in that.
std::optional<uint32_t> root_of(uint32_t ranks, std::span<const RankPairs> real, bool sends) {
  const auto out = [&](const RankPairs& r) -> const auto& { return sends ? r.sends : r.receives; };
  const auto in = [&](const RankPairs& r) -> const auto& { return sends ? r.receives : r.sends; };
  const auto root =
      std::ranges::find_if(real, [&](const auto& r) { return out(r).size() == ranks; });
  if (root == real.end()) return std::nullopt;
  for (const RankPairs& r : real) {
    if (in(r).size() != 1 || !in(r).contains(root->rank)) return std::nullopt;
    if (&r != &*root && !out(r).empty()) return std::nullopt;
  }
  return root->rank;
}

}  // namespace

Result<Operation> pair_operation(const Communicator& communicator,
                                 std::span<const RankPairs> real) {
  TRY(check(communicator, real));
  const uint32_t ranks = communicator.ranks();
  const auto by_distance = distances(ranks, real);
  Operation o;
  o.type = DataType::kInt8;
  if (const auto size = common_size(real)) {
    o.count = *size;
    o.collective = Collective::kAllToAll;
    if (by_distance && by_distance->size() == ranks) return o;
    o.collective = Collective::kSendRecv;
    if (by_distance && by_distance->size() == 1 && by_distance->contains(1)) return o;
    for (const bool sends : {true, false}) {
      const auto root = root_of(ranks, real, sends);
      if (!root) continue;
      o.collective = sends ? Collective::kScatter : Collective::kGather;
      o.root = *root;
      return o;
    }
  }
  if (ranks > kMostListedRanks) {
    return fail("sizes that differ, of " + std::to_string(ranks) + " ranks; at most " +
                std::to_string(kMostListedRanks) + " can be listed pair by pair");
  }
  o.count = 0;
  o.collective = Collective::kAllToAllV;
  o.pair_bytes.assign(uint64_t{ranks} * ranks, kNoPair);
  const auto pair = [&](uint32_t from, uint32_t to) -> uint64_t& {
    return o.pair_bytes[uint64_t{from} * ranks + to];
  };
  for (uint32_t rank = 0; by_distance && rank < ranks; ++rank) {
    for (const auto& [distance, bytes] : *by_distance)
      pair(rank, (rank + distance) % ranks) = bytes;
  }
  for (const RankPairs& r : real) {
    for (const auto& [peer, bytes] : r.sends) pair(r.rank, peer) = bytes;
    for (const auto& [peer, bytes] : r.receives) pair(peer, r.rank) = bytes;
  }
  return o;
}

}  // namespace understudy
