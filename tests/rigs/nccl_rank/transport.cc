// The reference rank's set-up of transports (docs/nccl 1.6, 2.1; source: transport.cc,
// ncclTransportP2pSetup, transport/generic.cc, transport/net.cc).
#include <algorithm>
#include <bit>

#include "tests/rigs/nccl_rank/real_rank.h"
#include "tools/nccl_decode/fields.h"

namespace understudy::nccl_rank {
namespace {

using nccl_decode::i32_at;
using nccl_decode::kIbMagic;
using nccl_decode::kSetupBytes;
using nccl_decode::u64_at;

constexpr int kRingGraph = 1, kTreeGraph = 2, kNoGraph = 0;
constexpr int kMagicAt = 32, kGdrAt = 128, kNewGdr = 24;
constexpr int kRoundPeers = 128;  // NCCL_CONNECT_ROUND_MAX_PEERS, from 2.19 on

Bytes part(const Bytes& bytes, size_t begin, size_t size) {
  return {bytes.begin() + static_cast<ptrdiff_t>(begin),
          bytes.begin() + static_cast<ptrdiff_t>(begin + size)};
}

}  // namespace

// Messages between ranks.

Task<> RealRank::say(Communicator* comm, int to, int tag, Bytes data) {
  Socket* socket =
      co_await dial(comm->peers[static_cast<size_t>(to)], comm->magic, kBootstrapSocket);
  Bytes header(8);
  put32(header, 0, static_cast<uint32_t>(comm->rank()));
  put32(header, 4, static_cast<uint32_t>(tag));
  if (world_.layout().split_header) {
    send_frame(socket, part(header, 0, 4));
    send_frame(socket, part(header, 4, 4));
  } else {
    send_frame(socket, header);
  }
  send_frame(socket, data);
  close(socket);
}

Task<Bytes> RealRank::hear(Communicator* comm, int from, int tag, size_t size, std::string what) {
  what += " of " + rank_text(from) + ", tag " + std::to_string(tag);
  stand(what);
  auto& kept = comm->unexpected;
  Socket* socket = nullptr;
  const auto found = std::find_if(kept.begin(), kept.end(), [&](const auto& one) {
    return one.from == from && one.tag == tag;
  });
  if (found != kept.end()) {
    socket = found->socket;
    kept.erase(found);
  }
  while (socket == nullptr) {
    Socket* next = co_await accept(comm->messages, comm->magic, kBootstrapSocket);
    Communicator::Unexpected one{0, 0, next};
    if (world_.layout().split_header) {
      one.from = i32_at(co_await receive_frame(next, 4, "a message's rank"), 0);
      one.tag = i32_at(co_await receive_frame(next, 4, "a message's tag"), 0);
    } else {
      const Bytes header = co_await receive_frame(next, 8, "a message's header");
      one.from = i32_at(header, 0);
      one.tag = i32_at(header, 4);
    }
    if (one.from == from && one.tag == tag) {
      socket = next;
    } else {
      kept.push_back(one);
    }
  }
  Bytes data = co_await receive_frame(socket, size, what);
  co_await end_of(socket, what);
  co_return data;
}

// Which connections an algorithm needs. Those of a node's own ranks are no network's, and left out.

void RealRank::want(Communicator* comm, int channel, int index, int from, int to) {
  const auto other = [&](int peer) {
    return peer >= 0 && peer != comm->rank() &&
           comm->topology.node_of[static_cast<size_t>(peer)] !=
               comm->topology.node_of[static_cast<size_t>(comm->rank())];
  };
  const uint64_t bit = uint64_t{1} << channel;
  if (other(from) && !comm->links.contains({channel, from, index, false})) {
    comm->to_receive[from] |= bit;
  }
  if (other(to) && !comm->links.contains({channel, to, index, true})) comm->to_send[to] |= bit;
}

Task<> RealRank::connect_ring(Communicator* comm) {
  for (int c = 0; c < comm->topology.channels; ++c) {
    const auto own = static_cast<size_t>(comm->rank());
    const auto channel = static_cast<size_t>(c);
    want(comm, c, 0, comm->topology.previous[channel][own], comm->topology.next[channel][own]);
  }
  co_await set_up(comm, kRingGraph, 0);
  if (world_.release.minor < 24 || !world_.registration) co_return;
  Bytes own(2);
  own[1] = 1;  // no proxies, direct access
  const auto all = co_await gather(comm, own, "ring info");
  for (const Bytes& one : all) {
    require(one == all[static_cast<size_t>(comm->rank())], "ring info: another one than ours");
  }
}

Task<> RealRank::connect_tree(Communicator* comm) {
  for (int c = 0; c < comm->topology.channels; ++c) {
    const TreePlace& place =
        comm->topology.trees[static_cast<size_t>(c)][static_cast<size_t>(comm->rank())];
    want(comm, c, 0, place.up, place.up);
    for (int below : place.down) want(comm, c, 0, below, below);
  }
  co_await set_up(comm, kTreeGraph, 0);
}

Task<> RealRank::connect_pat(Communicator* comm) {
  const int n = comm->size();
  for (int mask = 1; mask < n; mask <<= 1) {
    const int up = (comm->rank() + mask) % n, down = (comm->rank() + n - mask) % n;
    for (int c = 0; c < comm->topology.channels; ++c) want(comm, c, 0, up, down);
    co_await set_up(comm, kTreeGraph, 0);
    for (int c = 0; c < comm->topology.channels; ++c) want(comm, c, 0, down, up);
    co_await set_up(comm, kTreeGraph, 0);
  }
}

Task<> RealRank::send_receive(Communicator* comm, PairUse use) {
  for (int c = 0; c < 64; ++c) {
    if ((use.channels >> c & 1) == 0) continue;
    for (int to : use.to) want(comm, c, 1, -1, to);
    for (int from : use.from) want(comm, c, 1, from, -1);
  }
  co_await set_up(comm, kNoGraph, 1);
}

Task<> RealRank::connect_pairs(Communicator* comm, std::vector<Link> links) {
  for (const Link& link : links) {
    want(comm, link.channel, 1, link.sends ? -1 : link.peer, link.sends ? link.peer : -1);
  }
  co_await set_up(comm, kNoGraph, 1);
}

/// What has been agreed on in one round of distances, and is to be connected.
struct RealRank::Round {
  struct Open {
    Link link;
    ListeningSocket* listener = nullptr;  ///< of ours
    SocketAddress to;
  };
  std::vector<Open> open;
  int under_way = 0;
};

IbSide RealRank::own_side(const Communicator& comm, const Link& link) {
  IbSide side;
  if (comm.adapter != nullptr) {
    side = comm.adapter->open(link);
    side.traffic_class = static_cast<uint32_t>(world_.traffic_class);
    return side;
  }
  for (int q = 0; q < world_.connection_queue_pairs(); ++q) side.qpns.push_back(++last_qpn_);
  const World::Nic nic = world_.nic(rank());
  side.gids = nic.gids;
  side.first_device = nic.first;
  const size_t theirs = world_.nic(link.peer).gids.size();
  const auto take = [&](size_t count, std::vector<uint32_t>& to) {
    while (to.size() < count) to.push_back(++last_qpn_);
  };
  take(world_.probing(link.sends, nic.gids.size(), theirs), side.probing);
  take(world_.recovering(nic.gids.size(), theirs), side.recovery);
  side.address = 0x550000000000 + last_qpn_ * 0x100000ULL;
  for (size_t d = 0; d < side.gids.size(); ++d) {
    side.rkeys.push_back(0x1000 + last_qpn_ + 0x1000000 * static_cast<uint32_t>(d));
  }
  side.traffic_class = static_cast<uint32_t>(world_.traffic_class);
  return side;
}

Task<> RealRank::set_up(Communicator* comm, int graph, int index) {
  const int n = comm->size();
  std::vector<int> distances;
  for (int i = 1; i < n; ++i) {
    const int from = (comm->rank() - i + n) % n, to = (comm->rank() + i) % n;
    if (comm->to_receive.contains(from) || comm->to_send.contains(to)) distances.push_back(i);
  }
  Round round;
  const int most = world_.release.minor >= 19 ? kRoundPeers : n;
  int end = most;
  for (int distance : distances) {
    if (distance > end) {
      co_await finish(comm, round);
      while (distance > end) end += most;
    }
    co_await exchange(comm, distance, graph, index, round);
  }
  co_await finish(comm, round);
  for (int distance : distances) co_await sync(comm, distance, graph);
  comm->to_receive.clear();
  comm->to_send.clear();
}

Task<> RealRank::exchange(Communicator* comm, int distance, int graph, int index, Round& round) {
  const int n = comm->size();
  const int from = (comm->rank() - distance + n) % n, to = (comm->rank() + distance) % n;
  const int tag = (distance << 8) + graph;
  const bool gdr = world_.release.minor >= kNewGdr;
  const auto channels = [](const std::map<int, uint64_t>& masks, int peer) {
    const auto found = masks.find(peer);
    return found == masks.end() ? uint64_t{0} : found->second;
  };
  const uint64_t receive = channels(comm->to_receive, from), send = channels(comm->to_send, to);
  Bytes receive_data, send_data;
  const auto entry = [&](Bytes& data) {
    Bytes one(kSetupBytes);
    if (gdr) put32(one, kGdrAt, 1);
    data.insert(data.end(), one.begin(), one.end());
    return static_cast<int>(data.size() - kSetupBytes);
  };
  for (int c = 0; c < 64; ++c) {
    if ((receive >> c & 1) == 0) continue;
    Round::Open open{{c, from, index, false}, listen(), {}};
    const int at = entry(receive_data);
    put_address(receive_data, at, open.listener->address);
    put64(receive_data, at + kMagicAt, kIbMagic);
    round.open.push_back(open);
  }
  for (int c = 0; c < 64; ++c) {
    // In the numbers of the communicator whose proxies are used.
    const int own = comm->shared ? rank_ : comm->rank();
    if ((send >> c & 1) != 0) put32(send_data, entry(send_data), static_cast<uint32_t>(own));
  }
  const size_t receives = receive_data.size(), sends = send_data.size();
  Bytes handles, senders;  // the peers' entries: where we are to send to, who will send to us
  if (from == to) {
    receive_data.insert(receive_data.end(), send_data.begin(), send_data.end());
    co_await say(comm, to, tag, receive_data);
    const Bytes both = co_await hear(comm, to, tag, receives + sends, "set-up");
    handles = part(both, 0, sends);
    senders = part(both, sends, receives);
  } else {
    if (receives > 0) co_await say(comm, from, tag, receive_data);
    if (sends > 0) co_await say(comm, to, tag, send_data);
    if (sends > 0) handles = co_await hear(comm, to, tag, sends, "set-up");
    if (receives > 0) senders = co_await hear(comm, from, tag, receives, "set-up");
  }
  size_t at = 0;
  for (int c = 0; c < 64; ++c) {
    if ((send >> c & 1) == 0) continue;
    const Bytes handle = part(handles, at, kSetupBytes);
    const std::string who = "handle of " + rank_text(to);
    Bytes right(kSetupBytes);
    const SocketAddress listener = read_address(handle, 0, who);
    put_address(right, 0, listener);
    put64(right, kMagicAt, kIbMagic);
    if (gdr) put32(right, kGdrAt, 1);
    require(handle == right, who + ": something else is set, or its magic is another");
    round.open.push_back({{c, to, index, true}, nullptr, listener});
    at += kSetupBytes;
  }
  for (at = 0; at < senders.size(); at += kSetupBytes) {
    Bytes right(kSetupBytes);
    put32(right, 0, static_cast<uint32_t>(comm->members.of[static_cast<size_t>(from)]));
    if (!comm->shared) put32(right, 0, static_cast<uint32_t>(from));
    if (gdr) put32(right, kGdrAt, 1);
    require(part(senders, at, kSetupBytes) == right,
            "sender's entry of " + rank_text(from) + ": not its rank, or something else is set");
  }
}

Task<> RealRank::finish(Communicator* comm, Round& round) {
  stand("net_ib's connections");
  struct Connect {
    static Task<> one(RealRank* self, Communicator* comm, Round* round, Round::Open open) {
      const auto nic = self->world_.nic(comm->members.of[static_cast<size_t>(open.link.peer)]);
      Communicator::Ends ends;
      ends.own = self->own_side(*comm, open.link);
      const IbReady ready = [comm, &ends](const IbSide& theirs) {
        if (comm->adapter != nullptr) comm->adapter->connect(ends.own, theirs);
      };
      if (open.link.sends) {
        ends.theirs = co_await ib_send(*self, self->world_, open.to, ends.own, nic, ready);
      } else {
        ends.theirs = co_await ib_receive(*self, self->world_, open.listener, ends.own, nic, ready);
      }
      comm->links[open.link] = std::move(ends);
      --round->under_way;
    }
  };
  round.under_way = static_cast<int>(round.open.size());
  for (const Round::Open& open : round.open) spawn(Connect::one(this, comm, &round, open));
  round.open.clear();
  co_await until([&round] { return round.under_way == 0; });
}

Task<> RealRank::sync(Communicator* comm, int distance, int graph) {
  const auto& layout = world_.layout();
  if (layout.sync_bytes == nccl_decode::kAbsent) co_return;
  const int n = comm->size();
  const int from = (comm->rank() - distance + n) % n, to = (comm->rank() + distance) % n;
  const int tag = (distance << 8) + layout.sync_bit + graph;
  const auto bytes = static_cast<size_t>(layout.sync_bytes);
  const bool receives = comm->to_receive.contains(from), sends = comm->to_send.contains(to);
  if (from == to) {
    co_await say(comm, to, tag, Bytes(bytes));
    co_await hear(comm, to, tag, bytes, "sync");
    co_return;
  }
  if (sends) co_await say(comm, to, tag, Bytes(bytes));
  if (receives) co_await say(comm, from, tag, Bytes(bytes));
  if (sends) co_await hear(comm, to, tag, bytes, "sync");
  if (receives) co_await hear(comm, from, tag, bytes, "sync");
}

}  // namespace understudy::nccl_rank
