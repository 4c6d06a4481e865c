#include "collective_model/inference/pair_inference.h"

#include <algorithm>
#include <array>
#include <utility>

#include "collective_model/nccl/chunking.h"
#include "collective_model/schedule/p2p.h"

namespace understudy {

PairInference::PairInference(Communicator communicator, std::vector<uint32_t> real,
                             std::vector<PairConnection> connections)
    : communicator_(std::move(communicator)),
      real_(std::move(real)),
      rounds_(communicator_),
      connections_(std::move(connections)),
      at_(connections_.size()) {
  for (uint32_t c = 0; c < connections_.size(); ++c) {
    const PairConnection& connection = connections_[c];
    auto rank = std::ranges::find(ranks_, connection.real, &Rank::rank);
    if (rank == ranks_.end()) {
      ranks_.push_back({connection.real, {}});
      rank = ranks_.end() - 1;
    }
    rank->connections.push_back(c);
    rank_of_.push_back(static_cast<size_t>(rank - ranks_.begin()));
    const uint32_t from = connection.to_real ? connection.far : connection.real;
    const uint32_t to = connection.to_real ? connection.real : connection.far;
    auto pair =
        std::ranges::find_if(pairs_, [&](const Pair& p) { return p.from == from && p.to == to; });
    if (pair == pairs_.end()) {
      pairs_.push_back({from, to, connection.to_real, {}, rank_of_.back()});
      pair = pairs_.end() - 1;
    }
    pair->connections.push_back(c);
    pair_of_.push_back(static_cast<size_t>(pair - pairs_.begin()));
  }
}

/// Messages of so many bytes may have others behind them.
bool PairInference::is_chunk(uint32_t bytes) const {
  const uint64_t step = communicator_.buffers.p2p_chunk;
  return std::ranges::any_of(std::array<uint64_t, 3>{0, step, 8 * step}, [&](uint64_t least) {
    return bytes == p2p_cut(communicator_, least, true).chunk;
  });
}

/// The next message or credit of a connection may be of the same operation.
bool PairInference::may_go_on(const Use& use, bool credit, uint32_t bytes) const {
  if (use.messages == 0) return true;
  if (!is_chunk(use.size)) return false;
  return credit ? bytes == use.size : use.last == use.size && bytes <= use.size;
}

/// The next message or credit of a connection is of the operation that is `part`, as far as can be
/// told.
bool PairInference::belongs(const Rank& rank, size_t part, uint32_t connection, bool credit,
                            uint32_t bytes) const {
  const std::vector<Use>& uses = rank.parts[part].uses;
  if (rank.parts[part].over || !may_go_on(uses[connection], credit, bytes)) return false;
  const bool newest = part + 1 == rank.parts.size();
  // A rank begins an operation when it has received all of the one before. What it had to send then
  // may still be on its way.
  if (!credit) return newest || part != 0 || pending(connection);
  if (!newest) return false;
  if (rank.outstanding != 0 || !rank.parts[part].begun) return true;
  // A connection whose turn comes later has had its first credits only.
  if (uses[connection].messages != Chunking::kBufferSteps) return false;
  return std::ranges::any_of(uses,
                             [](const Use& use) { return use.messages > Chunking::kBufferSteps; });
}

/// What a real rank sends in the first operation may not have come wholly on a connection.
bool PairInference::pending(uint32_t connection) const {
  const PairConnection& c = connections_[connection];
  const Use& u = ranks_[rank_of_[connection]].parts.front().uses[connection];
  if (at_[connection] > reported_ || c.to_real) return false;
  return !expected_ || (u.messages < due_[connection] && may_go_on(u, false, 0));
}

void PairInference::take(uint32_t connection, bool credit, uint32_t bytes) {
  if (lost_) return;
  Rank& rank = ranks_[rank_of_[connection]];
  if (bytes > communicator_.buffers.p2p_chunk) {
    lost_ = std::string(credit ? "a credit" : "a message") + " of " + std::to_string(bytes) +
            " bytes on channel " + std::to_string(connections_[connection].channel) +
            " between rank " + std::to_string(rank.rank) + " and rank " +
            std::to_string(connections_[connection].far) + ": no send or receive has so large ones";
    return;
  }
  uint64_t& at = at_[connection];
  for (at = std::max(at, reported_);; ++at) {
    if (at - reported_ == rank.parts.size()) {
      rank.parts.push_back({std::vector<Use>(connections_.size())});
    }
    if (belongs(rank, at - reported_, connection, credit, bytes)) break;
  }
  Part& part = rank.parts[at - reported_];
  part.begun = true;
  part.still = false;
  Use& use = part.uses[connection];
  if (use.messages++ == 0) use.size = bytes;
  use.last = bytes;
  use.bytes += bytes;
  if (credit) ++rank.outstanding;
  if (expected_ && at == reported_ && use.messages == due_[connection]) --rank.left;
  end_expected(rank);
}

void PairInference::on_credit(uint32_t connection, uint32_t capacity) {
  take(connection, true, capacity);
}

void PairInference::on_data(uint32_t connection, uint32_t bytes) { take(connection, false, bytes); }

void PairInference::on_acknowledged(uint32_t connection) {
  Rank& rank = ranks_[rank_of_[connection]];
  if (rank.outstanding > 0) --rank.outstanding;
  end_expected(rank);
}

void PairInference::settle(uint32_t real) {
  const auto rank = std::ranges::find(ranks_, real, &Rank::rank);
  if (rank == ranks_.end() || rank->parts.empty()) return;
  Part& part = rank->parts.front();
  part.still = true;
  part.over |= rank->parts.size() > 1 || rank->outstanding == 0;
}

bool PairInference::waits(uint32_t real) const {
  const auto rank = std::ranges::find(ranks_, real, &Rank::rank);
  return rank != ranks_.end() && rank->outstanding != 0;
}

void PairInference::finish() {
  for (Rank& rank : ranks_) {
    for (Part& part : rank.parts) part.over = true;
  }
}

void PairInference::expect(const Operation& operation, bool before) {
  expected_ = operation;
  before_ = before;
  due_.assign(connections_.size(), 0);
  round_bytes_ = 0;
  for (Rank& rank : ranks_) rank.left = 0;
  for (const Pair& pair : pairs_) {
    const auto bytes = pair_bytes(communicator_, operation, pair.from, pair.to);
    if (!bytes) continue;
    const std::vector<Piece> all = pieces(pair, *bytes);
    for (const uint32_t c : pair.connections) {
      const auto piece = std::ranges::find(all, connections_[c].channel, &Piece::channel);
      if (piece == all.end()) continue;
      due_[c] = piece->messages;
      if (!pair.to_real) round_bytes_ += piece->size;
      if (use(pair, c).messages < due_[c]) ++ranks_[pair.rank].left;
    }
  }
  for (Rank& rank : ranks_) end_expected(rank);
}

/// The rank's first operation is over if what is expected has come, and nothing else; or if the
/// rank has gone on, and all that it sent has come.
void PairInference::end_expected(Rank& rank) {
  if (!expected_ || rank.parts.empty() || rank.parts.front().over) return;
  const bool gone_on = rank.parts.size() > 1;
  bool over =
      gone_on && std::ranges::none_of(rank.connections, [&](uint32_t c) { return pending(c); });
  if (!over && rank.left == 0 && (gone_on || rank.outstanding == 0)) {
    over = std::ranges::all_of(pairs_, [&](const Pair& pair) {
      return &ranks_[pair.rank] != &rank || (whole(pair, *expected_) && (before_ || ended(pair)));
    });
  }
  rank.parts.front().over = over;
}

/// Whether a pair that may have ended has, where that was not there before: what is received has,
/// as all that was granted has come; what is sent has, if its last message is shorter, or real
/// ranks receive as much.
bool PairInference::ended(const Pair& pair) const {
  if (pair.to_real) return true;
  if (exact(pair, false)) return true;
  return std::ranges::any_of(pairs_, [&](const Pair& other) {
    return other.to_real && seen(other) &&
           pair_bytes(communicator_, *expected_, other.from, other.to) ==
               pair_bytes(communicator_, *expected_, pair.from, pair.to);
  });
}

/// All of an operation has come of a pair.
bool PairInference::whole(const Pair& pair, const Operation& operation) const {
  const auto bytes = pair_bytes(communicator_, operation, pair.from, pair.to);
  return bytes ? fits(pair, *bytes, true) : !seen(pair);
}

PairInference::Use PairInference::use(const Pair& pair, uint32_t connection) const {
  const Rank& rank = ranks_[pair.rank];
  return rank.parts.empty() ? Use() : rank.parts.front().uses[connection];
}

bool PairInference::seen(const Pair& pair) const {
  return std::ranges::any_of(pair.connections,
                             [&](uint32_t c) { return use(pair, c).messages != 0; });
}

/// How bytes of a pair are cut.
std::vector<PairInference::Piece> PairInference::pieces(const Pair& pair, uint64_t bytes) const {
  const uint32_t round = rounds_.between(pair.from, pair.to);
  const P2pCut cut = p2p_cut(communicator_, bytes, true);
  std::vector<Piece> all;
  for (uint32_t part = 0; part < cut.parts; ++part) {
    const uint64_t begin = std::min(part * cut.part_bytes, bytes);
    const uint64_t own = std::min(bytes - begin, cut.part_bytes);
    const uint64_t messages = bytes == 0 ? 1 : ceil_div(own, cut.chunk);
    if (messages == 0) continue;
    all.push_back({p2p_channel(communicator_, round, part), messages,
                   static_cast<uint32_t>(std::min<uint64_t>(own, cut.chunk)),
                   static_cast<uint32_t>(own - (messages - 1) * cut.chunk)});
  }
  return all;
}

/// So many bytes explain what has come of a pair, or, unless it is `over`, begin like that.
bool PairInference::fits(const Pair& pair, uint64_t bytes, bool over) const {
  size_t used = 0;
  const std::vector<Piece> all = pieces(pair, bytes);
  for (const uint32_t c : pair.connections) {
    const Use u = use(pair, c);
    const auto piece = std::ranges::find(all, connections_[c].channel, &Piece::channel);
    if (piece == all.end()) {
      if (u.messages != 0) return false;
      continue;
    }
    ++used;
    if (u.messages > piece->messages || (over && u.messages < piece->messages)) return false;
    if (u.messages == 0) continue;
    if (u.size != piece->size) return false;
    if (pair.to_real) continue;
    if (u.last != (u.messages == piece->messages ? piece->last : piece->size)) return false;
  }
  return used == all.size();
}

/// The bytes of a pair are known: what it sends, or single messages.
bool PairInference::exact(const Pair& pair, bool over) const {
  for (const uint32_t c : pair.connections) {
    const Use u = use(pair, c);
    if (pair.to_real ? u.messages > 1 : !over && u.last == u.size && is_chunk(u.size)) return false;
  }
  uint64_t bytes = 0;
  for (const uint32_t c : pair.connections) bytes += use(pair, c).bytes;
  return fits(pair, bytes, true);
}

/// The bytes of a pair of which something has come; rather some of the `known` ones.
std::optional<uint64_t> PairInference::size(const Pair& pair, bool over,
                                            std::span<const uint64_t> known) const {
  uint64_t bytes = 0, chunks = 0;
  bool more = false;  // may come
  for (const uint32_t c : pair.connections) {
    const Use u = use(pair, c);
    bytes += u.bytes;
    chunks += u.size;
    more |= u.messages > Chunking::kBufferSteps;
  }
  if (exact(pair, over)) return bytes;
  const bool whole = over || (pair.to_real && !more);
  for (const uint64_t size : known) {
    if (fits(pair, size, whole)) return size;
  }
  if (whole && pair.to_real) {
    // Parts are whole pages but the last one.
    constexpr uint64_t kPage = 4096;
    for (uint64_t size = bytes; size + chunks > bytes; size -= kPage) {
      if (fits(pair, size, true)) return size;
      if (size < kPage) break;
    }
  }
  if (whole) return std::nullopt;
  for (const uint64_t size : {2 * bytes, bytes + bytes / 2, bytes + bytes / 4, bytes + chunks}) {
    if (fits(pair, size, false)) return size;
  }
  if (fits(pair, bytes, false)) return bytes;
  return std::nullopt;
}

/// From what has come; what goes on is taken for longer than that.
std::optional<Operation> PairInference::operation(bool over) const {
  std::vector<std::optional<uint64_t>> sizes(pairs_.size());
  std::vector<uint64_t> known;
  const auto know = [&](uint64_t bytes) {
    if (std::ranges::find(known, bytes) == known.end()) known.push_back(bytes);
  };
  bool any = false;
  for (size_t p = 0; p < pairs_.size(); ++p) {
    if (!seen(pairs_[p])) continue;
    any = true;
    if (exact(pairs_[p], over)) know(*size(pairs_[p], over, {}));
  }
  if (!any) return std::nullopt;
  // What a rank receives is known sooner than what it sends.
  for (const bool to_real : {true, false}) {
    for (size_t p = 0; p < pairs_.size(); ++p) {
      if (pairs_[p].to_real != to_real || !seen(pairs_[p])) continue;
      const bool ended = over || ranks_[pairs_[p].rank].parts.front().still;
      sizes[p] = size(pairs_[p], ended, known);
      if (!sizes[p]) return std::nullopt;
      know(*sizes[p]);
    }
  }
  // A rank that sends to some of those that send to it will send to all of them.
  for (size_t r = 0; r < ranks_.size() && !over; ++r) {
    if (!ranks_[r].parts.empty() && ranks_[r].parts.front().still) continue;
    const auto answered = [&](const Pair& pair) -> std::optional<uint64_t> {
      for (size_t p = 0; p < pairs_.size(); ++p) {
        if (pairs_[p].from == pair.to && pairs_[p].to == pair.from) return sizes[p];
      }
      return std::nullopt;
    };
    bool some = false, all = true;
    for (size_t p = 0; p < pairs_.size(); ++p) {
      if (pairs_[p].rank != r || pairs_[p].to_real || !sizes[p]) continue;
      some = true;
      all &= answered(pairs_[p]).has_value();
    }
    for (size_t p = 0; p < pairs_.size() && some && all; ++p) {
      if (pairs_[p].rank == r && !pairs_[p].to_real && !sizes[p]) sizes[p] = answered(pairs_[p]);
    }
  }
  return of_sizes(sizes);
}

bool PairInference::may_be(const Operation& operation) const {
  bool any = false;
  for (const Pair& pair : pairs_) {
    any |= seen(pair);
    const auto bytes = pair_bytes(communicator_, operation, pair.from, pair.to);
    if (bytes ? !fits(pair, *bytes, false) : seen(pair)) return false;
  }
  return any;
}

bool PairInference::explains(const Operation& operation, uint32_t connection) const {
  const Pair& pair = pairs_[pair_of_[connection]];
  const auto bytes = pair_bytes(communicator_, operation, pair.from, pair.to);
  return bytes ? fits(pair, *bytes, false) : !seen(pair);
}

bool PairInference::next(Found& found) {
  if (lost_ || ranks_.empty()) return false;
  for (const Rank& rank : ranks_) {
    if (rank.parts.empty() || !rank.parts.front().over) return false;
  }
  const bool as_expected = expected_ && std::ranges::all_of(pairs_, [&](const Pair& pair) {
                             return whole(pair, *expected_);
                           });
  found.operation = as_expected ? expected_ : operation(true);
  const bool shows = border_shows();
  found.border_open = !begins_surely_ || !shows;
  found.unique = !found.border_open && std::ranges::all_of(pairs_, [&](const Pair& pair) {
    return !seen(pair) || exact(pair, true);
  });
  found.unknown = unknown_sizes(found.operation);
  begins_surely_ = shows;
  for (Rank& rank : ranks_) rank.parts.pop_front();
  expected_.reset();
  before_ = false;
  ++reported_;
  return true;
}

}  // namespace understudy
