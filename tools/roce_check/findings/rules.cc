#include "tools/roce_check/findings/rules.h"

#include <array>

namespace understudy {

const CheckInfo& check_info(Check check) {
  static constexpr std::array<CheckInfo, kChecks> kInfo = {{
      {"parse", "every RoCEv2 packet parses"},
      {"headers", "IP, UDP and BTH fields as they must be"},
      {"icrc", "every ICRC is right"},
      {"order", "PSNs in order, gaps asked for and closed by going back"},
      {"opcodes", "opcode sequence inside messages"},
      {"lengths", "packets of path MTU, RETH lengths equal the payload"},
      {"acks", "ACKs, NAKs and MSNs legal"},
      {"reads", "READs and ATOMICs and their responses"},
      {"waits", "RNR timers, ACK timeouts and retry counts kept"},
      {"acknowledged", "every request acknowledged in the end"},
      {"ecn", "congestion marks answered by CNPs, CNPs as they must be"},
      {"cm", "connections made and closed as RDMA-CM says"},
      {"complete", "the capture lacks nothing"},
      {"rate", "emulated queues kept their configured rate"},
      {"collective", "each step carried the bytes of the model"},
  }};
  return kInfo[static_cast<size_t>(check)];
}

const RuleInfo& rule_info(Rule rule) {
  static constexpr std::array<RuleInfo, kRules> kInfo = {{
      {"A1.1", Check::kParse, "a frame that is no whole RoCEv2 packet"},
      {"A1.2", Check::kHeaders, "IPv4 with options, in fragments or without DF"},
      {"A1.4", Check::kHeaders, "UDP source port outside 0xC000 to 0xFFFF, or not constant"},
      {"A1.7", Check::kHeaders, "reserved bits that are not zero"},
      {"A1.8", Check::kParse, "transport version other than 0, or queue pair 0"},
      {"A1.10", Check::kHeaders, "P_Keys of a connection that do not match"},
      {"A1.11", Check::kHeaders, "a packet to QP1 with another Q_Key than 0x80010000"},
      {"A1.12", Check::kHeaders, "another VLAN, priority or DSCP than its queue pair's"},
      {"A1.13", Check::kLengths, "a path MTU that does not exist"},
      {"A2.1", Check::kIcrc, "wrong ICRC over IPv4"},
      {"A2.2", Check::kIcrc, "wrong ICRC over IPv6"},
      {"A2.3", Check::kIcrc, "acknowledged, but it came with a wrong ICRC only"},
      {"A3.1", Check::kParse, "a packet shorter than its opcode's headers, or wrongly padded"},
      {"A3.2", Check::kLengths, "WRITE ONLY with the immediate before the RETH"},
      {"A3.3", Check::kParse, "an opcode that reliable connections do not have"},
      {"A4.2", Check::kOrder, "a gap accepted, asked for twice, or asked for where there is none"},
      {"A4.4", Check::kOpcodes, "an opcode that may not follow the one before"},
      {"A4.5", Check::kLengths, "a length that its place in the message forbids"},
      {"A4.6", Check::kAcks, "an empty WRITE or READ refused for its key or address"},
      {"A4.7", Check::kAcks, "a remote access error for a request that names no memory"},
      {"A4.8", Check::kAcks, "an MSN that does not count the messages"},
      {"A4.9", Check::kAcks, "an AETH syndrome that does not exist"},
      {"A4.10", Check::kAcks, "an ACK that goes back behind the newest"},
      {"A4.11", Check::kOrder, "acknowledged after an RNR NAK without having been sent again"},
      {"A4.13", Check::kReads, "READ responses that are not the data asked for"},
      {"A4.14", Check::kReads, "answers that do not keep the order of the requests"},
      {"A4.16", Check::kReads, "a misaligned ATOMIC executed"},
      {"A4.17", Check::kAcks, "a duplicate SEND or WRITE not answered by the newest PSN"},
      {"A4.18", Check::kReads, "a duplicate READ that is not inside its old range"},
      {"A4.19", Check::kReads, "a duplicate ATOMIC answered by another value"},
      {"A4.21", Check::kAcks, "an answer after a fatal NAK"},
      {"A5.2", Check::kReads, "more READs and ATOMICs in flight than agreed"},
      {"A5.3", Check::kAcks, "an ACK of what was not sent"},
      {"A5.4", Check::kReads, "a READ or ATOMIC whose response was lost, not asked for again"},
      {"A5.5", Check::kOrder, "a sequence NAK that was not obeyed"},
      {"A5.6", Check::kOrder, "sent again with other contents"},
      {"A5.7", Check::kWaits, "an RNR NAK that was not waited for, or too often"},
      {"A5.8", Check::kWaits, "an ACK timeout too early, or too many"},
      {"A5.9", Check::kOrder, "sent again after a NAK that ends the connection"},
      {"A5.10", Check::kAcks, "a SEND without a credit"},
      {"A5.11", Check::kReads, "a response that nobody asked for"},
      {"A6.1", Check::kEcn, "a congestion mark on a packet that is not ECN-capable"},
      {"A6.2", Check::kEcn, "congestion marks that no CNP answers"},
      {"A6.3", Check::kEcn, "a CNP of another form or to a queue pair that does not exist"},
      {"A6.4", Check::kEcn, "CNPs closer together than agreed"},
      {"A6.5", Check::kEcn, "a CNP for READ data that does not go to the responder"},
      {"A9.1", Check::kCm, "a datagram whose header is not the connection manager's"},
      {"A9.2", Check::kCm, "a message with a field that cannot be, or that was not kept"},
      {"A9.3", Check::kCm, "a request of RDMA-CM without its private header"},
      {"A9.4", Check::kCm, "a REQ without an answer, a REP without a REQ"},
      {"A9.5", Check::kCm, "a REP without an RTU, an RTU without a REP"},
      {"A9.6", Check::kCm, "a message repeated with other contents"},
      {"A9.7", Check::kCm, "a REJ with a reason that does not exist, or of nothing"},
      {"A9.8", Check::kCm, "an MRA about nothing that was sent"},
      {"A9.9", Check::kCm, "a message repeated before its time, or too often"},
      {"A9.10", Check::kCm, "a DREQ without a DREP, a DREP without a DREQ"},
      {"A9.11", Check::kCm, "a queue pair of a connection that stands, accepted for another one"},
      {"A9.12", Check::kCm, "a LAP without an APR"},
      {"A9.13", Check::kCm, "a SIDR_REQ that was not answered, or wrongly"},
      {"A4.10", Check::kAcknowledged, "requests without an answer"},
      {"-", Check::kComplete, "the capture lacks something"},
      {"-", Check::kRate, "a queue that did not keep its rate"},
      {"-", Check::kCollective, "a step with other bytes than the model's"},
  }};
  return kInfo[static_cast<size_t>(rule)];
}

}  // namespace understudy
