// The emulated nodes' TCP in virtual time: one host of our own that has all their addresses, as the
// exception namespace is it in real time. Frames and times come in, frames go out; equal calls give
// equal frames. It answers TCP only (ARP, neighbour discovery and echo are the data plane's); all
// else is dropped and counted. Memory is per connection and listener, not per address.
//
// Frames have the exception namespace's convention (ctrl/host_namespace/host_namespace.h). Frames for an
// emulated address stay within: they come in at the next on_time().
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "ctrl/host_namespace/host_namespace.h"
#include "ctrl/peers/peer_carrier.h"
#include "ctrl/virtual_host/tcp_connection.h"

namespace understudy {

struct VirtualHostCounters {
  uint64_t segments_in = 0, segments_out = 0;
  uint64_t retransmissions = 0;
  uint64_t resets_sent = 0;   ///< to segments that no connection has
  uint64_t other_frames = 0;  ///< not TCP: UDP, ICMP, fragments, other Ethertypes
  uint64_t malformed = 0;     ///< shorter than their headers say
  uint64_t bad_checksums = 0;
  uint64_t other_addresses = 0;  ///< to an address that is not emulated
};

class VirtualHost final : public PeerCarrier, private TcpOutput {
 public:
  /// Takes a frame for a real node's address, within any call of the host but const ones. It must
  /// not call the host.
  using FrameOut = std::function<void(std::span<const uint8_t> frame)>;

  /// `spec`: which addresses are ours (the emulated prefixes without the real nodes' addresses)
  /// and the MTU. `seed`: of initial sequence numbers.
  VirtualHost(const HostNamespaceSpec& spec, uint64_t seed, Callbacks callbacks, FrameOut out);

  /// Times never go back. A frame in; machines are called, and callbacks, from within.
  void on_frame(Time now, std::span<const uint8_t> frame);
  /// Does all that is due. Also to be called before listen(), call(), flush(), an answer ... where
  /// time has passed since the last call: these happen at now().
  void on_time(Time now);
  /// When on_time() has something to do; a time that has passed means at once.
  Time deadline() const;
  const VirtualHostCounters& counters() const { return counters_; }
  /// Connections that TCP still has, also those that wait for a last segment only.
  size_t tcp_connections() const { return flows_.size(); }

  Time now() const override { return now_; }
  Result<uint16_t> listen(const IpAddress& any, uint16_t port, Acceptor acceptor) override;
  using PeerHost::listen_at;
  Result<void> listen_at(const SocketAddress& at, NodeId node, Acceptor acceptor) override;
  Result<ConnectionId> call_for(NodeId node, const IpAddress& from, const SocketAddress& to,
                                std::unique_ptr<Peer> peer) override;

 private:
  struct Listener {
    NodeId node = kNoNode;
    Acceptor acceptor;
  };
  struct Flow {
    TcpConnection tcp;
    ConnectionId id = 0;                 ///< 0: no machine yet, or none any more
    const Listener* listener = nullptr;  ///< of a call that has come
    bool told = false;                   ///< that it stands, or will never
    uint64_t retransmissions = 0;        ///< in the counters
    Time filed = Time::never();          ///< its place in timers_
    Time linger_until = Time::never();   ///< once it only waits for late segments
  };

  void write(ConnectionId id, std::span<const uint8_t> bytes) override;
  bool push(ConnectionId id) override;
  void close(ConnectionId id) override;
  void send(const TcpFlow& flow, const TcpSegment& segment) override;

  bool is_emulated(const IpAddress& address) const;
  const Listener* listener_at(const SocketAddress& at) const;
  bool is_listened_to(const SocketAddress& at) const;
  void take(std::span<const uint8_t> frame, bool ours);
  void take_call(const TcpFlow& flow, const TcpSegment& segment);
  /// Tells the connection's machine what has come, and sends what there is to send.
  void serve(Flow& flow);
  void accept(Flow& flow);
  /// Files its deadline; where it has ended it will be removed.
  void settle(Flow& flow);
  void end_turn();
  /// A port that `taken` does not hold against; 0 if there is none.
  uint16_t free_port(const std::function<bool(uint16_t)>& taken);
  TcpSettings settings(const IpAddress& address) const;
  uint32_t new_seq();

  const HostNamespaceSpec spec_;
  const std::set<IpAddress> real_;
  FrameOut out_;
  Time now_;
  uint32_t last_seq_;  ///< initial one of the latest connection
  uint16_t last_port_;
  VirtualHostCounters counters_;
  std::map<SocketAddress, Listener> listeners_;  ///< address unspecified: all of its family
  std::map<TcpFlow, Flow> flows_;
  std::map<ConnectionId, Flow*> by_id_;
  std::set<std::pair<Time, TcpFlow>> timers_;
  std::deque<std::pair<Time, TcpFlow>> lingering_;
  std::vector<TcpFlow> closed_;             ///< to be removed at the end of the turn
  std::deque<std::vector<uint8_t>> local_;  ///< frames of ours for ourselves
};

}  // namespace understudy
