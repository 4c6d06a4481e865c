// Any bytes as datagrams and time for the communication manager of a node, and what must hold.
#pragma once

#include <algorithm>
#include <cstring>

#include "dataplane/cm/agent.h"
#include "dataplane/cm/rdma_cm.h"
#include "tests/fuzz/input.h"

namespace understudy {

/// What is understood of a datagram is written and read again alike.
inline void drive_mad(std::span<const uint8_t> bytes) {
  const auto mad = parse_mad(bytes);
  if (!mad) return;
  const auto again = parse_mad(format_mad(*mad));
  must(again && again->transaction_id == mad->transaction_id);
  must(again->message.index() == mad->message.index());
  must(format_mad(*again) == format_mad(*mad));
}

class CmDrive {
 public:
  explicit CmDrive(std::span<const uint8_t> bytes) : in_(bytes), agent_(config()) {
    agent_.listen(ends_.local, kService);
  }

  void run() {
    while (!in_.done()) step();
    // Whatever was begun comes to its end by itself once the peer is silent.
    for (int i = 0; i < 20'000 && !agent_.deadline().is_never(); ++i) {
      now_ = std::max(now_, agent_.deadline());
      agent_.on_time(now_);
      take();
    }
    must(agent_.deadline().is_never());
    must(agent_.connections() == established());
  }

 private:
  static constexpr uint64_t kService = rdma_service_id(PortSpace::kTcp, 7);
  static constexpr size_t kMost = 4;

  static CmAgentConfig config() {
    CmAgentConfig c;
    c.max_connections = kMost;
    c.response_timeout = 10;
    c.max_retries = 2;
    return c;
  }
  size_t established() const {
    return static_cast<size_t>(
        std::count_if(known_.begin(), known_.end(), [](const auto& c) { return c.second; }));
  }

  void step() {
    const uint8_t what = in_.byte();
    const CmId id =
        known_.empty()
            ? what
            : std::next(known_.begin(), what / 16 % static_cast<int>(known_.size()))->first;
    switch (what % 8) {
      case 0:
        now_ += Duration::us(in_.byte() * in_.byte() * 16);
        agent_.on_time(now_);
        break;
      case 1: {
        CmAccept a;
        a.qpn = 0x100 + in_.byte();
        agent_.accept(now_, id, a);
        break;
      }
      case 2:
        agent_.reject(now_, id, static_cast<RejReason>(in_.byte()));
        break;
      case 3:
        agent_.confirm(now_, id);
        agent_.disconnect(now_, what >= 128 ? id : 0);
        break;
      case 4: {
        CmConnect c;
        c.ends = ends_;
        c.service_id = kService;
        c.qpn = 0x200 + in_.byte();
        c.ack_timeout = in_.byte() % 16;
        agent_.connect(now_, c);
        break;
      }
      case 5:
        agent_.on_data(now_, 0x100u + in_.byte());
        break;
      default:
        hear(what);
    }
    take();
    must(agent_.connections() <= kMost);
  }

  /// A datagram of the wire, or one of those that the agent itself has sent, changed in some bytes.
  void hear(uint8_t what) {
    std::array<uint8_t, kMadBytes> bytes = last_;
    if (what >= 128) bytes = {1, 7, 2, 3};
    for (unsigned n = in_.byte() % 32u; n > 0; --n) bytes[in_.byte()] = in_.byte();
    agent_.on_mad(now_, ends_, bytes);
  }

  void take() {
    for (const CmSend& s : agent_.take_sends()) {
      must(parse_mad(s.bytes).has_value());
      last_ = s.bytes;
    }
    for (const CmEvent& e : agent_.take_events()) {
      if (e.kind == CmEventKind::kReleased || e.kind == CmEventKind::kRejected ||
          e.kind == CmEventKind::kFailed) {
        if (e.kind == CmEventKind::kReleased) known_.erase(e.id);
      } else {
        known_[e.id] = e.kind == CmEventKind::kEstablished;
      }
    }
  }

  FuzzInput in_;
  CmEnds ends_{IpAddress::v4(0x0a090001), IpAddress::v4(0x0a090002)};
  CmAgent agent_;
  std::map<CmId, bool> known_;  ///< ids that events have told of; true: established
  std::array<uint8_t, kMadBytes> last_{};
  Time now_;
};

}  // namespace understudy
