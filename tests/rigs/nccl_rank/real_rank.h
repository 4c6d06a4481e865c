// The reference rank: what an unmodified NCCL does out of band, written from the facts and apart
// from the emulated ranks' code. It takes nothing that NCCL would not take, and more strictly: no
// byte that has no meaning may be set.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "tests/rigs/nccl_rank/net_ib.h"
#include "tests/rigs/nccl_rank/process.h"
#include "tests/rigs/nccl_rank/structures.h"
#include "tests/rigs/nccl_rank/topology.h"
#include "tests/rigs/nccl_rank/world.h"

namespace understudy::nccl_rank {

/// A data connection of this rank, once both sides know of it.
struct Link {
  int channel = 0, peer = 0, index = 0;  ///< the peer by its number in the communicator
  bool sends = false;
  auto operator<=>(const Link&) const = default;
};

/// What makes a rank's queue pairs and memory.
class IbAdapter {
 public:
  virtual ~IbAdapter() = default;
  /// For a new connection.
  virtual IbSide open(const Link& link) = 0;
  /// Its queue pairs are to be ready to send and to receive when this returns.
  virtual void connect(const IbSide& own, const IbSide& theirs) = 0;
};

struct Communicator {
  uint64_t magic = 0;
  Members members;
  bool shared = false;  ///< a child with its parent's resources
  int size() const { return members.size(); }
  int rank() const { return members.own; }
  Socket* next = nullptr;  ///< of the ring
  Socket* previous = nullptr;
  ListeningSocket* ring = nullptr;
  ListeningSocket* messages = nullptr;  ///< the ring's, up to 2.22
  std::vector<SocketAddress> peers;
  struct Unexpected {
    int from = 0, tag = 0;
    Socket* socket = nullptr;
  };
  std::vector<Unexpected> unexpected;
  Topology topology;
  struct Ends {
    IbSide own, theirs;
  };
  std::map<Link, Ends> links;                   ///< to other nodes
  std::map<int, uint64_t> to_send, to_receive;  ///< channels to connect, by peer
  int gathers = 0;
  int splits = 0;
  IbAdapter* adapter = nullptr;  ///< of its connections; null: they are made up
};

/// Sends and receives of one group: peer and channels.
struct PairUse {
  std::vector<int> to, from;
  uint64_t channels = 1;

  /// An all-to-all's.
  static PairUse with_all_others(const Communicator& comm) {
    PairUse use;
    for (int peer = 0; peer < comm.size(); ++peer) {
      if (peer != comm.rank()) use.to.push_back(peer);
    }
    use.from = use.to;
    return use;
  }
};

class RealRank : public Process {
 public:
  /// Without an adapter it makes up queue pairs and memory.
  RealRank(const World& world, Network& network, int rank, IbAdapter* adapter = nullptr)
      : Process(network, world.address_of(world.node(rank))),
        world_(world),
        rank_(rank),
        adapter_(adapter) {}
  int rank() const { return rank_; }
  const World& world() const { return world_; }

  /// ncclGetUniqueId: the root, which answers all ranks of a communicator.
  SocketAddress start_root();
  /// The same in two steps: the id may have to be known in between.
  ListeningSocket* open_root(uint16_t port) { return listen(port); }
  void serve(ListeningSocket* root) { spawn(serve_root(root)); }
  // What a program calls, each to its end.
  Task<Communicator*> init(SocketAddress root);
  /// Null with color -1. `adapter`: of the child; null: its parent's.
  Task<Communicator*> split(Communicator* parent, int color, int key, IbAdapter* adapter = nullptr);
  /// From 2.27 on; for those that stay.
  Task<Communicator*> shrink(Communicator* parent, std::vector<int> excluded,
                             IbAdapter* adapter = nullptr);
  /// The first use of an algorithm: its transports are connected.
  Task<> connect_ring(Communicator* comm);
  Task<> connect_tree(Communicator* comm);
  Task<> connect_pat(Communicator* comm);
  Task<> send_receive(Communicator* comm, PairUse use);
  /// The same for these connections, of index 1.
  Task<> connect_pairs(Communicator* comm, std::vector<Link> links);
  /// ncclCommDestroy.
  void destroy(Communicator* comm);
  /// Of all that are left, children first.
  void destroy_all();
  /// Transports are through on both sides once they are on this one (from 2.19 on).
  bool ends_are_known() const { return world_.release.minor >= 19; }

  const std::vector<std::unique_ptr<Communicator>>& communicators() const { return comms_; }

 private:
  friend class GinProxy;
  friend class RmaProxy;
  friend class RmaRing;
  Task<Communicator*> child(Communicator* parent, std::vector<int> order, uint64_t magic,
                            IbAdapter* adapter);
  Task<> serve_root(ListeningSocket* listener);
  Task<> answer(SocketAddress to, SocketAddress ring);
  Task<> bootstrap(Communicator* comm, SocketAddress next);
  Task<> first_gathers(Communicator* comm);
  Task<> transports(Communicator* comm);
  Task<std::vector<Bytes>> gather(Communicator* comm, Bytes own, std::string what);
  Task<> say(Communicator* comm, int to, int tag, Bytes data);
  Task<Bytes> hear(Communicator* comm, int from, int tag, size_t size, std::string what);
  void want(Communicator* comm, int channel, int index, int from, int to);
  Task<> set_up(Communicator* comm, int graph, int index);
  struct Round;
  Task<> exchange(Communicator* comm, int distance, int graph, int index, Round& round);
  Task<> finish(Communicator* comm, Round& round);
  Task<> sync(Communicator* comm, int distance, int graph);
  uint64_t random() { return seed_ = seed_ * 6364136223846793005 + 1442695040888963407; }
  IbSide own_side(const Communicator& comm, const Link& link);

  const World& world_;
  int rank_;
  IbAdapter* adapter_;
  uint64_t seed_ = static_cast<uint64_t>(rank_) + 99;
  uint32_t last_qpn_ = 0x100;
  std::vector<std::unique_ptr<Communicator>> comms_;
};

}  // namespace understudy::nccl_rank
