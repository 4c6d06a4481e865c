// Two agents and the datagrams between them, under virtual time.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "dataplane/cm/agent.h"
#include "dataplane/cm/rdma_cm.h"

namespace understudy {

inline const CmEnds kServerEnds{*IpAddress::parse("10.9.0.2"), *IpAddress::parse("10.9.0.1")};
inline const CmEnds kClientEnds{kServerEnds.remote, kServerEnds.local};
inline constexpr uint64_t kService = rdma_service_id(PortSpace::kTcp, 7174);
inline constexpr uint8_t kAckTimeout = 19;  ///< 2.1 s
/// For an answer: the response time told (2^20) and the packets' way (2^19), times 4.096 us.
inline const Duration kWait = cm_time(20) + cm_time(kAckTimeout);

inline CmAgentConfig rig_config(uint64_t guid) {
  CmAgentConfig config;
  config.seed = guid;
  config.ca_guid = guid;
  return config;
}

class CmRig {
 public:
  CmRig() : CmRig(rig_config(0xb)) {}
  explicit CmRig(const CmAgentConfig& server_config)
      : client(rig_config(0xa)), server(server_config) {
    server.listen(kServerEnds.local, kService);
  }

  CmConnect request() const {
    CmConnect r;
    r.ends = kClientEnds;
    r.service_id = kService;
    r.qpn = 0x20;
    r.psn = Psn(0x111111);
    r.mtu = 1024;
    r.responder_resources = 4;
    r.initiator_depth = 2;
    r.ack_timeout = kAckTimeout;
    r.private_data = {1, 2, 3};
    return r;
  }
  static CmAccept acceptance(Qpn qpn = 0x40010) {
    CmAccept a;
    a.qpn = qpn;
    a.psn = Psn(0x222222);
    a.responder_resources = 2;
    a.initiator_depth = 4;
    a.private_data = {9, 8};
    return a;
  }

  /// Takes the client's datagrams to the server; returns them.
  std::vector<CmSend> to_server() { return carry(client, server, kServerEnds); }
  std::vector<CmSend> to_client() { return carry(server, client, kClientEnds); }
  void advance(Duration by) {
    now = now + by;
    client.on_time(now);
    server.on_time(now);
  }

  /// The one event since the last call, which is of this kind.
  static CmEvent only(CmAgent& agent, CmEventKind kind) {
    const auto events = agent.take_events();
    EXPECT_EQ(events.size(), 1u);
    if (events.empty()) return {};
    EXPECT_EQ(events[0].kind, kind);
    return events[0];
  }

  /// Makes a connection; the server's and the client's ids for it.
  std::pair<CmId, CmId> establish() {
    const CmId c = *client.connect(now, request());
    to_server();
    const CmId s = only(server, CmEventKind::kRequest).id;
    EXPECT_TRUE(server.accept(now, s, acceptance()));
    to_client();
    EXPECT_EQ(only(client, CmEventKind::kReply).id, c);
    EXPECT_TRUE(client.confirm(now, c));
    to_server();
    EXPECT_EQ(only(server, CmEventKind::kEstablished).id, s);
    EXPECT_EQ(only(client, CmEventKind::kEstablished).id, c);
    return {s, c};
  }

  CmAgent client, server;
  Time now = Time::zero() + Duration::s(1);

 private:
  std::vector<CmSend> carry(CmAgent& from, CmAgent& to, const CmEnds& ends) {
    const auto sends = from.take_sends();
    for (const CmSend& s : sends) {
      EXPECT_EQ(s.ends.local, ends.remote);
      EXPECT_EQ(s.ends.remote, ends.local);
      to.on_mad(now, ends, s.bytes);
    }
    return sends;
  }
};

/// The message of a datagram; the test ends if it is another one.
template <typename M>
M message_of(const CmSend& send) {
  const auto mad = parse_mad(send.bytes);
  EXPECT_TRUE(mad);
  if (!mad || !std::holds_alternative<M>(mad->message)) {
    ADD_FAILURE() << "it is a " << (mad ? cm_attribute_name(cm_attribute(mad->message)) : "?");
    return {};
  }
  return std::get<M>(mad->message);
}

/// A datagram with this message.
inline std::array<uint8_t, kMadBytes> mad_with(CmMessage message, uint64_t tid = 77) {
  return format_mad({tid, 0, std::move(message)});
}

}  // namespace understudy
