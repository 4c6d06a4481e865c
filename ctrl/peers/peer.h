// The out-of-band side of an emulated node: a machine that takes bytes and events and gives bytes
// and requests. It owns no socket, clock or thread; an epoll adapter drives it in `run`, tests
// drive it from recordings.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/peers/connector.h"
#include "dataplane/base/address.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/units.h"
#include "dataplane/rc/types.h"

namespace understudy {

/// What an emulated queue pair does once it is connected.
enum class Behaviour : uint8_t {
  kMemoryTarget,  ///< answers WRITE and READ (perftest ib_write_bw, ib_read_bw)
  kReceiveSink,   ///< endless receive queue (ib_send_bw)
  kSendEcho,  ///< answers each received SEND with a SEND of the same size (pingpong, ib_send_lat)
  kDatagramEcho,  ///< UD: sends each message back to where it came from (ibv_ud_pingpong)
  /// ib_write_lat, whose server writes first: at its start (Peer::take_starts) one WRITE of
  /// `opening_bytes` bytes, all 1, to `remote_address`; then each WRITE received is answered by one
  /// of the same size to the same place, whose last byte is one more than the received last byte.
  kWriteEcho,
  kRping,  ///< rping's server: READs each ping's text and WRITEs it back
  /// ucmatose: at its start `burst_messages` SENDs of `burst_bytes`; done when as many came back.
  kSendBurst,
  kRing,         ///< NCCL's data phase; driven by the collective's plan
  kNccl,         ///< the same, of one of NCCL's own connections
  kMessages,     ///< carries messages between the client and the machine
  kTraffic,      ///< once started, sends `traffic` to the remote buffer
  kRpingClient,  ///< once started, pings `traffic.count` texts of `traffic.bytes`
};

/// What Behaviour::kTraffic sends.
struct TrafficRequest {
  WorkOp op = WorkOp::kWrite;
  uint32_t bytes = 0;   ///< of one message
  uint64_t count = 0;   ///< messages
  uint32_t window = 1;  ///< most of them under way
};

/// What it came to.
struct TrafficResult {
  Qpn qpn = 0;
  uint64_t completed = 0;
  Time first, last;  ///< posted, completed
  WorkStatus status = WorkStatus::kSuccess;
  bool wrong = false;  ///< other data came back, or another message than was due
};

/// What Behaviour::kRing needs beside the queue pair: one connection of NCCL's data phase, that is
/// one direction of one channel between two neighbours (docs/nccl 2.4).
struct RingLinkRequest {
  uint32_t job = 0;            ///< index of the job in the configuration
  uint32_t emulated_rank = 0;  ///< the rank that this endpoint plays
  uint32_t real_rank = 0;      ///< the rank at the other end
  uint32_t channel = 0;
  uint8_t index = 0;          ///< 0: of collectives, 1: of sends and receives
  bool real_sends = false;    ///< true: data come from the real rank and our credits go to it
  uint64_t fifo_address = 0;  ///< real_sends: the real rank's memory for our credits
  Rkey fifo_rkey = 0;
  /// Queue pairs beside the request's own, where an end is a merged NIC.
  struct More {
    Qpn qpn = 0;
    Rkey fifo_rkey = 0;
  };
  std::vector<More> more = {};
};

/// What Behaviour::kNccl needs: one of NCCL's own connections, all its queue pairs.
struct NcclLinkRequest {
  /// One of the devices that the real rank's NIC is made of.
  struct Device {
    IpAddress gid;
    Rkey rkey = 0;  ///< of the memory at fifo_address
  };
  NcclConnector connector;
  uint32_t queue_pairs = 1;
  /// Addresses of our devices: queue pair q is on device q % devices.
  std::vector<IpAddress> local;
  std::vector<Qpn> remote_qpns;        ///< as many; none yet with EndpointRequest::reserve
  std::vector<uint8_t> remote_device;  ///< of each of them
  std::vector<Device> devices;         ///< these
  bool split = false;                  ///< a message's data go over all of them
  uint32_t parts = 1;                  ///< else: over so many, which take turns
  /// Both ends have port failover on: so many further queue pairs of ours, and the real rank's.
  struct Failover {
    uint32_t probing = 0, recovery = 0;
    std::vector<Qpn> remote_probing = {}, remote_recovery = {};
  };
  std::optional<Failover> failover = {};
  /// The real rank's memory: it sends: for our credits, else for sizes of several receives in one.
  uint64_t fifo_address = 0;
};

/// What a peer machine asks the dataplane for: one connected queue pair; with kNccl more of them.
struct EndpointRequest {
  Behaviour behaviour = Behaviour::kMemoryTarget;
  IpAddress local;   ///< the emulated node's GID, as the peer tells it to the client
  IpAddress remote;  ///< the real node's GID
  Qpn remote_qpn = 0;
  Psn remote_psn;       ///< first PSN we shall receive
  Psn local_psn;        ///< first PSN we shall send
  uint32_t mtu = 1024;  ///< path MTU in bytes
  uint32_t qkey = 0;    ///< with kDatagramEcho only
  SenderConfig sender;
  uint8_t timeout = 14;  ///< ACK timeout, 4.096 us << timeout (rule A5)
  uint8_t retry_count = 7;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 12;  ///< code of the RNR timer table (rule A4)
  /// Memory to expose; contents kept only where the behaviour needs it. kRing: the receive buffer
  /// if the real rank sends, else the credit FIFO.
  uint64_t region_bytes = 0;
  MemoryKind memory = MemoryKind::kDiscard;  ///< of behaviours that need no contents
  uint16_t service_port = 0;                 ///< TCP port of the service that was dialled; 0: none
  std::string_view service_kind;             ///< as in the configuration
  /// Its client has yet to say that it is ready: until then, or until its first packet, the queue
  /// pair takes packets and sends no requests.
  bool awaits_client = false;
  std::optional<RingLinkRequest> ring;  ///< with kRing only
  std::optional<NcclLinkRequest> nccl;  ///< with kNccl only
  TrafficRequest traffic;               ///< with kTraffic and kRpingClient only
  uint8_t max_rd_atomic = 16;           ///< READs and ATOMICs of ours that the client can answer
  /// Who dials must name a queue pair before it knows the other one. With `reserve` a number and
  /// memory are set aside, and a later request makes that queue pair, its number in `reserved`.
  bool reserve = false;
  Qpn reserved = 0;
  uint32_t burst_messages = 0, burst_bytes = 0;  ///< with kSendBurst only
  /// The other side counts its receives in its ACKs: no more SENDs go out than these credits allow.
  bool flow_control = false;
  bool unreliable = false;  ///< the client's queue pair is one of an unreliable connection
};

/// The dataplane's answer.
struct EndpointReady {
  Qpn qpn = 0;
  Psn psn;
  uint64_t address = 0;  ///< virtual address of the exposed region
  Rkey rkey = 0;
  std::vector<Qpn> qpns = {};                    ///< of kRing and kNccl: all of them
  std::vector<Qpn> probing = {}, recovery = {};  ///< with NcclLinkRequest::failover
};

/// A queue pair whose client waits for our first message.
struct EndpointStart {
  Qpn qpn = 0;                  ///< as EndpointReady named it
  uint64_t remote_address = 0;  ///< the client's buffer
  Rkey remote_rkey = 0;
  uint32_t opening_bytes = 0;  ///< how much of it kWriteEcho writes first
};

/// One connection's machine. Calls come one at a time; outputs are collected after each call.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual void on_bytes(Time now, std::span<const uint8_t> bytes) = 0;
  /// Answers to this machine's requests, in their order.
  virtual void on_endpoint(Time now, const EndpointReady& ready) = 0;
  virtual void on_closed(Time now) = 0;  ///< the other side closed the connection
  /// The connection that we dialled stands. Not called for clients of ours.
  virtual void on_connected(Time) {}
  /// A queue pair's traffic has ended.
  virtual void on_traffic(Time, const TrafficResult&) {}
  /// The dataplane cannot give the queue pair asked for; the default ends the connection.
  virtual void on_refused(Time, const std::string& reason) {
    failure_ = reason;
    finished_ = true;
  }

  /// Bytes to send to the client, taken once.
  std::vector<uint8_t> take_output() { return std::exchange(output_, {}); }
  /// Queue pairs wanted since the last call.
  std::vector<EndpointRequest> take_requests() { return std::exchange(requests_, {}); }
  /// Queue pairs whose client now waits for our first message, since the last call. Only behaviours
  /// that speak first are started.
  std::vector<EndpointStart> take_starts() { return std::exchange(starts_, {}); }
  bool finished() const { return finished_; }  ///< close the connection after the output
  const std::string& failure() const { return failure_; }  ///< why it failed, empty if it did not
  /// The queue pairs stay after the connection has ended (pingpong closes it before its test).
  bool endpoints_outlive_connection() const { return endpoints_outlive_connection_; }

 protected:
  std::vector<uint8_t> output_;
  std::vector<EndpointRequest> requests_;
  std::vector<EndpointStart> starts_;
  bool finished_ = false;
  bool endpoints_outlive_connection_ = false;
  std::string failure_;
};

}  // namespace understudy
