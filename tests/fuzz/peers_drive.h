// Turns any bytes into calls on a service's peer and checks what must hold whatever comes. Shared
// by the fuzzer and by the test that mutates recordings.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <span>
#include <vector>

#include "ctrl/peers/services/service_peer.h"

namespace understudy {

inline void require(bool holds) {
  if (!holds) std::abort();
}

/// Input: a byte that sets the service's kind, then commands: 1..255 gives that many following
/// bytes to the peer; 0 is followed by a byte that answers (even) or refuses (1, 5, ...) the oldest
/// wish for a queue pair, or closes (3, 7, ...).
inline void drive_peer(std::span<const uint8_t> input) {
  if (input.empty()) return;
  Service service;
  service.node = "w0";
  service.v4 = IpAddress::parse("10.9.0.1");
  service.port = 18515;
  service.kind = static_cast<ServiceKind>(input[0] % 8);
  ServicePeer peer(service);
  size_t sent = 0, answered = 0, wished = 0, closes = 0, starts = 0;
  for (size_t at = 1; at < input.size();) {
    const uint8_t command = input[at++];
    const bool was_finished = peer.finished();
    if (command != 0) {
      const auto bytes = input.subspan(at, std::min<size_t>(command, input.size() - at));
      at += bytes.size();
      sent += bytes.size();
      peer.on_bytes(Time(), bytes);
    } else {
      const uint8_t event = at < input.size() ? input[at++] : 0;
      if (event % 2 == 0) {
        peer.on_endpoint(Time(), {0x40000u + event, Psn(event), 0x1000, event});
      } else if (event % 4 == 1) {
        peer.on_refused(Time(), "no");
      } else {
        peer.on_closed(Time());
        ++closes;
      }
    }
    const auto requests = peer.take_requests();
    wished += requests.size();
    answered += peer.take_output().size();
    for (const EndpointStart& start : peer.take_starts()) {
      require(start.qpn >= 0x40000);
      require(++starts <= sent / 216);  // one message names a queue pair, a later one starts it
    }
    require(wished <= sent / 52);  // the shortest message that names a queue pair
    // A machine never says more than it has heard, but for the answer to a wish.
    require(answered <= sent);
    require(!was_finished || requests.empty());
    require(peer.failure().empty() || peer.finished());
    require(closes == 0 || peer.finished());
  }
}

}  // namespace understudy
