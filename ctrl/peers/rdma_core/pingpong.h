// The server side of ibv_rc_pingpong and ibv_ud_pingpong (rdma-core 44,
// libibverbs/examples/{rc,ud}_pingpong.c), whose exchanges are the same. The client
// sends one line "LID:QPN:PSN:GID" in hexadecimal with its terminating zero, gets ours, answers
// "done" and closes; only then does the test run, so the queue pair outlives the connection. The
// path MTU is not in the exchange: the service's has to be the client's -m.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ctrl/peers/peer.h"
#include "ctrl/peers/service.h"

namespace understudy {

/// sizeof "0000:000000:000000:" + 32 digits of GID + terminating zero.
inline constexpr size_t kPingpongMessageSize = 52;

struct PingpongMessage {
  uint16_t lid = 0;  ///< always 0 on Ethernet
  Qpn qpn = 0;
  Psn psn;
  IpAddress gid;
};

/// Nothing unless the bytes are exactly one well-formed message.
std::optional<PingpongMessage> parse_pingpong(std::span<const uint8_t> bytes);
std::vector<uint8_t> format_pingpong(const PingpongMessage& message);

class PingpongPeer : public Peer {
 public:
  explicit PingpongPeer(Service service) : service_(std::move(service)) {
    endpoints_outlive_connection_ = true;
  }
  void on_bytes(Time now, std::span<const uint8_t> bytes) override;
  void on_endpoint(Time now, const EndpointReady& ready) override;
  void on_closed(Time now) override;

 private:
  enum class State { kAddress, kEndpoint, kDone, kFinished };

  void read_address();
  void read_done();
  void give_up(const std::string& reason);

  const char* program() const;
  bool datagrams() const { return service_.kind == ServiceKind::kUdPingpong; }

  Service service_;
  State state_ = State::kAddress;
  std::vector<uint8_t> input_;
  IpAddress gid_;
};

}  // namespace understudy
