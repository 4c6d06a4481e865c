// The emulated neighbour of a real rank, out of band: tells ring_node what to run, turns its
// connects into ring endpoints of the dataplane and collects its results.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ctrl/peers/peer.h"
#include "ctrl/peers/ring/ring_messages.h"
#include "dataplane/base/address.h"

namespace understudy {

/// A job as one real rank sees it through one emulated neighbour, or a real node through any
/// emulated one.
struct RingOffer {
  uint32_t job = 0;        ///< index of the job in the configuration
  RingJobMessage message;  ///< what a neighbour is told
  /// What a whole node is told instead. Of `message` name, client_rank (the first of the node) and
  /// real_ranks (all that programs play) hold then, too.
  std::shared_ptr<const NodeJobMessage> node = {};
  std::vector<IpAddress> client_addresses;  ///< of the real rank's NIC: by these it is known
};

/// What the peers of all connections report to the owner of the jobs.
class RingObserver {
 public:
  virtual ~RingObserver() = default;
  /// All links between this emulated and this real rank stand on both sides. If the job has several
  /// real ranks, the client waits to be told that all of them are so far: RingPeer::begin().
  virtual void on_ring_ready(uint32_t job, uint32_t real_rank, uint32_t emulated_rank) = 0;
  virtual void on_ring_result(uint32_t job, uint32_t real_rank,
                              const RingResultMessage& result) = 0;
  /// The client has closed this connection's part of the job in good order.
  virtual void on_ring_done(uint32_t job, uint32_t real_rank, uint32_t emulated_rank) = 0;
  /// A client that waits to be told to begin has gone, or broken the protocol: the job cannot
  /// begin.
  virtual void on_ring_lost(uint32_t /*job*/, uint32_t /*real_rank*/) {}
  /// Two programs' ranks share a link, of which a client has told its end: what the other one has
  /// told of its own, nothing before it has.
  virtual std::optional<RingLinkEnd> on_ring_meeting(uint32_t /*job*/, const RingLinkEnd& /*end*/) {
    return std::nullopt;
  }
};

/// One connection. Links of both directions are wanted if the emulated rank is both neighbours.
class RingPeer : public Peer {
 public:
  /// `local`: the emulated node's own address that was dialled. `offers`: the jobs in which this
  /// node is a real rank's neighbour. The observer must outlive the peer.
  RingPeer(IpAddress local, std::vector<RingOffer> offers, RingObserver& observer);

  void on_bytes(Time now, std::span<const uint8_t> bytes) override;
  void on_endpoint(Time now, const EndpointReady& ready) override;
  void on_closed(Time now) override;
  void on_refused(Time now, const std::string& reason) override;

  /// The job for which the client waits for other programs, to begin or for their ends of links.
  std::optional<uint32_t> waits() const;
  /// Of a client that waits: all real ranks are ready.
  void begin();
  /// Asks again for the far ends of links with other programs' ranks; whether any is there now.
  bool meet();
  /// Of a client that waits: the job cannot begin, which it is told with the reason.
  void call_off(std::string why);

 private:
  enum class State { kHello, kConnect, kReady, kRunning };
  /// What a link is that the client may connect.
  struct Link {
    uint32_t client_rank = 0, peer_rank = 0;
    uint8_t index = 0;
    std::vector<IpAddress> local, remote;  ///< GIDs of our end and the client's, by queue pair
    uint64_t buffer = 0;                   ///< bytes that a receiver needs
    bool met = false;                      ///< its other end is a program's, too
  };

  void handle(const RingOobMessage& message);
  void hello(const RingHelloMessage& m);
  void connect(const RingLinkEnd& m);
  /// Error: there is no such link, or it is not the client's.
  Result<Link> find(const RingLinkEnd& m) const;
  Result<Link> find_of_node(const RingLinkEnd& m) const;
  static Result<void> check_gids(const RingLinkEnd& m, const Link& link);
  void ready();
  void result(const RingResultMessage& m);
  void done();
  /// Ends the connection; the client is told why.
  void give_up(std::string why);
  /// Nothing more comes of this connection.
  void fail(std::string why);
  const RingOffer& offer() const { return offers_[chosen_]; }
  bool wants(RingDirection direction) const;
  size_t links_wanted() const;
  bool is_connected(const RingLinkEnd& m) const;
  /// Bytes and timed iterations of what results call an operation; nothing: there is none.
  std::optional<std::pair<uint64_t, uint32_t>> size_of(uint32_t operation) const;
  /// All real ranks are the client's.
  bool alone() const;

  IpAddress local_;
  std::vector<RingOffer> offers_;
  RingObserver& observer_;
  RingOobReader reader_;
  State state_ = State::kHello;
  size_t chosen_ = 0;               ///< index in offers_, once hello has come
  std::vector<RingLinkEnd> links_;  ///< our ends, in the order of the connects
  size_t answered_ = 0;             ///< of links_, by the dataplane
  std::vector<RingLinkEnd> asked_;  ///< the client's ends of links with other programs' ranks
  std::vector<bool> met_;           ///< of these: it was told the other end
  size_t results_ = 0;
};

}  // namespace understudy
