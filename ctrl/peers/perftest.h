// The server side of perftest (ib_write_bw, ib_write_lat, ib_send_bw, ib_send_lat, ib_read_bw,
// ib_read_lat) over its TCP side channel. What the handshake tells, and what it does not:
//
// * READ has out_reads > 1 (unless the client was given -o 1); the others have 1.
// * SEND registers memory without remote access: its rkey is 0 on Linux' soft RoCE. Hardware may
//   give a key all the same, so only a zero tells something.
// * The number of key messages before the test is 2q + 1 for ib_write_bw and ib_read_bw and 2q + 2
//   for the others (q queue pairs), which shows only when the test is over.
// * Not told at all: bandwidth or latency, message size, number of iterations, -b (bidirectional).
//
// So kind "auto" serves ib_write_bw, ib_read_bw and ib_read_lat (memory target) and, with a zero
// rkey, ib_send_bw (endless receive queue). ib_write_lat and ib_send_lat need their kind set.
//
// ib_write_lat polls the last byte of its buffer for 1, 2, 3, ...; its server writes first. As the
// size is not told, the first WRITE fills the smallest buffer a client can have (its cyclic buffer,
// a page) with ones, which serves every size up to that. Larger sizes, and -a, are not served:
// after the last iteration of a size the client waits for a new 1 without a word on the TCP side.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ctrl/peers/peer.h"
#include "ctrl/peers/perftest_wire.h"
#include "ctrl/peers/service.h"

namespace understudy {

class PerftestPeer : public Peer {
 public:
  explicit PerftestPeer(Service service) : service_(std::move(service)) {}
  void on_bytes(Time now, std::span<const uint8_t> bytes) override;
  void on_endpoint(Time now, const EndpointReady& ready) override;
  void on_closed(Time now) override;

 private:
  enum class State { kVersion, kCycleBuffer, kCacheLine, kMtu, kKeys, kEndpoint, kReport, kEnd };

  /// Handles one message from the front of the input; false if it is not complete yet.
  bool step();
  bool read_version();
  bool read_mtu();
  bool read_key_or_end();
  void take_key(const PerftestKey& key);
  bool read_cycle_buffer();
  bool echo(size_t size, State next);
  bool read_report();
  /// What to be for this client, or why it cannot be.
  Result<Behaviour> choose_behaviour(const PerftestKey& key) const;
  /// Which clients would have sent just this many key messages by the time their test runs.
  std::string fitting_clients() const;

  std::span<const uint8_t> front(size_t size) const { return std::span(input_).first(size); }
  void drop(size_t size) { input_.erase(input_.begin(), input_.begin() + static_cast<long>(size)); }
  void send(std::span<const uint8_t> bytes);
  void give_up(const std::string& reason);

  Service service_;
  State state_ = State::kVersion;
  std::vector<uint8_t> input_;
  uint32_t cycle_buffer_ = 0;  ///< of the client, in bytes
  uint32_t mtu_ = 0;
  std::map<Qpn, PerftestKey> answers_;  ///< by the client's queue pair
  PerftestKey pending_;                 ///< the client's key whose endpoint is awaited
  IpAddress gid_;
  unsigned key_messages_ = 0;
  unsigned report_fields_ = 0;
};

}  // namespace understudy
