// One table drives everything that depends on a BTH opcode: extension headers, position in the
// message, kind of operation (rule A3).
#pragma once

#include <array>
#include <cstdint>

namespace understudy {

enum class Opcode : uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastImm = 0x03,
  kSendOnly = 0x04,
  kSendOnlyImm = 0x05,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteLastImm = 0x09,
  kWriteOnly = 0x0a,
  kWriteOnlyImm = 0x0b,
  kReadRequest = 0x0c,
  kReadResponseFirst = 0x0d,
  kReadResponseMiddle = 0x0e,
  kReadResponseLast = 0x0f,
  kReadResponseOnly = 0x10,
  kAcknowledge = 0x11,
  kAtomicAcknowledge = 0x12,
  kCompareSwap = 0x13,
  kFetchAdd = 0x14,
  kSendLastInv = 0x16,
  kSendOnlyInv = 0x17,
  // Unreliable connections have the first twelve again, kUnreliable higher.
  kUcSendFirst = 0x20,
  kUcWriteOnlyImm = 0x2b,
  kUdSendOnly = 0x64,
  kUdSendOnlyImm = 0x65,
  kCnp = 0x81,
};

enum class OpKind : uint8_t {
  kUnknown,
  kSend,
  kWrite,
  kReadRequest,
  kReadResponse,
  kAck,
  kAtomicRequest,
  kUd,
  kCnp
};

struct OpcodeInfo {
  const char* name = nullptr;  ///< null: not an opcode we know
  OpKind kind = OpKind::kUnknown;
  bool start = false;  ///< begins a message
  bool end = false;    ///< ends a message
  bool reth = false, aeth = false, imm = false, atomic_eth = false, atomic_ack = false;
  bool ieth = false, deth = false;
  bool unreliable = false;   ///< of an unreliable connection: never answered
  uint8_t header_bytes = 0;  ///< extension headers after the BTH

  /// Sent by a requester; takes a place in the requester's PSN sequence.
  constexpr bool is_request() const {
    return kind == OpKind::kSend || kind == OpKind::kWrite || kind == OpKind::kReadRequest ||
           kind == OpKind::kAtomicRequest;
  }
  /// Sent by a responder.
  constexpr bool is_response() const {
    return kind == OpKind::kReadResponse || kind == OpKind::kAck;
  }
};

/// What lies between an opcode of a reliable connection and the same of an unreliable one.
inline constexpr uint8_t kUnreliable = 0x20;

/// The table, by opcode.
extern const std::array<OpcodeInfo, 256> kOpcodes;

inline const OpcodeInfo& opcode_info(uint8_t opcode) { return kOpcodes[opcode]; }
inline const OpcodeInfo& opcode_info(Opcode opcode) {
  return opcode_info(static_cast<uint8_t>(opcode));
}

// AETH syndrome, bits 7..5 the kind, bits 4..0 credits, RNR timer or NAK code (rule A4).
inline constexpr uint8_t kSyndromeAck = 0x00;
inline constexpr uint8_t kSyndromeRnrNak = 0x20;
inline constexpr uint8_t kSyndromeNak = 0x60;
inline constexpr uint8_t kSyndromeKindMask = 0xe0;
inline constexpr uint8_t kSyndromeValueMask = 0x1f;
inline constexpr uint8_t kNoCredits = 0x1f;  ///< "credits are not used"
enum class NakCode : uint8_t {
  kPsnSequence = 0,
  kInvalidRequest = 1,
  kRemoteAccess = 2,
  kRemoteOperational = 3,
  kInvalidRdRequest = 4
};

}  // namespace understudy
