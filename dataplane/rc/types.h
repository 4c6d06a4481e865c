// Plain structs that the two halves of a connection share.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "dataplane/base/address.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/units.h"
#include "dataplane/rc/memory.h"
#include "dataplane/wire/build.h"

namespace understudy {

/// States of a queue pair (rule A4.23). A connection never gets to kSqe: an error of its send queue
/// ends it.
enum class QpState : uint8_t { kReset, kInit, kRtr, kRts, kSqd, kSqe, kError };
const char* qp_state_name(QpState state);

struct QpConfig {
  NodeId node = kNoNode;
  Qpn qpn = 0;
  Qpn remote_qpn = 0;
  Psn rq_psn;            ///< first PSN expected
  Psn sq_psn;            ///< first PSN sent
  uint32_t mtu = 1024;   ///< path MTU, bytes
  uint8_t timeout = 14;  ///< 4.096 us << timeout; 0 = no timer (rule A5)
  uint8_t retry_count = 7;
  uint8_t rnr_retry = 7;  ///< 7 = for ever
  uint8_t min_rnr_timer = 12;
  uint8_t max_dest_rd_atomic = 16;
  uint8_t max_rd_atomic = 16;
  uint8_t ask_every = 64;     ///< packets of a message: at least so often it asks for an ACK (A5)
  uint32_t send_queue = 512;  ///< most work requests outstanding; its memory is taken at once
  uint16_t pkey = 0xffff;
  bool migration = true;
  bool control = false;  ///< its requests are credits: may travel in a class of their own
  uint8_t access = kAccessRemoteAny;  ///< what the peer may do at all; regions narrow it
  /// An unreliable connection: nothing is acknowledged or sent again, and a message of which a
  /// packet is missing never was (IBTA 9.8.2). SEND and WRITE only.
  bool unreliable = false;
  bool flow_control = false;  ///< advertise receives in the AETH and obey the peer's credits
  QpState start = QpState::kRts;
  RoceAddressing addressing;
};

/// Delay that RNR timer code stands for (rule A4's table, 0..31).
Duration rnr_delay(uint8_t code);

/// A packet a queue pair wants to send now.
struct OutPacket {
  RoceFields fields;
  PayloadRef payload;
  uint32_t payload_bytes = 0;

  /// As new, in place: an assignment would build it elsewhere first, for each packet.
  void clear() { std::construct_at(this); }
};

/// Why a queue pair dropped a packet or left the good path; each has a counter.
enum class RcEvent : uint8_t {
  kDuplicateRequest,
  kPsnGap,
  kNakSent,
  kRnrSent,
  kNakReceived,
  kRnrReceived,
  kTimeout,
  kRetransmit,
  kGhostAck,
  kInvalidRequest,
  kRemoteAccess,
  kLengthError,
  kImpliedNak,
  kQpError,
  kAckSent,
  kAckReceived,
  kDuplicateDropped,
  kWrongService,
  kWrongState,
  kInvalidated,
  kMessageDropped,
  kCount
};
const char* rc_event_name(RcEvent event);
using RcCounters = std::array<uint64_t, static_cast<size_t>(RcEvent::kCount)>;
inline void count(RcCounters& counters, RcEvent event) { ++counters[static_cast<size_t>(event)]; }

/// What both halves of a queue pair look at.
struct QpBase {
  QpConfig config;
  RegionTable& regions;
  RcCounters& counters;
};

/// Longest message (rule A4.5).
inline constexpr uint32_t kMaxMessageBytes = uint32_t{1} << 31;

enum class WorkOp : uint8_t {
  kSend,
  kSendImm,
  kWrite,
  kWriteImm,
  kRead,
  kSendInvalidate,
  kCompareSwap,
  kFetchAdd
};

struct WorkRequest {
  WorkOp op = WorkOp::kWrite;
  uint64_t id = 0;
  uint64_t remote_va = 0;
  Rkey rkey = 0;
  uint32_t length = 0;
  uint32_t imm = 0;            ///< as it stands big-endian in the ImmDt field
  PayloadRef payload;          ///< SEND and WRITE
  uint8_t* read_to = nullptr;  ///< READ: where the data go; atomics: the original value, 8 bytes in
                               ///< host order; null discards
  Rkey invalidate = 0;         ///< SEND with invalidate: the peer's rkey
  uint64_t compare_add = 0;    ///< CMP_SWAP: what is compared; FETCH_ADD: what is added
  uint64_t swap = 0;           ///< CMP_SWAP
  bool fence = false;          ///< waits for the READs and ATOMICs before it (rule A5.2)
  bool solicited = false;      ///< SEND and WRITE with immediate: asks for an event at the peer
};

enum class WorkStatus : uint8_t {
  kSuccess,
  kRetryExceeded,
  kRnrRetryExceeded,
  kRemoteInvalidRequest,
  kRemoteAccess,
  kRemoteOperational,
  kFlushed
};

/// A message that arrived in full.
struct Received {
  bool is_write = false;  ///< RDMA WRITE (without immediate unless has_imm), else SEND
  bool has_imm = false;
  uint32_t imm = 0;
  uint64_t va = 0;  ///< WRITE: where it went
  Rkey rkey = 0;
  uint32_t length = 0;
  bool solicited = false;
  bool has_invalidate = false;
  Rkey invalidated = 0;  ///< SEND with invalidate: the rkey that is gone
  /// Contents of a message of one packet, for queue pairs whose payload is kept; null of longer
  /// ones. Good during the call.
  const uint8_t* payload = nullptr;
};

/// Where messages of the peer go that take a receive: the buffers that a program has posted.
class ReceiveSink {
 public:
  virtual ~ReceiveSink() = default;
  /// The next receive becomes the one that place() fills; false: none is posted. Once per message.
  virtual bool take() = 0;
  /// Bytes of a SEND, `offset` from its start. Returns the NAK that ends the connection where they
  /// do not fit or may not be written (rule A4.3).
  virtual std::optional<NakCode> place(uint32_t offset, std::span<const uint8_t> bytes) = 0;
};

class Qp;

/// The behaviour above a queue pair. Calls happen inside the shard, at modelled time.
class QpOwner {
 public:
  virtual ~QpOwner() = default;
  virtual void on_received(Time now, Qp& qp, const Received& message) = 0;
  virtual void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) = 0;
  /// An ATOMIC of the peer was carried out on the eight bytes at `va`; once, however often it comes.
  /// `operand`: what it adds, or puts there.
  virtual void on_atomic(Time /*now*/, Qp& /*qp*/, uint64_t /*va*/, uint64_t /*operand*/) {}
  /// The first packet in order came while the queue pair was in RTR (rule A4.22); before
  /// on_received().
  virtual void on_established(Time /*now*/, Qp& /*qp*/) {}
};

}  // namespace understudy
