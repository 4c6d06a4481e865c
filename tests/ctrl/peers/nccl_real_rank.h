// A real rank's side of NCCL's bootstrap for the tests of emulated ranks: check-in, ring,
// all-gathers, messages, set-up of transports, split.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/bootstrap_layout.h"
#include "ctrl/peers/nccl/bootstrap/check_in.h"
#include "tests/ctrl/peers/nccl_rig.h"

namespace understudy::nccl_test {

struct Job {
  World& world;
  const BootstrapLayout& layout;
  NcclUniqueId id;
  uint32_t ranks = 4;
  std::vector<uint32_t> node;  ///< by rank
  uint32_t channels = 1;       ///< that NCCL's search finds
  bool rotated = false;        ///< each channel's chain begins one place further on
};

inline Bytes number(uint32_t value) {
  Bytes bytes(4);
  put_nccl_u32(bytes, 0, value);
  return bytes;
}

/// Communicator of a real rank: sockets and what it has learnt.
class RealComm {
 public:
  RealComm(Job& job, uint32_t rank, uint32_t ranks, uint64_t magic)
      : job(job), rank(rank), ranks(ranks), magic(magic) {}

  Job& job;
  uint32_t rank, ranks;
  uint64_t magic;
  uint64_t splits = 0;
  std::vector<uint32_t> parents;  ///< of a child: its ranks in the parent
  End *next = nullptr, *previous = nullptr;
  SocketAddress ring_at, messages_at;
  std::vector<SocketAddress> addresses;
  std::vector<Bytes> peer_info, gather_info;
  std::map<std::tuple<uint32_t, uint32_t, bool>, bool> connected;  ///< channel, peer, I send

  Bytes header() const {
    Bytes bytes;
    append_handshake(bytes, magic);
    return bytes;
  }
  Task<Bytes> frame(End* end, size_t expected) {
    const Bytes size = co_await job.world.read(end, 4);
    if (nccl_u32(size, 0) != expected)
      throw std::runtime_error("size " + std::to_string(nccl_u32(size, 0)) + " instead of " +
                               std::to_string(expected));
    Bytes bytes = co_await job.world.read(end, expected);
    co_return bytes;
  }
  Task<End*> accept(const SocketAddress& at) {
    End* end = co_await job.world.accept(at);
    const Bytes head = co_await job.world.read(end, kNcclHandshakeBytes);
    if (nccl_u64(head, 0) != magic || nccl_u32(head, 8) != 1) throw std::runtime_error("handshake");
    co_return end;
  }

  Task<int> connect_ring(SocketAddress next_at) {
    next = job.world.real_connect(next_at);
    job.world.write(next, header());
    previous = co_await accept(ring_at);
    co_return 0;
  }

  /// The ring's all-gather; the result is by rank.
  Task<std::vector<Bytes>> gather(Bytes mine) {
    const auto size = static_cast<uint32_t>(mine.size());
    std::vector<Bytes> all(ranks);
    all[rank] = std::move(mine);
    World& world = job.world;
    if (job.layout.ring == RingOrder::kBothWays) {
      for (uint32_t step = 0; step < ranks / 2; ++step) {
        const bool one_way = step == ranks / 2 - 1 && ranks % 2 == 0;
        const uint32_t in = (rank + 2 * ranks - step - 1) % ranks;
        const uint32_t out = (rank + ranks - step) % ranks;
        world.write(next, number(size));
        check(co_await world.read(previous, 4), size);
        if (!one_way) {
          world.write(previous, number(size));
          check(co_await world.read(next, 4), size);
        }
        world.write(next, all[out]);
        if (!one_way) world.write(previous, all[(rank + step) % ranks]);
        all[in] = co_await world.read(previous, size);
        if (!one_way) all[(rank + step + 1) % ranks] = co_await world.read(next, size);
      }
      co_return all;
    }
    for (uint32_t i = 0; i + 1 < ranks; ++i) {
      const uint32_t in = (rank + 2 * ranks - i - 1) % ranks, out = (rank + ranks - i) % ranks;
      world.write(next, number(size));
      if (job.layout.ring == RingOrder::kConcurrent) check(co_await world.read(previous, 4), size);
      world.write(next, all[out]);
      if (job.layout.ring == RingOrder::kInTurn) check(co_await world.read(previous, 4), size);
      all[in] = co_await world.read(previous, size);
    }
    co_return all;
  }

  void send(uint32_t to, uint32_t tag, const Bytes& payload) {
    End* end = job.world.real_connect(addresses[to]);
    Bytes bytes = header();
    if (job.layout.one_header) {
      append_frame_size(bytes, 8);
      append_frame_size(bytes, rank);
    } else {
      append_frame(bytes, number(rank));
      append_frame_size(bytes, 4);
    }
    append_frame_size(bytes, tag);
    append_frame(bytes, payload);
    job.world.write(end, bytes);
    job.world.real_close(end);
  }
  Task<Bytes> receive(uint32_t from, uint32_t tag, size_t size) {
    for (;;) {
      for (auto it = unexpected_.begin(); it != unexpected_.end(); ++it) {
        if (it->from != from || it->tag != tag) continue;
        End* end = it->end;
        unexpected_.erase(it);
        Bytes bytes = co_await frame(end, size);
        job.world.real_close(end);
        co_return bytes;
      }
      End* end = co_await accept(messages_at);
      uint32_t who = 0, what = 0;
      if (job.layout.one_header) {
        const Bytes head = co_await frame(end, 8);
        who = nccl_u32(head, 0);
        what = nccl_u32(head, 4);
      } else {
        who = nccl_u32(co_await frame(end, 4), 0);
        what = nccl_u32(co_await frame(end, 4), 0);
      }
      unexpected_.push_back({who, what, end});
    }
  }

  /// First all-gathers, ncclPeerInfo, allGatherInfo of a rank that is on `node`.
  Task<int> introduce(uint32_t node, bool shares) {
    const BootstrapLayout& l = job.layout;
    Bytes mine(l.first[0]);
    put_nccl_address(mine, 0, messages_at);
    if (l.first[0] > 56 && !shares) put_nccl_address(mine, 28, messages_at);
    addresses.clear();
    for (const Bytes& slice : co_await gather(mine)) {
      addresses.push_back(nccl_address(slice, 0).value_or(SocketAddress{}));
    }
    if (!shares && l.first[1] > 0) co_await gather(Bytes(l.first[1]));
    if (!shares && l.first[2] > 0) co_await gather(Bytes(l.first[2]));
    Bytes peer(l.peer_info, 0xaa);
    put_nccl_u32(peer, 0, rank);
    put_nccl_u32(peer, 8, rank % 8);
    put_nccl_u64(peer, 16, 0x1000 + node);
    put_nccl_u64(peer, 24, 0x2000 + rank);
    if (l.version_at > 0) put_nccl_u32(peer, l.version_at, 20000 + l.minor * 100 + 3);
    peer_info = co_await gather(peer);
    Bytes info(l.all_gather_info, 0xbb);
    for (uint32_t a = 0; (a + 1) * l.graph_entry <= l.topo_ranks; ++a) {
      put_nccl_u32(info, a * l.graph_entry, 3);
      put_nccl_u32(info, a * l.graph_entry + 4, job.channels);
    }
    std::fill(info.begin() + l.topo_ranks, info.begin() + l.topo_ranks + 4 * 7 * l.channels, 0);
    std::vector<uint32_t> own;
    for (uint32_t r = 0; r < ranks; ++r) {
      if (node_of_[r] == node) own.push_back(r);
    }
    for (uint32_t c = 0; c < job.channels; ++c) {
      std::vector<uint32_t> chain = own;
      const size_t by = job.rotated ? c % own.size() : 0;
      std::rotate(chain.begin(), chain.begin() + static_cast<ptrdiff_t>(by), chain.end());
      const auto place =
          static_cast<size_t>(std::find(chain.begin(), chain.end(), rank) - chain.begin());
      const uint32_t before = place == 0 ? ~0u : chain[place - 1];
      const uint32_t after = place + 1 == chain.size() ? ~0u : chain[place + 1];
      const uint32_t values[7] = {chain.front(), chain.back(),  before,       after,
                                  chain.front(), chain.front(), chain.front()};
      for (uint32_t a = 0; a < 7; ++a) {
        put_nccl_u32(info, l.topo_ranks + (a * l.channels + c) * 4, values[a]);
      }
    }
    // crossNic: none.
    if (l.ring == RingOrder::kBothWays) put_nccl_u32(info, l.topo_ranks - 4, 0);
    if (l.graph_entry > 28) put_nccl_u32(info, l.graph_entry + 28, 0);
    gather_info = co_await gather(info);
    co_return 0;
  }
  void set_nodes(std::vector<uint32_t> nodes) { node_of_ = std::move(nodes); }

  /// One ncclTransportP2pSetup; `links`: peers with the number of channels each way.
  struct Link {
    uint32_t peer = 0, sends = 0, receives = 0;
  };
  Task<int> set_up(std::vector<Link> links, uint32_t part, uint32_t number_of_sender) {
    for (uint32_t i = 1; i < ranks; ++i) {
      const uint32_t to = (rank + i) % ranks, from = (rank + ranks - i) % ranks;
      const uint32_t tag = (i << 8) + part;
      uint32_t sends = 0, receives = 0;
      for (const Link& l : links) {
        if (l.peer == to) sends += l.sends;
        if (l.peer == from) receives += l.receives;
      }
      Bytes in(receives * 256), out(sends * 256);
      for (uint32_t c = 0; c < receives; ++c) {
        const SocketAddress at = job.world.real_listen();
        handles.push_back(at);
        put_nccl_address(in, c * 256, at);
        put_nccl_u64(in, c * 256 + 32, 0x564ab9f2fc4b9d6c);
        put_nccl_u32(in, c * 256 + 128, 1);
      }
      for (uint32_t c = 0; c < sends; ++c) {
        put_nccl_u32(out, c * 256, number_of_sender);
        put_nccl_u32(out, c * 256 + 128, 1);
      }
      Bytes their_in, their_out;
      if (to == from) {
        if (sends + receives == 0) continue;
        Bytes both = in;
        both.insert(both.end(), out.begin(), out.end());
        send(to, tag, both);
        const Bytes answer = co_await receive(to, tag, both.size());
        their_in.assign(answer.begin(), answer.begin() + static_cast<ptrdiff_t>(out.size()));
        their_out.assign(answer.begin() + static_cast<ptrdiff_t>(out.size()), answer.end());
      } else {
        if (receives > 0) send(from, tag, in);
        if (sends > 0) send(to, tag, out);
        if (sends > 0) their_in = co_await receive(to, tag, out.size());
        if (receives > 0) their_out = co_await receive(from, tag, in.size());
      }
      for (uint32_t c = 0; c < sends; ++c) {
        const auto at = nccl_address(their_in, c * 256);
        if (!at || nccl_u64(their_in, c * 256 + 32) != 0x564ab9f2fc4b9d6c ||
            nccl_u32(their_in, c * 256 + 128) != 1) {
          throw std::runtime_error("no handle");
        }
        their_handles.push_back(*at);
        job.world.net_connected(*at);
      }
      for (uint32_t c = 0; c < receives; ++c) senders.push_back(nccl_u32(their_out, c * 256));
    }
    if (job.layout.sync == SyncForm::kNone) co_return 0;
    const Bytes flag(job.layout.sync == SyncForm::kEmpty ? 0 : 4);
    for (uint32_t i = 1; i < ranks; ++i) {
      const uint32_t to = (rank + i) % ranks, from = (rank + ranks - i) % ranks;
      const uint32_t tag =
          (i << 8) + part + (job.layout.sync == SyncForm::kFlagSameTag ? 0 : 1 << 7);
      bool sends = false, receives = false;
      for (const Link& l : links) {
        sends |= l.peer == to && l.sends > 0;
        receives |= l.peer == from && l.receives > 0;
      }
      if (to == from) {
        if (!sends && !receives) continue;
        send(to, tag, flag);
        co_await receive(to, tag, flag.size());
        continue;
      }
      if (sends) send(to, tag, flag);
      if (receives) send(from, tag, flag);
      if (sends) co_await receive(to, tag, flag.size());
      if (receives) co_await receive(from, tag, flag.size());
    }
    co_return 0;
  }

  Task<int> barrier(uint32_t tag) {
    for (uint32_t mask = 1; mask < ranks; mask <<= 1) {
      send((rank + mask) % ranks, tag, Bytes(4));
      co_await receive((rank + ranks - mask) % ranks, tag, 4);
    }
    co_return 0;
  }

  /// ncclCommSplit; null without a color.
  Task<std::shared_ptr<RealComm>> split(int32_t color, int32_t key, bool shares) {
    std::vector<int32_t> colors, keys;
    if (job.layout.split_in_one) {
      Bytes mine(8);
      put_nccl_u32(mine, 0, static_cast<uint32_t>(key));
      put_nccl_u32(mine, 4, static_cast<uint32_t>(color));
      for (const Bytes& slice : co_await gather(mine)) {
        keys.push_back(static_cast<int32_t>(nccl_u32(slice, 0)));
        colors.push_back(static_cast<int32_t>(nccl_u32(slice, 4)));
      }
    } else {
      for (const Bytes& slice : co_await gather(number(static_cast<uint32_t>(color)))) {
        colors.push_back(static_cast<int32_t>(nccl_u32(slice, 0)));
      }
      for (const Bytes& slice : co_await gather(number(static_cast<uint32_t>(key)))) {
        keys.push_back(static_cast<int32_t>(nccl_u32(slice, 0)));
      }
    }
    ++splits;
    if (color < 0) co_return nullptr;
    std::vector<uint32_t> parents;
    for (uint32_t r = 0; r < ranks; ++r) {
      if (colors[r] == color) parents.push_back(r);
    }
    std::stable_sort(parents.begin(), parents.end(),
                     [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
    const auto size = static_cast<uint32_t>(parents.size());
    const auto own =
        static_cast<uint32_t>(std::find(parents.begin(), parents.end(), rank) - parents.begin());
    // All colors have the same magic up to 2.22.
    const uint64_t child_magic =
        magic + (job.layout.one_magic ? 1 : 1000 * splits + static_cast<uint64_t>(color));
    auto child = std::make_shared<RealComm>(job, own, size, child_magic);
    std::vector<uint32_t> nodes;
    for (const uint32_t parent : parents) nodes.push_back(node_of_[parent]);
    child->set_nodes(nodes);
    child->parents = parents;
    child->ring_at = job.world.real_listen();
    child->messages_at = job.layout.one_header ? job.world.real_listen() : child->ring_at;
    const uint32_t tag = job.layout.one_header ? 1u << 29 : ~0u - 1;
    send(parents[(own + size - 1) % size], tag, ring_info_bytes(job.layout, child->ring_at));
    const Bytes next_ring =
        co_await receive(parents[(own + 1) % size], tag, job.layout.root_answer);
    co_await child->connect_ring(nccl_address(next_ring, 0).value());
    co_await child->introduce(nodes[own], shares);
    co_return child;
  }

  void close() {
    if (next != nullptr) job.world.real_close(next);
    if (previous != nullptr) job.world.real_close(previous);
  }
  bool unexpected() const { return !unexpected_.empty(); }

  std::vector<SocketAddress> handles, their_handles;  ///< of net_ib's listeners
  std::vector<uint32_t> senders;                      ///< of what it receives

 private:
  struct Unexpected {
    uint32_t from, tag;
    End* end;
  };
  static void check(const Bytes& got, uint32_t size) {
    if (nccl_u32(got, 0) != size) throw std::runtime_error("ring size");
  }
  std::vector<Unexpected> unexpected_;
  std::vector<uint32_t> node_of_;
};

/// ncclCommInitRank's out-of-band part.
inline Task<std::shared_ptr<RealComm>> init_rank(Job& job, uint32_t rank) {
  auto comm = std::make_shared<RealComm>(job, rank, job.ranks, job.id.magic);
  comm->set_nodes(job.node);
  comm->ring_at = job.world.real_listen();
  comm->messages_at = job.layout.one_header ? job.world.real_listen() : comm->ring_at;
  const SocketAddress answer_at = job.world.real_listen();
  End* root = job.world.real_connect(job.id.root);
  Bytes bytes = comm->header();
  append_frame(bytes, check_in_bytes(job.layout, {rank, job.ranks, answer_at, comm->ring_at}));
  job.world.write(root, bytes);
  job.world.real_close(root);
  End* answer = co_await comm->accept(answer_at);
  const Bytes next = co_await comm->frame(answer, job.layout.root_answer);
  job.world.real_close(answer);
  co_await comm->connect_ring(nccl_address(next, 0).value());
  co_await comm->introduce(job.node[rank], false);
  co_return comm;
}

/// The root of a real rank.
inline Task<int> real_root(Job& job, SocketAddress at) {
  std::vector<std::optional<NcclCheckIn>> came(job.ranks);
  std::vector<bool> answered(job.ranks);
  for (uint32_t n = 0; n < job.ranks; ++n) {
    End* end = co_await job.world.accept(at);
    const Bytes bytes = co_await job.world.read(end, kNcclHandshakeBytes + 4 + job.layout.check_in);
    job.world.real_close(end);
    const auto check_in = parse_check_in(
        job.layout, std::span<const uint8_t>(bytes).subspan(kNcclHandshakeBytes + 4));
    came.at(check_in->rank) = *check_in;
    for (uint32_t r = 0; r < job.ranks; ++r) {
      const auto& next = came[(r + 1) % job.ranks];
      if (answered[r] || !came[r] || !next) continue;
      if (!job.layout.root_answers_early && n + 1 < job.ranks) continue;
      answered[r] = true;
      End* to = job.world.real_connect(came[r]->answer);
      Bytes answer;
      append_handshake(answer, job.id.magic);
      append_frame(answer, ring_info_bytes(job.layout, next->ring));
      job.world.write(to, answer);
      job.world.real_close(to);
    }
  }
  co_return 0;
}

}  // namespace understudy::nccl_test
