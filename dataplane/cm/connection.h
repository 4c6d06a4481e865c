// One connection as the communication manager holds it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "dataplane/base/address.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/units.h"

namespace understudy {

/// Communication id of our side; never 0.
using CmId = uint32_t;

/// Addresses of the two QP1s that exchange datagrams.
struct CmEnds {
  IpAddress local, remote;
  auto operator<=>(const CmEnds&) const = default;
};

enum class CmState : uint8_t {
  kReqReceived,  ///< the consumer has yet to accept or to reject
  kRepSent,
  kReqSent,
  kRepReceived,  ///< the consumer has yet to confirm
  kEstablished,
  kDreqSent,
  kTimeWait,
};

struct CmConnection {
  CmId id = 0;
  CmState state = CmState::kReqReceived;
  bool active = false;
  CmEnds ends;
  uint32_t remote_id = 0;    ///< 0: not known yet
  uint64_t remote_guid = 0;  ///< of the peer's channel adapter
  Qpn local_qpn = 0, remote_qpn = 0;
  uint64_t tid = 0;              ///< of the exchange that makes the connection
  uint8_t ack_timeout = 0;       ///< 4.096 us << n: how long a packet of it may still be under way
  Duration wait;                 ///< for the answer to a message
  uint8_t retries = 0;           ///< of each message
  uint8_t response_timeout = 0;  ///< 4.096 us << n: how long the peer waits for our REP
  Time answer_by;                ///< when the consumer said that it will have decided
  uint8_t retries_left = 0;
  Time deadline = Time::never();
  std::optional<Time> drep_sent;    ///< when, last
  Time give_up = Time::never();     ///< no MRA makes us wait longer for an answer
  std::array<uint8_t, 256> last{};  ///< the message that is repeated until it is answered
};

/// The time that a field of five bits stands for (rule A9.9).
constexpr Duration cm_time(uint8_t code) { return Duration::ns(int64_t{4096} << (code & 31)); }
/// The smallest code whose time is at least `time`; 31 (2.4 h) for longer ones.
constexpr uint8_t cm_code(Duration time) {
  uint8_t code = 0;
  while (code < 31 && cm_time(code) < time) ++code;
  return code;
}

}  // namespace understudy
