#include "collective_model/schedule/p2p.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "collective_model/nccl/chunking.h"
#include "collective_model/nccl/p2p_rounds.h"

namespace understudy {
namespace {

constexpr uint64_t kPartAlign = 4096;
constexpr uint32_t kMantissaBits = 3;

/// What remains of x when it is stored with one leading and three more bits.
uint32_t as_float8(uint32_t x) {
  const auto bits = static_cast<uint32_t>(std::bit_width(x));
  if (bits <= kMantissaBits + 1) return x;
  const uint32_t lost = bits - kMantissaBits - 1;
  return x >> lost << lost;
}

/// Rounds in which a rank may talk, in order.
std::vector<uint32_t> rounds_of(const Communicator& c, const Operation& operation,
                                const P2pRounds& rounds, uint32_t rank) {
  const uint32_t ranks = c.ranks(), root = operation.root;
  std::vector<uint32_t> some;
  if (operation.collective == Collective::kSendRecv) {
    some = {rounds.between(rank, (rank + 1) % ranks),
            rounds.between((rank + ranks - 1) % ranks, rank)};
  } else if (operation.collective == Collective::kGather && rank != root) {
    some = {rounds.between(rank, root)};
  } else if (operation.collective == Collective::kScatter && rank != root) {
    some = {rounds.between(root, rank)};
  } else {
    some.resize(rounds.count());
    std::iota(some.begin(), some.end(), 0u);
  }
  std::ranges::sort(some);
  some.erase(std::unique(some.begin(), some.end()), some.end());
  return some;
}

}  // namespace

P2pCut p2p_cut(const Communicator& c, uint64_t bytes, bool network) {
  const uint64_t step = c.buffers.p2p_chunk;
  P2pCut cut;
  uint64_t chunk = step;
  if (network) {
    if (bytes < step) {
      chunk /= 4;
    } else if (bytes < 8 * step) {
      chunk /= 2;
    }
  }
  cut.chunk = as_float8(static_cast<uint32_t>(chunk));
  if (bytes == 0) return cut;
  const uint32_t most = c.p2p_channels_per_peer();
  uint32_t least = most;
  while (least > 1 && uint64_t{least} * c.ranks() > c.p2p_channels()) least /= 2;
  const uint64_t smallest = c.nodes > 1 ? step / 2 : step / 8;
  const uint64_t largest = c.nodes > 1 ? step : step * 32;
  cut.parts = static_cast<uint32_t>(std::min<uint64_t>(least, ceil_div(bytes, smallest)));
  uint64_t size = std::max(smallest, ceil_div(bytes, cut.parts));
  while (size > largest && cut.parts <= most / 2) {
    cut.parts *= 2;
    size = ceil_div(bytes, cut.parts);
  }
  cut.part_bytes = round_up(ceil_div(bytes, cut.parts), kPartAlign);
  return cut;
}

std::optional<uint64_t> pair_bytes(const Communicator& communicator, const Operation& operation,
                                   uint32_t from, uint32_t to) {
  const uint32_t ranks = communicator.ranks();
  bool talk = true;
  switch (operation.collective) {
    case Collective::kSendRecv:
      talk = to == (from + 1) % ranks;
      break;
    case Collective::kGather:
      talk = to == operation.root;
      break;
    case Collective::kScatter:
      talk = from == operation.root;
      break;
    case Collective::kAllToAllV: {
      const uint64_t bytes = operation.pair_bytes[uint64_t{from} * ranks + to];
      if (bytes == kNoPair) return std::nullopt;
      return bytes;
    }
    default:
      break;
  }
  if (!talk) return std::nullopt;
  return operation.bytes();
}

P2pRankSchedule::P2pRankSchedule(const Communicator& c, const Operation& operation,
                                 const P2pRounds& rounds, uint32_t rank) {
  constexpr uint32_t kNone = ~0u;
  struct Open {
    uint32_t batch = kNone;
    uint32_t first_round = 0;
    uint32_t count = 0;
  };
  std::vector<Open> open(c.p2p_channels());
  // Where data for a rank lie in the sender's buffer.
  const auto offset_of = [&](uint32_t from, uint32_t to) -> uint64_t {
    if (operation.collective == Collective::kAllToAllV) {
      uint64_t offset = 0;
      for (uint32_t r = 0; r < to; ++r) {
        offset += pair_bytes(c, operation, from, r).value_or(0);
      }
      return offset;
    }
    if (operation.collective == Collective::kAllToAll) return to * operation.bytes();
    if (operation.collective == Collective::kScatter) return to * operation.bytes();
    return 0;
  };
  // Where they lie in the receiver's: one behind the other, in the order of ranks.
  std::vector<uint64_t> places;
  if (operation.collective == Collective::kAllToAllV) {
    uint64_t place = 0;
    for (uint32_t r = 0; r < c.ranks(); ++r) {
      places.push_back(place);
      place += pair_bytes(c, operation, r, rank).value_or(0);
    }
  }
  const auto place_of = [&](uint32_t from) -> uint64_t {
    if (operation.collective == Collective::kAllToAll) return from * operation.bytes();
    if (operation.collective == Collective::kGather) return from * operation.bytes();
    return places.empty() ? 0 : places[from];
  };
  for (const uint32_t round : rounds_of(c, operation, rounds, rank)) {
    const auto [to, from] = rounds.of(rank, round);
    const auto sent = pair_bytes(c, operation, rank, to);
    const auto received = pair_bytes(c, operation, from, rank);
    if (!sent && !received) continue;
    const P2pCut send_cut = p2p_cut(c, sent.value_or(0), !c.local(rank, to));
    const P2pCut receive_cut = p2p_cut(c, received.value_or(0), !c.local(rank, from));
    const uint32_t send_parts = sent ? send_cut.parts : 0;
    const uint32_t receive_parts = received ? receive_cut.parts : 0;
    for (uint32_t part = 0; part < std::max(send_parts, receive_parts); ++part) {
      const uint32_t channel = p2p_channel(c, round, part);
      Open& o = open[channel];
      if (o.batch == kNone || !joins_p2p_batch(c.version, o.first_round, o.count, round)) {
        const auto batch = static_cast<uint32_t>(batches_.size());
        // A batch without connections (a copy inside the rank) takes no time here.
        uint32_t before = batch;
        if (o.batch != kNone) {
          before = batches_[o.batch].connections.empty() ? batches_[o.batch].before : o.batch;
          if (before == o.batch && batches_[before].connections.empty()) before = batch;
        }
        batches_.push_back({{}, before});
        o = {batch, round, 0};
      }
      ++o.count;
      if (to == rank) continue;  // a copy
      const auto add = [&](const P2pCut& cut, uint64_t bytes, uint32_t a, uint32_t b,
                           Direction direction) {
        Part p;
        const uint64_t begin = std::min(part * cut.part_bytes, bytes);
        p.bytes = std::min(bytes - begin, cut.part_bytes);
        p.offset = offset_of(a, b) + begin;
        if (direction == Direction::kReceive) p.to = place_of(a) + begin;
        p.chunk = cut.chunk;
        p.batch = o.batch;
        Connection connection;
        connection.channel = channel;
        connection.from = a;
        connection.to = b;
        connection.index = 1;
        connection.direction = direction;
        connection.network = !c.local(a, b);
        connection.nic = direction == Direction::kSend ? c.p2p_nic(a, b) : c.nic_of(rank);
        connection.relayed = connection.network && c.p2p_nic(a, b) != c.nic_of(a);
        connection.messages = bytes == 0 ? 1 : ceil_div(p.bytes, p.chunk);
        if (connection.messages == 0) return;
        connection.window = Chunking::kBufferSteps;
        connection.capacity = static_cast<uint32_t>(std::min<uint64_t>(p.bytes, p.chunk));
        batches_[o.batch].connections.push_back(static_cast<uint32_t>(connections_.size()));
        connections_.push_back(connection);
        parts_.push_back(p);
      };
      if (part < send_parts) add(send_cut, *sent, rank, to, Direction::kSend);
      if (part < receive_parts) add(receive_cut, *received, from, rank, Direction::kReceive);
    }
  }
}

Message P2pRankSchedule::message(uint32_t connection, uint64_t k) const {
  const Part& part = parts_[connection];
  const uint64_t begin = std::min(k * part.chunk, part.bytes);
  const auto data = static_cast<uint32_t>(std::min<uint64_t>(part.chunk, part.bytes - begin));
  return {data, data, part.offset + begin};
}

Waits P2pRankSchedule::waits(uint32_t connection, uint64_t k) const {
  Waits waits;
  const uint32_t batch = parts_[connection].batch;
  const uint32_t before = batches_[batch].before;
  if (k != 0 || before == batch) return waits;
  for (const uint32_t other : batches_[before].connections) {
    waits.add(Wait::Moment::kDone, other, connections_[other].messages - 1);
  }
  return waits;
}

ValuePart P2pRankSchedule::value_part(uint32_t connection, uint64_t k, uint32_t) const {
  const Message m = message(connection, k);
  ValuePart part;
  part.bytes = m.data;
  part.own = true;
  part.from = m.offset;
  return part;
}

ValuePart P2pRankSchedule::result_part(uint32_t connection, uint64_t k, uint32_t) const {
  const Message m = message(connection, k);
  ValuePart part;
  part.bytes = m.data;
  part.to = parts_[connection].to + (m.offset - parts_[connection].offset);
  part.add({connection, k, 0});
  return part;
}

}  // namespace understudy
