// Captures of one connection, written packet by packet: legal conversations that tests of
// roce-check then alter.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "dataplane/cm/mad.h"
#include "dataplane/cm/rdma_cm.h"
#include "dataplane/wire/build.h"
#include "tests/tools/roce_check/capture.h"

namespace understudy {

inline constexpr uint32_t kTalkMtu = 1024;
inline constexpr Qpn kTalkClient = 0x21, kTalkServer = 0x42;
inline constexpr Psn kTalkFirst{0xfffffa};  ///< of the client: it soon wraps

/// Two hosts; packets leave 5 us apart unless told to wait. Names of frames are for those who alter
/// them.
class Conversation {
 public:
  TestCapture capture;

  size_t at(const std::string& name) const { return names_.at(name); }
  TestFrame& frame(const std::string& name) { return capture.frames[at(name)]; }
  Conversation& name(const std::string& name) {
    names_[name] = capture.frames.size() - 1;
    return *this;
  }
  Conversation& wait(Duration d) {
    now_ += d;
    return *this;
  }
  Conversation& ecn(uint8_t value) {  ///< of all packets of the client that follow
    ecn_ = value;
    return *this;
  }

  Conversation& client(Opcode opcode, Psn psn, uint32_t bytes = 0, uint32_t length = 0) {
    RoceFields f;
    f.opcode = opcode;
    f.psn = psn;
    f.dest_qpn = kTalkServer;
    f.ack_request = opcode_info(opcode).end;
    f.dma_length = length;
    f.va = va;
    f.rkey = 0x1234;
    f.imm = 7;
    f.swap_add = 1;
    return packet(true, f, bytes);
  }
  Conversation& server(Opcode opcode, Psn psn, uint32_t msn, uint8_t syndrome = kNoCredits,
                       uint32_t bytes = 0) {
    RoceFields f;
    f.opcode = opcode;
    f.psn = psn;
    f.dest_qpn = kTalkClient;
    f.syndrome = syndrome;
    f.msn = msn;
    f.atomic_original = 77;
    return packet(false, f, bytes);
  }
  Conversation& ack(Psn psn, uint32_t msn, uint8_t syndrome = kNoCredits) {
    return server(Opcode::kAcknowledge, psn, msn, syndrome);
  }
  /// A congestion notification to the client, or to the server.
  Conversation& cnp(bool to_server, Qpn qpn) {
    RoceFields f;
    f.opcode = Opcode::kCnp;
    f.dest_qpn = qpn;
    f.becn = true;
    return packet(to_server, f, kCnpPadBytes, true);
  }
  /// A datagram of the connection manager.
  Conversation& mad(bool to_server, uint64_t transaction, const CmMessage& message) {
    RoceFields f;
    f.opcode = Opcode::kUdSendOnly;
    f.dest_qpn = f.src_qpn = kGsiQpn;
    f.qkey = kGsiQkey;
    packet(to_server, f, kMadBytes, true);
    TestFrame& frame = capture.frames.back();
    const auto bytes = format_mad({transaction, 0, message});
    std::copy(bytes.begin(), bytes.end(), frame.bytes.begin() + frame.roce().payload);
    frame.seal();
    return *this;
  }

  static IpAddress client_ip() { return IpAddress::v4(0x0a000001); }
  static IpAddress server_ip() { return IpAddress::v4(0x0a000002); }
  uint64_t va = 0x1000;

 private:
  Conversation& packet(bool to_server, RoceFields f, uint32_t bytes, bool zero = false) {
    RoceAddressing a;
    a.src = to_server ? client_ip() : server_ip();
    a.dst = to_server ? server_ip() : client_ip();
    a.udp_src = to_server ? 0xc111 : 0xc222;
    const OpKind kind = opcode_info(f.opcode).kind;  // a CNP is never ECN-capable
    const bool data = to_server ? kind != OpKind::kCnp : kind == OpKind::kReadResponse;
    a.traffic_class = data ? ecn_ : 0;
    TestFrame frame;
    frame.bytes.resize(roce_frame_bytes(a, f.opcode, bytes));
    uint8_t* payload = begin_roce(frame.bytes.data(), a, f, bytes);
    for (uint32_t i = 0; i < bytes; ++i) payload[i] = zero ? 0 : static_cast<uint8_t>(i * 7);
    finish_roce(frame.bytes.data(), a, f.opcode, bytes);
    now_ += Duration::us(5);
    frame.at = frame.scheduled = now_;
    capture.frames.push_back(std::move(frame));
    return *this;
  }

  std::map<std::string, size_t> names_;
  Time now_;
  uint8_t ecn_ = 0;
};

inline Psn talk_psn(uint32_t n) { return kTalkFirst.advance(n); }

inline CmReq talk_request() {
  CmReq req;
  req.local_comm_id = 0x11;
  req.service_id = rdma_service_id(PortSpace::kTcp, 18515);
  req.ca_guid = 5;
  req.qpn = kTalkClient;
  req.responder_resources = req.initiator_depth = 1;
  req.starting_psn = 0x500;  // of the server's requests
  req.retry_count = 3;
  req.remote_cm_response_timeout = req.local_cm_response_timeout = 10;
  req.path_mtu = mtu_code(kTalkMtu);
  req.rnr_retry_count = 2;
  req.max_cm_retries = 3;
  req.primary.local_gid = Conversation::client_ip();
  req.primary.remote_gid = Conversation::server_ip();
  req.primary.ack_timeout = 8;  // 1.05 ms
  format_rdma_header({4000, Conversation::client_ip(), Conversation::server_ip()},
                     req.private_data);
  return req;
}
inline CmRep talk_reply() {
  CmRep rep;
  rep.local_comm_id = 0x22;
  rep.remote_comm_id = 0x11;
  rep.qpn = kTalkServer;
  rep.starting_psn = kTalkFirst.value();
  rep.responder_resources = rep.initiator_depth = 1;
  rep.rnr_retry_count = 2;
  return rep;
}

/// REQ (repeated once), MRA, REP, RTU.
inline void talk_connect(Conversation& c) {
  c.mad(true, 1, talk_request()).name("req");
  c.wait(Duration::ms(5)).mad(true, 1, talk_request()).name("req again");
  c.mad(false, 1, CmMra{0x22, 0x11, CmSubject::kReq, 10, {}}).name("mra");
  c.mad(false, 1, talk_reply()).name("rep");
  c.mad(true, 1, CmRtu{0x11, 0x22, {}}).name("rtu");
}
inline void talk_disconnect(Conversation& c) {
  c.mad(true, 2, CmDreq{0x11, 0x22, kTalkServer, {}}).name("dreq");
  c.mad(false, 2, CmDrep{0x22, 0x11, {}}).name("drep");
}

/// A connection on which everything happens that is legal: gaps, refusals, duplicates, timeouts.
inline Conversation eventful() {
  using O = Opcode;
  Conversation c;
  auto psn = talk_psn;
  talk_connect(c);
  c.client(O::kWriteFirst, psn(0), 1024, 2600).name("first");
  c.client(O::kWriteMiddle, psn(1), 1024).name("middle");
  c.client(O::kWriteLast, psn(2), 552).name("last");
  c.ack(psn(2), 1).name("ack");
  // Not ready: the SEND comes again after 1.28 ms.
  c.client(O::kSendOnly, psn(3), 64).name("send");
  c.ack(psn(3), 1, kSyndromeRnrNak | 14).name("rnr nak");
  c.wait(Duration::us(1300)).client(O::kSendOnly, psn(3), 64).name("send again");
  c.ack(psn(3), 2, 4).name("credits");  // 4 of them: up to message 6
  c.client(O::kSendOnly, psn(4), 64).client(O::kSendOnly, psn(5), 64).name("second send");
  c.client(O::kSendOnly, psn(6), 64).name("third send");
  c.ack(psn(5), 4).name("ack of two");
  c.ack(psn(6), 5).name("ack of sends");
  // Its ACK was lost: the SEND comes again and is acknowledged by the newest PSN.
  c.wait(Duration::ms(2)).client(O::kSendOnly, psn(5), 64).name("duplicate send");
  c.ack(psn(6), 5).name("ack of duplicate");
  // A READ of three packets, and its tail once more.
  c.client(O::kReadRequest, psn(7), 0, 2500).name("read");
  c.server(O::kReadResponseFirst, psn(7), 6, kNoCredits, 1024).name("read first");
  c.server(O::kReadResponseMiddle, psn(8), 6, kNoCredits, 1024).name("read middle");
  c.server(O::kReadResponseLast, psn(9), 6, kNoCredits, 452).name("read last");
  c.va += 1024;
  c.wait(Duration::ms(2)).client(O::kReadRequest, psn(8), 0, 1476).name("read again");
  c.va -= 1024;
  c.server(O::kReadResponseFirst, psn(8), 6, kNoCredits, 1024).name("read first again");
  c.server(O::kReadResponseLast, psn(9), 6, kNoCredits, 452);
  // An ATOMIC and its repetition.
  c.client(O::kFetchAdd, psn(10)).name("atomic");
  c.server(O::kAtomicAcknowledge, psn(10), 7).name("atomic ack");
  c.wait(Duration::ms(2)).client(O::kFetchAdd, psn(10)).name("atomic again");
  c.server(O::kAtomicAcknowledge, psn(10), 7).name("atomic ack again");
  // A gap, one NAK, and back to it.
  c.client(O::kWriteFirst, psn(11), 1024, 3000).client(O::kWriteLast, psn(13), 952).name("gap");
  c.ack(psn(12), 7, kSyndromeNak).name("nak");
  c.client(O::kWriteMiddle, psn(12), 1024).name("middle again");
  c.client(O::kWriteLast, psn(13), 952).name("last again");
  c.ack(psn(13), 8).name("ack of write");
  // A READ and a WRITE at a time; answers in their order.
  c.client(O::kReadRequest, psn(14), 0, 100).name("short read");
  c.client(O::kWriteOnlyImm, psn(15), 64, 64).name("write imm");
  c.server(O::kReadResponseOnly, psn(14), 10, kNoCredits, 100).name("short read response");
  c.ack(psn(15), 10).name("ack of write imm");
  // Nobody answers: again after the ACK timeout.
  c.client(O::kWriteOnly, psn(16), 64, 64).name("unheard");
  c.wait(Duration::us(1100)).client(O::kWriteOnly, psn(16), 64, 64).name("heard");
  c.ack(psn(16), 11).name("last ack");
  talk_disconnect(c);
  return c;
}

/// Marked packets, each answered by a CNP.
inline Conversation congested() {
  Conversation c;
  c.ecn(2).client(Opcode::kWriteOnly, talk_psn(0), 64, 64).name("capable");
  c.ack(talk_psn(0), 1);
  for (uint32_t i = 1; i < 4; ++i) {
    c.ecn(3).client(Opcode::kWriteOnly, talk_psn(i), 64, 64).cnp(false, kTalkClient);
    c.name("cnp " + std::to_string(i)).ack(talk_psn(i), i + 1);
    c.wait(Duration::us(60));
  }
  return c;
}

/// For these conversations, whose CNPs come 50 us apart at least.
inline AnalysisOptions talk_options() {
  AnalysisOptions options;
  options.cnp_interval = Duration::us(50);
  return options;
}

}  // namespace understudy
