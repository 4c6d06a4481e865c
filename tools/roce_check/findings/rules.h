// What roce-check can find wrong: rules of the conformance list by their ids, and what it says
// about the capture itself. Each belongs to one check, which is how a report sums them up.
#pragma once

#include <cstddef>
#include <cstdint>

namespace understudy {

enum class Check : uint8_t {
  kParse,         ///< every RoCEv2 packet parses
  kHeaders,       ///< fields of IP, UDP and BTH that no state is needed for
  kIcrc,          ///< every ICRC is right
  kOrder,         ///< PSNs come in order; gaps are asked for and closed by going back
  kOpcodes,       ///< opcode sequence of each message
  kLengths,       ///< FIRST/MIDDLE are PMTU, RETH lengths equal the payload
  kAcks,          ///< ACKs, NAKs and MSNs are legal and answer what was sent
  kReads,         ///< READs and ATOMICs and their responses
  kWaits,         ///< RNR timers, ACK timeouts, retry counts
  kAcknowledged,  ///< every request is acknowledged in the end
  kEcn,           ///< congestion marks and CNPs
  kCm,            ///< connection management on QP1
  kComplete,      ///< the capture lacks nothing
  kRate,          ///< each emulated queue kept its configured rate
  kCollective,    ///< each step of the collective carried what the model says
};
inline constexpr size_t kChecks = 15;

enum class Basis : uint8_t;  // findings.h

struct CheckInfo {
  const char* name;
  const char* text;
};
const CheckInfo& check_info(Check check);

// In the order of the conformance list. The names are the ids with "_" for ".".
enum class Rule : uint8_t {
  kA1_1,
  kA1_2,
  kA1_3,
  kA1_4,
  kA1_7,
  kA1_8,
  kA1_9,
  kA1_10,
  kA1_11,
  kA1_12,
  kA1_13,
  kA2_1,
  kA2_2,
  kA2_3,
  kA3_1,
  kA3_2,
  kA3_3,
  kA4_2,
  kA4_4,
  kA4_5,
  kA4_6,
  kA4_7,
  kA4_8,
  kA4_9,
  kA4_10,
  kA4_11,
  kA4_13,
  kA4_14,
  kA4_16,
  kA4_17,
  kA4_18,
  kA4_19,
  kA4_21,
  kA5_1,
  kA5_2,
  kA5_3,
  kA5_4,
  kA5_5,
  kA5_6,
  kA5_7,
  kA5_8,
  kA5_9,
  kA5_10,
  kA5_11,
  kA6_1,
  kA6_2,
  kA6_3,
  kA6_4,
  kA6_5,
  kA9_1,
  kA9_2,
  kA9_3,
  kA9_4,
  kA9_5,
  kA9_6,
  kA9_7,
  kA9_8,
  kA9_9,
  kA9_10,
  kA9_11,
  kA9_12,
  kA9_13,
  kUnanswered,  ///< A4.10, too: a request that nobody acknowledges
  kComplete,
  kRate,
  kCollective,
};
inline constexpr size_t kRules = static_cast<size_t>(Rule::kCollective) + 1;

struct RuleInfo {
  const char* id;  ///< as in the conformance list; "-" for what is no rule of the wire
  Check check;
  Basis basis;       ///< of its violations, where they say no other
  const char* text;  ///< what a violation of it is
};
const RuleInfo& rule_info(Rule rule);

}  // namespace understudy
