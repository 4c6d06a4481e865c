// The mutation test of roce-check: for each rule that it can name, a legal capture is altered in
// one way that breaks this rule, and it must be named, and no other. Prints the hit rate, and the
// rate of false positives on captures that nobody altered.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

#include "tests/tools/roce_check/conversation.h"

namespace understudy {
namespace {

using O = Opcode;
using Rules = std::set<std::string>;

Rules named(const Analysis& analysis) {
  Rules out;
  for (size_t i = 0; i < kRules; ++i) {
    const auto rule = static_cast<Rule>(i);
    if (analysis.findings.count(rule) == 0) continue;
    const std::string id = rule_info(rule).id;
    out.insert(id == "-" ? check_info(rule_info(rule).check).name : id);
  }
  return out;
}

// Conversations beside the eventful one.

Conversation cut_to_1000() {
  Conversation c;
  for (uint32_t i = 0; i < 4; ++i) {
    c.client(i == 0   ? O::kWriteFirst
             : i == 3 ? O::kWriteLast
                      : O::kWriteMiddle,
             talk_psn(i), 1024, 4096);
  }
  c.ack(talk_psn(3), 1);
  return c;
}

Conversation empty_write_and_send() {
  Conversation c;
  c.client(O::kWriteOnly, talk_psn(0), 0, 0).ack(talk_psn(0), 1).name("empty");
  return c;
}

Conversation one_send() {
  Conversation c;
  c.client(O::kSendOnly, talk_psn(0), 64).ack(talk_psn(0), 1).name("ack");
  return c;
}

Conversation refused() {
  Conversation c;
  c.client(O::kWriteOnly, talk_psn(0), 64, 64).name("write");
  c.ack(talk_psn(0), 0, kSyndromeNak | static_cast<uint8_t>(NakCode::kRemoteAccess)).name("nak");
  return c;
}

Conversation gapped() {
  Conversation c;
  c.client(O::kWriteOnly, talk_psn(0), 64, 64).client(O::kWriteOnly, talk_psn(2), 64, 64);
  c.ack(talk_psn(1), 1, kSyndromeNak).name("nak");
  c.client(O::kWriteOnly, talk_psn(3), 64, 64).name("later");
  for (uint32_t i = 1; i < 4; ++i) c.client(O::kWriteOnly, talk_psn(i), 64, 64);
  c.ack(talk_psn(3), 4);
  return c;
}

/// The response to a READ is lost before the capture, and asked for again.
Conversation lost_response() {
  Conversation c;
  c.client(O::kReadRequest, talk_psn(0), 0, 100).name("read");
  c.client(O::kWriteOnly, talk_psn(1), 64, 64).ack(talk_psn(1), 2).name("ack");
  c.client(O::kReadRequest, talk_psn(0), 0, 100).name("read again");
  c.server(O::kReadResponseOnly, talk_psn(0), 2, kNoCredits, 100).name("response");
  c.client(O::kWriteOnly, talk_psn(1), 64, 64).ack(talk_psn(1), 2).name("ack again");
  return c;
}

Conversation congested_read() {
  Conversation c;
  c.ecn(3).client(O::kReadRequest, talk_psn(0), 0, 100).cnp(false, kTalkClient);
  c.server(O::kReadResponseOnly, talk_psn(0), 1, kNoCredits, 100)
      .cnp(true, kTalkServer)
      .name("cnp");
  return c;
}

Conversation rejected() {
  Conversation c;
  c.mad(true, 1, talk_request());
  CmRej rej;
  rej.remote_comm_id = 0x11;
  rej.reason = RejReason::kInvalidServiceId;
  c.mad(false, 1, rej).name("rej");
  c.wait(Duration::ms(10));  // more than the REQ's sender waits for an answer
  c.client(O::kSendOnly, talk_psn(0), 64).ack(talk_psn(0), 1);
  return c;
}

Conversation two_connections() {
  Conversation c;
  talk_connect(c);
  CmReq req = talk_request();
  req.local_comm_id = 0x12;
  req.qpn = kTalkClient + 1;
  CmRep rep = talk_reply();
  rep.local_comm_id = 0x23;
  rep.remote_comm_id = 0x12;
  rep.qpn = kTalkServer + 1;
  c.mad(true, 3, req).name("second req").mad(false, 3, rep).mad(true, 3, CmRtu{0x12, 0x23, {}});
  c.client(O::kSendOnly, talk_psn(0), 64).ack(talk_psn(0), 1);
  return c;
}

Conversation other_paths() {
  Conversation c;
  talk_connect(c);
  CmLap lap;
  lap.local_comm_id = 0x11;
  lap.remote_comm_id = 0x22;
  c.mad(true, 4, lap).name("lap");
  CmApr apr;
  apr.local_comm_id = 0x22;
  apr.remote_comm_id = 0x11;
  c.mad(false, 4, apr).name("apr");
  CmSidrReq ask;
  ask.request_id = 9;
  ask.service_id = rdma_service_id(PortSpace::kUdp, 7000);
  format_rdma_header({4000, Conversation::client_ip(), Conversation::server_ip()},
                     ask.private_data);
  c.mad(true, 5, ask).name("sidr req");
  CmSidrRep answer;
  answer.request_id = 9;
  answer.service_id = ask.service_id;
  answer.qpn = 0x77;
  c.mad(false, 5, answer).name("sidr rep");
  c.client(O::kSendOnly, talk_psn(0), 64).ack(talk_psn(0), 1);
  return c;
}

Conversation over_ipv6() {
  Conversation c;
  c.capture = TestCapture::load(recording("rxe_write_ipv6_linklocal"));
  return c;
}

// What can be done to a conversation.

/// Lets the frames leave in their new order at the times of the old one.
void retime(TestCapture& capture) {
  std::vector<Time> times;
  for (const TestFrame& f : capture.frames) times.push_back(f.at);
  std::ranges::sort(times);
  for (size_t i = 0; i < times.size(); ++i) {
    capture.frames[i].at = capture.frames[i].scheduled = times[i];
  }
}
void move_frame(Conversation& c, const std::string& what, const std::string& before) {
  auto& frames = c.capture.frames;
  const TestFrame frame = c.frame(what);
  frames.insert(frames.begin() + static_cast<std::ptrdiff_t>(c.at(before)), frame);
  frames.erase(frames.begin() + static_cast<std::ptrdiff_t>(c.at(what) + 1));
  retime(c.capture);
}
void erase(Conversation& c, const std::string& what) { c.capture.erase(c.at(what)); }
void erase_from(Conversation& c, const std::string& what) { c.capture.frames.resize(c.at(what)); }
/// A copy of a frame, at once after another one.
TestFrame& repeat(Conversation& c, size_t index, size_t after, Duration later = Duration::us(1)) {
  auto& frames = c.capture.frames;
  TestFrame copy = frames[index];
  copy.at = copy.scheduled = frames[after].at + later;
  return *frames.insert(frames.begin() + static_cast<std::ptrdiff_t>(after + 1), copy);
}
void psn(TestFrame& f, Psn value) {
  f.bth().psn = value.value();
  f.seal();
}
Aeth& aeth(TestFrame& f) { return f.header<Aeth>(sizeof(Bth)); }
void syndrome(TestFrame& f, int value) {
  aeth(f).syndrome = static_cast<uint8_t>(value);
  f.seal();
}
/// Changes bytes behind the BTH and makes the ICRC right.
void bytes(TestFrame& f, size_t at, std::initializer_list<uint8_t> values) {
  std::copy(values.begin(), values.end(), f.bytes.begin() + f.roce().bth + static_cast<long>(at));
  f.seal();
}
/// A byte of a MAD; behind BTH and DETH.
void mad_byte(TestFrame& f, size_t at, uint8_t value) {
  bytes(f, sizeof(Bth) + sizeof(Deth) + at, {value});
}
constexpr size_t kMadBody = 24;
Ipv4Header& ipv4(TestFrame& f) {
  return *reinterpret_cast<Ipv4Header*>(f.bytes.data() + sizeof(EthHeader));
}
/// The right checksum of a changed IPv4 header.
void sum(TestFrame& f) {
  Ipv4Header& ip = ipv4(f);
  ip.checksum = 0;
  ip.checksum = checksum_finish(checksum_add(0, reinterpret_cast<uint8_t*>(&ip), sizeof ip));
}
/// The right ICRC under an IPv4 packet that need not parse any more.
void seal_raw(TestFrame& f) {
  const size_t end = sizeof(EthHeader) + ipv4(f).total_length.get() - kIcrcBytes;
  const auto covered = std::span(f.bytes).subspan(sizeof(EthHeader), end - sizeof(EthHeader));
  store_icrc(f.bytes.data() + end, icrc(covered));
}
/// Makes a frame longer, or shorter, with all its lengths.
void resize(TestFrame& f, int by) {
  FrameView view;
  RoceView roce;
  ASSERT_EQ(parse_frame(f.bytes, view, roce), FrameKind::kRoce);
  auto& ip = *reinterpret_cast<Ipv4Header*>(f.bytes.data() + view.l3);
  auto& udp = *reinterpret_cast<UdpHeader*>(f.bytes.data() + view.l4);
  ip.total_length = static_cast<uint16_t>(ip.total_length.get() + by);
  udp.length = static_cast<uint16_t>(udp.length.get() + by);
  f.bytes.resize(static_cast<size_t>(static_cast<int>(f.bytes.size()) + by));
  sum(f);
  seal_raw(f);
}
UdpHeader& udp(TestFrame& f) {
  return *reinterpret_cast<UdpHeader*>(f.bytes.data() + f.roce().bth - sizeof(UdpHeader));
}
void flip_payload(TestFrame& f) { f.bytes[f.roce().payload] ^= 4; }

struct Mutation {
  const char* rule;
  const char* what;
  Conversation (*talk)();
  std::function<void(Conversation&)> alter;
  Rules also = {};  ///< what cannot but be broken, too
};

// clang-format off
const std::vector<Mutation>& mutations() {
  using C = Conversation;
  static const std::vector<Mutation> kAll = {
    {"A1.1", "UDP length that ends elsewhere", eventful, [](C& c) { udp(c.frame("unheard")).length = 30; }},
    {"A1.2", "DF not set", eventful, [](C& c) { ipv4(c.frame("middle")).fragment = 0; sum(c.frame("middle")); c.frame("middle").seal(); }},
    {"A1.2", "a fragment", eventful, [](C& c) { ipv4(c.frame("unheard")).fragment = 0x2000; }},
    {"A1.2", "TTL 0", eventful, [](C& c) { ipv4(c.frame("middle")).ttl = 0; sum(c.frame("middle")); }},
    {"A1.2", "header checksum", eventful, [](C& c) { ipv4(c.frame("middle")).checksum = 0x1234; }},
    {"A1.2", "one header checksum of 0", eventful, [](C& c) { ipv4(c.frame("middle")).checksum = 0; }},
    {"A1.2", "another identification", eventful, [](C& c) { ipv4(c.frame("middle")).id = 77; sum(c.frame("middle")); c.frame("middle").seal(); }},
    {"A1.3", "wrong UDP checksum", eventful, [](C& c) { udp(c.frame("middle")).checksum = 0x1234; }},
    {"A1.4", "source port too low", eventful, [](C& c) { udp(c.frame("middle")).src_port = 5000; c.frame("middle").seal(); }},
    {"A1.4", "source port changes", eventful, [](C& c) { udp(c.frame("middle")).src_port = 0xc333; c.frame("middle").seal(); }},
    {"A1.7", "reserved bit of the BTH", eventful, [](C& c) { c.frame("middle").bth().ack_req |= 1; c.frame("middle").seal(); }},
    {"A1.7", "FECN on data", eventful, [](C& c) { c.frame("middle").bth().fecn_becn = 0x80; }},
    {"A1.7", "BECN on data", eventful, [](C& c) { c.frame("middle").bth().fecn_becn = 0x40; }},
    {"A1.8", "transport version 1", eventful, [](C& c) { c.frame("unheard").bth().flags |= 1; }},
    {"A1.8", "queue pair 0", eventful, [](C& c) { c.frame("unheard").bth().dest_qpn = 0; c.frame("unheard").seal(); }},
    {"A1.9", "another MigReq", eventful, [](C& c) { c.frame("middle").bth().flags ^= 0x40; c.frame("middle").seal(); }},
    {"A1.10", "another P_Key", eventful, [](C& c) { c.frame("middle").bth().pkey = 0x8001; c.frame("middle").seal(); }},
    {"A1.10", "two limited members", one_send, [](C& c) { for (auto& f : c.capture.frames) { f.bth().pkey = 0x7fff; f.seal(); } }},
    {"A1.11", "wrong Q_Key to QP1", eventful, [](C& c) { bytes(c.frame("mra"), sizeof(Bth), {0, 0, 0, 1}); }},
    {"A1.12", "another DSCP", eventful, [](C& c) { ipv4(c.frame("middle")).tos = 0x40; sum(c.frame("middle")); }},
    {"A1.13", "a path MTU of 1000", cut_to_1000, [](C& c) {
       for (size_t i = 0; i < 4; ++i) resize(c.capture.frames[i], -24);
       c.capture.frames[0].header<Reth>(sizeof(Bth)).length = 4000; c.capture.frames[0].seal(); }},
    {"A2.1", "damaged and sent again", eventful, [](C& c) { flip_payload(c.frame("unheard")); }},
    {"A2.2", "damaged and sent again, IPv6", over_ipv6, [](C& c) {
       const size_t i = c.capture.find(O::kWriteMiddle, 1);
       repeat(c, i, i); flip_payload(c.capture.frames[i]); }},
    {"A2.3", "damaged and acknowledged", eventful, [](C& c) { flip_payload(c.frame("middle")); }, {"A2.1"}},
    {"A3.1", "an ACK with a payload", eventful, [](C& c) { resize(c.frame("ack"), 4); }},
    {"A3.1", "padding to no multiple of 4", one_send, [](C& c) { resize(c.capture.frames[0], -2); }},
    {"A3.1", "shorter than its headers", eventful, [](C& c) { c.frame("unheard").bth().opcode = 0x13; resize(c.frame("unheard"), -72); }},
    {"A3.2", "immediate before RETH", eventful, [](C& c) {
       TestFrame& f = c.frame("write imm");
       const auto from = f.bytes.begin() + f.roce().bth + sizeof(Bth);
       std::rotate(from, from + sizeof(Reth), from + sizeof(Reth) + 4); f.seal(); }},
    {"A3.3", "reserved opcode", eventful, [](C& c) { c.frame("unheard").bth().opcode = 0x1f; }},
    {"A3.3", "a UC packet", eventful, [](C& c) { c.frame("unheard").bth().opcode |= 0x20; seal_raw(c.frame("unheard")); }},
    {"A3.3", "a UD packet", eventful, [](C& c) { c.frame("unheard").bth().opcode = 0x64; c.frame("unheard").seal(); }},
    {"A4.2", "a gap accepted", eventful, [](C& c) { erase(c, "middle"); }},
    {"A4.2", "out of order accepted", eventful, [](C& c) { move_frame(c, "last", "middle"); }},
    {"A4.2", "asked for twice", gapped, [](C& c) { repeat(c, c.at("nak"), c.at("later")); }},
    {"A4.2", "asked for without a gap", eventful, [](C& c) { syndrome(repeat(c, c.at("last ack"), c.at("last ack")), kSyndromeNak); }},
    {"A4.4", "SEND inside a WRITE", eventful, [](C& c) { c.frame("middle").bth().opcode = 1; c.frame("middle").seal(); }},
    {"A4.5", "RETH length", eventful, [](C& c) { c.frame("first").header<Reth>(sizeof(Bth)).length = 2604; c.frame("first").seal(); }},
    {"A4.5", "short MIDDLE", cut_to_1000, [](C& c) { resize(c.capture.frames[1], -4); c.capture.frames[0].header<Reth>(sizeof(Bth)).length = 4092; c.capture.frames[0].seal(); }},
    {"A4.6", "empty WRITE refused", empty_write_and_send, [](C& c) { aeth(c.frame("empty")).msn = 0; syndrome(c.frame("empty"), 0x62); }},
    {"A4.7", "remote access error for a SEND", one_send, [](C& c) { aeth(c.frame("ack")).msn = 0; syndrome(c.frame("ack"), 0x62); }},
    {"A4.8", "MSN that skips", eventful, [](C& c) { aeth(c.frame("ack of sends")).msn = 6; c.frame("ack of sends").seal(); }},
    {"A4.8", "MSN that counts a duplicate", eventful, [](C& c) { aeth(c.frame("ack of duplicate")).msn = 6; c.frame("ack of duplicate").seal(); }},
    {"A4.9", "reserved syndrome", eventful, [](C& c) { syndrome(c.frame("ack of two"), 0x44); }},
    {"A4.9", "NAK code of reliable datagrams", eventful, [](C& c) { syndrome(repeat(c, c.at("ack of two"), c.at("ack of two")), 0x64); }},
    {"A4.10", "older than the newest", eventful, [](C& c) { move_frame(c, "ack of sends", "ack of two"); }},
    {"A4.10", "no ACK", eventful, [](C& c) { erase(c, "last ack"); }},
    {"A4.11", "RNR NAK, then ACK", eventful, [](C& c) { erase(c, "send again"); }},
    {"A4.13", "short READ response", eventful, [](C& c) { resize(c.frame("read last"), -4); }},
    {"A4.13", "MIDDLE for LAST", eventful, [](C& c) { c.frame("short read response").bth().opcode = 0x0d; c.frame("short read response").seal(); }},
    {"A4.14", "ACK before the READ's data", eventful, [](C& c) { move_frame(c, "ack of write imm", "short read response"); }},
    {"A4.16", "misaligned", eventful, [](C& c) { for (const char* n : {"atomic", "atomic again"}) { c.frame(n).header<AtomicEth>(sizeof(Bth)).va = 0x1004; c.frame(n).seal(); } }},
    {"A4.17", "a duplicate's own PSN", eventful, [](C& c) { psn(c.frame("ack of duplicate"), talk_psn(5)); }},
    {"A4.18", "other bytes", eventful, [](C& c) { c.frame("read again").header<Reth>(sizeof(Bth)).va = 0x9000; c.frame("read again").seal(); }},
    {"A4.18", "beyond its range", eventful, [](C& c) { c.frame("read again").header<Reth>(sizeof(Bth)).length = 1480; c.frame("read again").seal(); }},
    {"A4.18", "MIDDLE where it begins anew", eventful, [](C& c) { resize(c.frame("read first again"), -4); }},
    {"A4.19", "another value", eventful, [](C& c) { bytes(c.frame("atomic ack again"), sizeof(Bth) + sizeof(Aeth), {1}); }},
    {"A4.21", "an ACK after a fatal NAK", refused, [](C& c) {
       TestFrame& ack = repeat(c, c.at("nak"), c.at("nak")); aeth(ack).msn = 1; syndrome(ack, kNoCredits); }},
    {"A5.1", "the last request does not ask", eventful, [](C& c) { for (const char* n : {"unheard", "heard"}) { c.frame(n).bth().ack_req = 0; c.frame(n).seal(); } }},
    {"A5.2", "two READs, agreed was one", eventful, [](C& c) { move_frame(c, "atomic", "read first"); }},
    {"A5.3", "ACK of the future", eventful, [](C& c) { psn(repeat(c, c.at("ack"), c.at("ack")), talk_psn(200)); }},
    {"A5.4", "lost response, not asked for again", lost_response, [](C& c) { erase_from(c, "read again"); }},
    {"A5.5", "NAK ignored", eventful, [](C& c) { erase_from(c, "middle again"); }},
    {"A5.6", "other address", eventful, [](C& c) { c.frame("heard").header<Reth>(sizeof(Bth)).va = 0x7000; c.frame("heard").seal(); }},
    {"A5.6", "other payload", eventful, [](C& c) { flip_payload(c.frame("last again")); c.frame("last again").seal(); }},
    {"A5.6", "other payload of what was answered", eventful, [](C& c) { flip_payload(c.frame("duplicate send")); c.frame("duplicate send").seal(); }},
    {"A5.6", "other length", eventful, [](C& c) { resize(c.frame("last again"), -4); }},
    {"A5.7", "after a tenth of the time", eventful, [](C& c) { c.frame("send again").at = c.frame("rnr nak").at + Duration::us(128); }},
    {"A5.7", "three times, agreed were two", eventful, [](C& c) {
       const TestFrame nak = c.frame("rnr nak"), send = c.frame("send again");
       std::vector<TestFrame> more;
       for (int i = 0; i < 2; ++i) { more.push_back(send); more.push_back(nak); }
       auto& frames = c.capture.frames;
       frames.insert(frames.begin() + static_cast<long>(c.at("rnr nak") + 1), more.begin(), more.end());
       for (size_t i = c.at("rnr nak") + 1; i < frames.size(); ++i) frames[i].at = frames[i].scheduled = frames[i - 1].at + Duration::ms(3); }},
    {"A5.8", "after 10 us", eventful, [](C& c) { c.frame("heard").at = c.frame("unheard").at + Duration::us(10); }},
    {"A5.8", "four times, agreed were three", eventful, [](C& c) {
       for (int i = 0; i < 4; ++i) repeat(c, c.at("unheard"), c.at("unheard"), Duration::us(1));
       auto& frames = c.capture.frames;
       for (size_t i = c.at("unheard") + 1; i < frames.size(); ++i) frames[i].at = frames[i].scheduled = frames[i - 1].at + Duration::ms(3); }},
    {"A5.9", "again after a fatal NAK", refused, [](C& c) { repeat(c, c.at("write"), c.at("nak"), Duration::ms(5)); }},
    {"A5.9", "on after a fatal NAK", refused, [](C& c) {
       psn(repeat(c, c.at("write"), c.at("nak"), Duration::ms(5)), talk_psn(1)); }},
    {"A5.10", "no credit", eventful, [](C& c) { syndrome(c.frame("credits"), 0); }},
    {"A5.11", "a response that nobody asked for", eventful, [](C& c) { psn(repeat(c, c.at("read last"), c.at("read last")), talk_psn(60)); }},
    {"A5.11", "READ response to a WRITE", eventful, [](C& c) {
       TestFrame& f = repeat(c, c.at("short read response"), c.at("heard")); aeth(f).msn = 11; psn(f, talk_psn(16)); }},
    {"A6.1", "marked, not capable", congested, [](C& c) { ipv4(c.frame("capable")).tos = 0; sum(c.frame("capable")); }},
    {"A6.2", "no CNP", congested, [](C& c) { erase(c, "cnp 3"); erase(c, "cnp 2"); erase(c, "cnp 1"); }},
    {"A6.3", "a CNP with a PSN", congested, [](C& c) { psn(c.frame("cnp 2"), Psn(5)); }},
    {"A6.3", "without BECN", congested, [](C& c) { c.frame("cnp 2").bth().fecn_becn = 0; }},
    {"A6.3", "an ECN-capable CNP", congested, [](C& c) { ipv4(c.frame("cnp 2")).tos |= 2; sum(c.frame("cnp 2")); }},
    {"A6.3", "to the receiver's number", congested, [](C& c) { c.frame("cnp 2").bth().dest_qpn = kTalkServer; c.frame("cnp 2").seal(); }},
    {"A6.4", "10 us apart", congested, [](C& c) { c.frame("cnp 2").at = c.frame("cnp 1").at + Duration::us(10); }},
    {"A6.5", "not to the responder", congested_read, [](C& c) { c.frame("cnp").bth().dest_qpn = kTalkClient; c.frame("cnp").seal(); }},
    {"A9.1", "a status", eventful, [](C& c) { mad_byte(c.frame("rtu"), 5, 1); }},
    {"A9.1", "another transaction", eventful, [](C& c) { mad_byte(c.frame("rep"), 15, 9); mad_byte(c.frame("rtu"), 15, 9); }},
    {"A9.2", "a reserved field", eventful, [](C& c) { for (const char* n : {"req", "req again"}) mad_byte(c.frame(n), kMadBody + 4, 1); }},
    {"A9.2", "a GID that is not the sender's", eventful, [](C& c) { for (const char* n : {"req", "req again"}) mad_byte(c.frame(n), kMadBody + 71, 9); }},
    {"A9.2", "REQ of another queue pair than the one used", eventful, [](C& c) { for (const char* n : {"req", "req again"}) mad_byte(c.frame(n), kMadBody + 34, 0x7b); }},
    {"A9.2", "REP of another queue pair than the one used", eventful, [](C& c) { mad_byte(c.frame("rep"), kMadBody + 14, 0x7b); erase(c, "drep"); erase(c, "dreq"); }},
    {"A9.2", "the first PSN not kept", eventful, [](C& c) { mad_byte(c.frame("rep"), kMadBody + 22, 0xff); }},
    {"A9.3", "header of another address", eventful, [](C& c) { for (const char* n : {"req", "req again"}) mad_byte(c.frame(n), kMadBody + 140 + 35, 9); }},
    {"A9.3", "SIDR_REQ without a header", other_paths, [](C& c) { mad_byte(c.frame("sidr req"), kMadBody + 16, 9); }},
    {"A9.4", "REP without a REQ", eventful, [](C& c) { erase(c, "req again"); erase(c, "req"); }, {"A9.8"}},
    {"A9.4", "REQ without an answer", rejected, [](C& c) { erase(c, "rej"); }},
    {"A9.5", "REP without an RTU", two_connections, [](C& c) { erase(c, "rtu"); }},
    {"A9.6", "another REQ under the same id", eventful, [](C& c) { mad_byte(c.frame("req again"), kMadBody + 200, 1); }},
    {"A9.6", "another REP the second time", eventful, [](C& c) { mad_byte(repeat(c, c.at("rep"), c.at("rep")), kMadBody + 100, 1); }},
    {"A9.7", "reason 99", rejected, [](C& c) { mad_byte(c.frame("rej"), kMadBody + 11, 99); }},
    {"A9.8", "MRA about nothing", eventful, [](C& c) { mad_byte(c.frame("mra"), kMadBody + 7, 0x55); }},
    {"A9.9", "REQ again at once", eventful, [](C& c) { c.frame("req again").at = c.frame("req").at + Duration::us(2); }},
    {"A9.10", "DREQ without a DREP", eventful, [](C& c) { erase(c, "drep"); }},
    {"A9.10", "DREQ for another queue pair", eventful, [](C& c) { mad_byte(c.frame("dreq"), kMadBody + 10, 9); }},
    {"A9.11", "one queue pair, two connections", two_connections, [](C& c) { mad_byte(c.frame("second req"), kMadBody + 34, kTalkClient); }},
    {"A9.12", "LAP without an APR", other_paths, [](C& c) { erase(c, "apr"); }},
    {"A9.13", "SIDR_REQ without an answer", other_paths, [](C& c) { erase(c, "sidr rep"); }},
    {"A9.13", "another service", other_paths, [](C& c) { mad_byte(c.frame("sidr rep"), kMadBody + 19, 9); }},
  };
  return kAll;
}
// clang-format on

std::string joined(const Rules& rules) {
  std::string out;
  for (const std::string& rule : rules) out += " " + rule;
  return out;
}

// rules: A6.4 A6.5
TEST(Rules, EachAlterationIsNamed) {
  size_t hit = 0, exact = 0;
  for (const Mutation& m : mutations()) {
    Conversation c = m.talk();
    m.alter(c);
    const Analysis analysis = c.capture.judge(talk_options());
    Rules expected = m.also;
    expected.insert(m.rule);
    const Rules got = named(analysis);
    hit += got.contains(m.rule) ? 1 : 0;
    exact += got == expected ? 1 : 0;
    EXPECT_EQ(joined(got), joined(expected)) << m.rule << ", " << m.what << '\n'
                                             << all_examples(analysis);
  }
  std::printf("mutations: %zu, the broken rule named: %zu (%.1f %%), no other one: %zu\n",
              mutations().size(), hit,
              100.0 * static_cast<double>(hit) / static_cast<double>(mutations().size()), exact);
}

TEST(Rules, EachRuleHasAnAlteration) {
  Rules altered;
  for (const Mutation& m : mutations()) altered.insert(m.rule);
  for (size_t i = 0; i < kRules; ++i) {
    const std::string id = rule_info(static_cast<Rule>(i)).id;
    EXPECT_TRUE(id == "-" || altered.contains(id)) << id;
  }
}

// What is named stands in the conformance list.
TEST(Rules, AreThoseOfTheList) {
  std::ifstream list(std::string(UNDERSTUDY_TEST_DATA) + "/../conformance/rules.toml");
  ASSERT_TRUE(list);
  Rules known;
  std::string part;
  for (std::string line; std::getline(list, line);) {
    if (line.starts_with("[")) part = line.substr(1, line.find(']') - 1);
    const size_t equals = line.find(" = ");
    if (equals != std::string::npos && line[0] >= '0' && line[0] <= '9') {
      known.insert(part + "." + line.substr(0, equals));
    }
  }
  for (size_t i = 0; i < kRules; ++i) {
    const std::string id = rule_info(static_cast<Rule>(i)).id;
    EXPECT_TRUE(id == "-" || known.contains(id)) << id;
  }
}

// As our own captures say it, and as those of others, who do not know what they lack.
TEST(Rules, NothingIsNamedWithoutAlteration) {
  size_t captures = 0, false_positives = 0;
  std::set<Conversation (*)()> talks;
  for (const Mutation& m : mutations()) talks.insert(m.talk);
  for (Conversation (*talk)() : talks) {
    for (const bool own : {true, false}) {
      Conversation c = talk();
      c.capture.own = c.capture.statistics = own;
      const Analysis analysis = c.capture.judge(talk_options());
      const Rules got = named(analysis);
      ++captures;
      false_positives += got.empty() ? 0 : 1;
      EXPECT_EQ(joined(got), "") << all_examples(analysis);
    }
  }
  std::printf("captures without alteration: %zu, something named: %zu\n", captures,
              false_positives);
}

constexpr uint8_t kRnr640us = kSyndromeRnrNak | 12;

/// A SEND that finds no receive, and another one behind it that finds a gap: Linux' rdma_rxe asks
/// for what is missing there, too.
Conversation without_receives(Duration waited) {
  Conversation c;
  for (uint32_t i = 0; i < 2; ++i) c.client(O::kSendOnly, talk_psn(i), 64);
  c.ack(talk_psn(0), 1).ack(talk_psn(1), 1, kRnr640us);
  c.client(O::kSendOnly, talk_psn(2), 64).ack(talk_psn(1), 1, kSyndromeNak);
  c.wait(waited);
  for (uint32_t i = 1; i < 3; ++i) c.client(O::kSendOnly, talk_psn(i), 64);
  c.ack(talk_psn(1), 2).ack(talk_psn(2), 3);
  return c;
}

// rules: A4.2 A5.7
TEST(Rules, AGapBehindAnRnrNakIsAskedForOnce) {
  const Analysis right = without_receives(Duration::us(640)).capture.judge(talk_options());
  EXPECT_EQ(joined(named(right)), "") << all_examples(right);
  Conversation c;  // and a second time
  for (uint32_t i = 0; i < 4; ++i) c.client(O::kSendOnly, talk_psn(i), 64);
  c.ack(talk_psn(0), 1).ack(talk_psn(1), 1, kRnr640us).ack(talk_psn(1), 1, kSyndromeNak);
  c.client(O::kSendOnly, talk_psn(4), 64).ack(talk_psn(1), 1, kSyndromeNak);
  c.wait(Duration::us(640));
  for (uint32_t i = 1; i < 5; ++i) c.client(O::kSendOnly, talk_psn(i), 64);
  c.ack(talk_psn(4), 5);
  EXPECT_EQ(joined(named(c.capture.judge(talk_options()))), " A4.2");
  // What asks for the gap does not end the wait.
  const Analysis early = without_receives(Duration::us(300)).capture.judge(talk_options());
  EXPECT_EQ(joined(named(early)), " A5.7") << all_examples(early);
}

}  // namespace
}  // namespace understudy
