#include "tests/rigs/nccl_rank/real_rank.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tools/nccl_decode/fields.h"

namespace understudy::nccl_rank {
namespace {

using nccl_decode::i32_at;

}  // namespace

// docs/nccl 1.3; source: bootstrap.cc, bootstrapRoot.

SocketAddress RealRank::start_root() {
  ListeningSocket* listener = open_root(0);
  const SocketAddress address = listener->address;
  serve(listener);
  return address;
}

Task<> RealRank::serve_root(ListeningSocket* listener) {
  const auto& layout = world_.layout();
  const int ranks = world_.size();
  const bool early = layout.release.minor >= 23;
  struct Entry {
    bool here = false, answered = false;
    SocketAddress answer_to, ring;
  };
  std::vector<Entry> entries(static_cast<size_t>(ranks));
  for (int count = 0; count < ranks; ++count) {
    Socket* socket = co_await accept(listener, world_.magic, kBootstrapSocket);
    const Bytes in =
        co_await receive_frame(socket, static_cast<size_t>(layout.check_in_bytes), "check-in");
    co_await end_of(socket, "check-in");
    const int rank = i32_at(in, 0);
    const std::string who = "check-in of " + rank_text(rank);
    require(rank >= 0 && rank < ranks && i32_at(in, 4) == ranks, who + ": other numbers of ranks");
    const SocketAddress answer_to = read_address(in, layout.check_in_listener, who);
    const SocketAddress ring = read_address(in, layout.check_in_ring, who);
    require(in == build_check_in(world_, rank, ranks, answer_to, ring),
            who + ": something else is set");
    Entry& entry = entries[static_cast<size_t>(rank)];
    require(!entry.here, who + ": the second one");
    entry.here = true;
    entry.answer_to = answer_to;
    entry.ring = ring;
    if (!early && count + 1 < ranks) continue;
    for (int r = 0; r < ranks; ++r) {
      Entry& one = entries[static_cast<size_t>(r)];
      const Entry& next = entries[static_cast<size_t>((r + 1) % ranks)];
      if (one.here && next.here && !std::exchange(one.answered, true)) {
        co_await answer(one.answer_to, next.ring);
      }
    }
  }
  stop(listener);
}

Task<> RealRank::answer(SocketAddress to, SocketAddress ring) {
  Bytes out(static_cast<size_t>(world_.layout().ring_address_bytes));
  put_address(out, 0, ring);
  Socket* socket = co_await dial(to, world_.magic, kBootstrapSocket);
  send_frame(socket, out);
  close(socket);
}

// docs/nccl 1.3 to 1.5; source: bootstrap.cc, bootstrapInit.

Task<Communicator*> RealRank::init(SocketAddress root) {
  auto owned = std::make_unique<Communicator>();
  Communicator* comm = owned.get();
  comms_.push_back(std::move(owned));
  comm->magic = world_.magic;
  comm->adapter = adapter_;
  comm->members.own = rank_;
  for (int r = 0; r < world_.size(); ++r) comm->members.of.push_back(r);
  comm->ring = listen();
  ListeningSocket* answers = listen();
  stand("check-in");
  Socket* socket = co_await dial(root, world_.magic, kBootstrapSocket);
  send_frame(socket,
             build_check_in(world_, rank_, comm->size(), answers->address, comm->ring->address));
  close(socket);
  stand("the root's answer");
  socket = co_await accept(answers, world_.magic, kBootstrapSocket);
  const Bytes answer = co_await receive_frame(
      socket, static_cast<size_t>(world_.layout().ring_address_bytes), "the root's answer");
  co_await end_of(socket, "the root's answer");
  stop(answers);
  const SocketAddress next = read_address(answer, 0, "the root's answer");
  require_zero(answer, 28, "the root's answer");
  co_await bootstrap(comm, next);
  co_return comm;
}

Task<> RealRank::bootstrap(Communicator* comm, SocketAddress next) {
  stand("the ring");
  comm->next = co_await dial(next, comm->magic, kBootstrapSocket);
  comm->previous = co_await accept(comm->ring, comm->magic, kBootstrapSocket);
  comm->messages = world_.layout().split_header ? comm->ring : listen();
  co_await first_gathers(comm);
  co_await transports(comm);
}

Task<> RealRank::first_gathers(Communicator* comm) {
  const auto& layout = world_.layout();
  const SocketAddress proxy{address(), static_cast<uint16_t>(7000 + rank_ % 1000)};
  std::set<SocketAddress> different;
  std::vector<Bytes> all;
  if (layout.addresses_bytes > 28) {
    all = co_await gather(
        comm, build_addresses(world_, comm->messages->address, proxy, random(), comm->shared),
        "addresses");
  } else {
    Bytes own(28);
    put_address(own, 0, comm->messages->address);
    all = co_await gather(comm, own, "listeners");
    if (!comm->shared) {
      Bytes proxy_address(28);
      put_address(proxy_address, 0, proxy);
      const auto proxies = co_await gather(comm, proxy_address, "proxies");
      for (const Bytes& bytes : proxies) require(bytes.size() == 28, "a proxy's address");
      if (layout.release.minor >= 20) {
        Bytes uds(8);
        put64(uds, 0, random());
        const auto sockets = co_await gather(comm, uds, "UDS");
        require(sockets.size() == all.size(), "UDS");
      }
    }
  }
  for (int r = 0; r < comm->size(); ++r) {
    const Bytes& bytes = all[static_cast<size_t>(r)];
    const std::string who = "address of " + rank_text(r);
    const SocketAddress address = read_address(bytes, 0, who);
    // A message does not say to whom it goes.
    require(different.insert(address).second, who + ": another rank has the same");
    comm->peers.push_back(address);
    if (bytes.size() > 64 && !world_.real(comm->members.of[static_cast<size_t>(r)])) {
      require_zero(bytes, 64, who + ", RAS");
    }
  }
}

// docs/nccl 1.4; source: bootstrap.cc, bootstrapAllGather, socketRingAllGather.

Task<std::vector<Bytes>> RealRank::gather(Communicator* comm, Bytes own, std::string what) {
  stand("all-gather " + std::to_string(comm->gathers++) + " (" + what + ")");
  const int n = comm->size(), r = comm->rank();
  const size_t size = own.size();
  const int minor = world_.release.minor;
  std::vector<Bytes> all(static_cast<size_t>(n));
  const auto slice = [&](int rank) -> Bytes& {
    return all[static_cast<size_t>((rank % n + n) % n)];
  };
  Bytes length(4);
  put32(length, 0, static_cast<uint32_t>(size));
  slice(r) = std::move(own);
  const int steps = minor >= 28 ? n / 2 : n - 1;
  for (int s = 0; s < steps; ++s) {
    const std::string step = what + ", step " + std::to_string(s);
    if (minor <= 20) {
      send_frame(comm->next, slice(r - s));
      slice(r - s - 1) = co_await receive_frame(comm->previous, size, step);
      continue;
    }
    // Sizes both ways first, then payloads both ways; with two rings both.
    const bool back = minor >= 28 && !(n % 2 == 0 && s == steps - 1);
    send(comm->next, length);
    Bytes got = co_await receive(comm->previous, 4, step + ", size");
    require(got == length, step + ": a size of " + std::to_string(i32_at(got, 0)));
    if (back) {
      send(comm->previous, length);
      got = co_await receive(comm->next, 4, step + ", size of the ring back");
      require(got == length, step + ": a size of " + std::to_string(i32_at(got, 0)));
    }
    send(comm->next, slice(r - s));
    if (back) send(comm->previous, slice(r + s));
    slice(r - s - 1) = co_await receive(comm->previous, size, step);
    if (back) slice(r + s + 1) = co_await receive(comm->next, size, step + ", ring back");
  }
  co_return all;
}

// docs/nccl 1.7; source: init.cc, initTransportsRank.

Task<> RealRank::transports(Communicator* comm) {
  const auto peer_infos =
      co_await gather(comm, build_peer_info(world_, comm->members), "peer info");
  judge_peer_infos(world_, comm->members, peer_infos);
  const auto graph_infos =
      co_await gather(comm, build_graph_info(world_, comm->members), "graph info");
  judge_graph_infos(world_, comm->members, graph_infos);
  comm->topology = topology_of(graph_infos, world_.layout().graph, world_.channels);
  // Nodes by their lowest ranks, as they are.
  std::map<int, int> numbers;
  for (int r = 0; r < comm->size(); ++r) {
    const int node = world_.node(comm->members.of[static_cast<size_t>(r)]);
    const int number = numbers.try_emplace(node, static_cast<int>(numbers.size())).first->second;
    require(comm->topology.node_of[static_cast<size_t>(r)] == number,
            "graph info: " + rank_text(r) + " on another node than it is");
  }
  if (world_.lazy && world_.release.minor >= 22) co_return;
  co_await connect_ring(comm);
  co_await connect_tree(comm);
  const bool single = comm->topology.nodes == comm->size();
  if (world_.release.minor >= 23 && single) co_await connect_pat(comm);
}

void RealRank::destroy_all() {
  for (auto comm = comms_.rbegin(); comm != comms_.rend(); ++comm) destroy(comm->get());
}

void RealRank::destroy(Communicator* comm) {
  if (!comm->unexpected.empty()) {
    throw Refused("a message of " + rank_text(comm->unexpected[0].from) +
                  " that nobody has asked for, tag " + std::to_string(comm->unexpected[0].tag));
  }
  if (comm->next == nullptr) return;
  require(comm->next->left() == 0 && comm->previous->left() == 0, "bytes on the ring at its end");
  close(comm->next);
  close(comm->previous);
  if (comm->messages != comm->ring) stop(comm->messages);
  stop(comm->ring);
  comm->next = comm->previous = nullptr;
}

}  // namespace understudy::nccl_rank
