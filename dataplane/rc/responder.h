// The responder half of a reliable connection (rule A4): executes requests in PSN order, keeps what
// must be answered, and is pulled for its answers. responder.cc checks and executes requests,
// responder_answers.cc keeps and builds the answers.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/rc/types.h"
#include "dataplane/wire/parse.h"

namespace understudy {

/// What became of a request packet.
enum class RequestOutcome : uint8_t {
  kNotExpected,  ///< a duplicate, behind a gap, or of another service
  kTaken,        ///< it had the expected PSN; also where no receive was there for it
  kMessage,      ///< the same, and received() is a message to report to the owner
  kFatal         ///< the same, and a NAK that ends the connection is pending
};

class Responder {
 public:
  Responder(const QpConfig& config, RegionTable& regions, RcCounters& counters);

  /// Receives that are posted: each SEND and each WRITE with immediate takes one.
  void post_receives(uint64_t count) { receives_ += count; }
  void set_endless_receives() { endless_ = true; }
  /// Buffer that every SEND is placed in; null discards. Longer messages are a length error.
  void set_receive_buffer(std::span<uint8_t> buffer) { receive_buffer_ = buffer; }
  /// Who has the receives instead of all these; stays across reset() and must outlive this object.
  void set_receive_sink(ReceiveSink* sink) { sink_ = sink; }

  /// One request packet; `payload` has view.payload_bytes bytes.
  RequestOutcome on_request(const RoceView& packet, const uint8_t* payload);
  /// The newest message that was done.
  const Received& received() const { return received_; }

  bool has_ack() const { return ack_pending_ && (answers_ == 0 || ack_before_answers_); }
  bool has_answer() const { return answers_ != 0; }
  /// Builds the pending ACK or NAK. Only if has_ack().
  void pull_ack(OutPacket& out);
  /// Builds the next READ response or ATOMIC ACK. Only if has_answer(). False when the region of a
  /// READ has gone meanwhile: then `out` is the NAK that ends the connection.
  bool pull_answer(OutPacket& out);

  /// Forgets what was still to be answered.
  void drop_answers();
  /// Back to the start, as for a queue pair just made: no receives, the first PSN expected.
  void reset();

 private:
  /// A READ or ATOMIC: its answer, and what a duplicate of it must look like.
  struct Answer {
    OpKind kind = OpKind::kUnknown;  ///< kReadRequest or kAtomicRequest
    Psn psn;                         ///< of its first response packet
    uint32_t packets = 0, sent = 0;
    uint64_t va = 0;
    Rkey rkey = 0;
    uint32_t length = 0;
    uint32_t msn = 0;
    uint64_t original = 0;  ///< ATOMIC: what was there before
    bool repeat = false;    ///< asked for by a duplicate
  };

  RequestOutcome expected(const RoceView& packet, const uint8_t* payload);
  RequestOutcome read_request(const RoceView& packet);
  RequestOutcome atomic_request(const RoceView& packet);
  RequestOutcome send_or_write(const RoceView& packet, const uint8_t* payload);
  RequestOutcome refuse(NakCode code, RcEvent why);
  void gap();
  bool check_sequence(const OpcodeInfo& info) const;
  bool check_length(const RoceView& packet, const OpcodeInfo& info) const;
  bool take_receive() { return sink_ != nullptr ? sink_->take() : endless_ || receives_ > 0; }
  uint32_t packets_for(uint32_t length) const;
  /// The region that `rkey` names if it may be used so from `va` for `length` bytes, else null.
  const Region* accessible(Rkey rkey, uint8_t access, uint64_t va, uint32_t length) const;

  void duplicate(const RoceView& packet);
  void acknowledge_again();
  void repeat(const Answer& old, const RoceView& packet);
  const Answer* remembered(const RoceView& packet) const;
  bool room_for_answer();
  void accept(const Answer& answer);
  void push_answer(const Answer& answer);
  /// The answer behind `i` others.
  Answer& waiting(size_t i) { return queue_[(first_answer_ + i) % queue_.size()]; }
  void pop_answer();
  void acknowledge(Psn psn, uint8_t syndrome);
  uint8_t ack_syndrome() const;

  const QpConfig& config_;
  RegionTable& regions_;
  RcCounters& counters_;

  Psn epsn_;
  uint32_t msn_ = 0;
  bool gap_nak_sent_ = false;  ///< one NAK per gap, until the expected PSN arrives (rule A4)
  bool rnr_waiting_ = false;   ///< rest of a message that met RNR is dropped

  bool in_message_ = false;  ///< between FIRST and LAST
  OpKind message_kind_ = OpKind::kUnknown;
  uint64_t message_va_ = 0;
  Rkey message_rkey_ = 0;
  uint32_t message_length_ = 0;  ///< WRITE: from the RETH
  uint32_t message_done_ = 0;    ///< bytes so far
  Received received_;

  uint64_t receives_ = 0;
  bool endless_ = false;
  std::span<uint8_t> receive_buffer_;
  ReceiveSink* sink_ = nullptr;

  bool ack_pending_ = false;
  bool ack_before_answers_ = false;  ///< the pending ACK is older than the queued answers
  Psn ack_psn_;
  uint8_t ack_syndrome_ = 0;
  uint32_t ack_msn_ = 0;

  std::vector<Answer> queue_;  ///< ring: READs and ATOMICs to answer, oldest first
  size_t first_answer_ = 0, answers_ = 0;
  std::vector<Answer> history_;  ///< ring: READs and ATOMICs accepted lately, for duplicates
  size_t history_next_ = 0;
};

}  // namespace understudy
