// The server side of perftest (ib_{write,send,read,atomic}_{bw,lat}), from version 4.5 on, over its
// TCP side channel, or over SENDs where the client was given -R: there each message of the client
// is one call of on_bytes and each of ours what take_output gives after it, and the queue pairs
// under test come by RDMA-CM as well (adopt). What the client is: perftest_kind.h.
//
// The number of key messages before the test is 2q + 1 for bandwidth of WRITE, READ and ATOMIC and
// 2q + 2 for the others (q queue pairs); all but ib_write_lat send 2q + 3 in all.
//
// ib_write_lat polls the last byte of its buffer for 1, 2, 3, ...; its server writes first. Until
// protocol 6.27 the size is not told: unless the service's
// `size` tells, the first WRITE fills the smallest buffer a client can have (its cyclic buffer, a
// page) with ones, which serves every size up to that. -a is never served: after the last iteration
// of a size the client waits for a new 1 without a word on the side channel.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "ctrl/peers/peer.h"
#include "ctrl/peers/perftest/perftest_wire.h"
#include "ctrl/peers/service.h"

namespace understudy {

/// The client's message size need not be in the handshake; a message of RC is at most this long.
inline constexpr uint64_t kPerftestRegionBytes = uint64_t{1} << 31;

class PerftestPeer : public Peer {
 public:
  enum class Channel { kTcp, kInBand };

  explicit PerftestPeer(Service service, Channel channel = Channel::kTcp)
      : service_(std::move(service)),
        kind_(service_.kind),
        unreliable_(service_.unreliable),
        in_band_(channel == Channel::kInBand) {}
  void on_bytes(Time now, std::span<const uint8_t> bytes) override;
  void on_endpoint(Time now, const EndpointReady& ready) override;
  void on_closed(Time now) override;

  /// A queue pair of the test that RDMA-CM has connected to the client's `client_qpn`.
  void adopt(Qpn client_qpn, const EndpointReady& ready);
  /// Whether the client is about to connect queue pairs by RDMA-CM: with -R, before their keys.
  bool awaits_queue_pairs() const {
    return !finished_ && state_ == State::kKeys && key_messages_ == 0;
  }
  /// What the queue pairs under test are to do, for adopt().
  ServiceKind kind() const { return kind_; }

 private:
  enum class State {
    kVersion,
    kCycleBuffer,
    kCacheLine,
    kMtu,
    kTest,
    kTestExtra,
    kKeys,
    kEndpoint,
    kReport,
    kEnd
  };

  /// Handles one message from the front of the input; false if it is not complete yet.
  bool step();
  bool read_version();
  bool read_mtu();
  bool read_test();
  bool skip_test_extra();
  bool read_key_or_end();
  bool read_text_key();
  bool read_binary_key();
  void take_key(const PerftestKey& key);
  void ask_for_endpoint(const PerftestKey& key);
  void answer_key(const PerftestKey& answer);
  bool read_cycle_buffer();
  bool echo(size_t size, State next);
  bool read_report();
  std::span<const uint8_t> front(size_t size) const { return std::span(input_).first(size); }
  void drop(size_t size) { input_.erase(input_.begin(), input_.begin() + static_cast<long>(size)); }
  void send(std::span<const uint8_t> bytes);
  void give_up(const std::string& reason);

  Service service_;
  ServiceKind kind_;  ///< the service's, or what the client says that it runs
  bool unreliable_;   ///< the same of its connections
  bool in_band_;
  const PerftestLayout* layout_ = nullptr;  ///< that both sides speak
  State state_ = State::kVersion;
  std::vector<uint8_t> input_;
  uint32_t opening_bytes_ = 0;  ///< of ib_write_lat's first WRITE
  uint32_t mtu_ = 0;
  std::map<Qpn, PerftestKey> answers_;  ///< by the client's queue pair
  PerftestKey pending_;                 ///< the client's key whose endpoint is awaited
  IpAddress gid_;
  unsigned key_messages_ = 0;  ///< that name a queue pair
  unsigned report_fields_ = 0;
};

}  // namespace understudy
