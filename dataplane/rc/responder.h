// The responder half of a connection (rule A4): executes requests in PSN order, keeps what
// must be answered, and is pulled for its answers. responder.cc checks and executes requests,
// responder_answers.cc keeps and builds the answers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dataplane/rc/types.h"
#include "dataplane/wire/parse.h"

namespace understudy {

/// What became of a request packet.
enum class RequestOutcome : uint8_t {
  kNotExpected,  ///< a duplicate, behind a gap, or of another service
  kTaken,        ///< it had the expected PSN; also where no receive was there for it
  kMessage,      ///< the same, and received() is a message to report to the owner
  kAtomic,       ///< the same, and an ATOMIC was carried out, which the owner hears of
  kFatal         ///< the same, and a NAK that ends the connection is pending
};

class Responder {
 public:
  explicit Responder(const QpBase& base) : base_(base), epsn_(base.config.rq_psn) {}
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;
  ~Responder() { forget_answers(); }

  /// Receives that are posted: each SEND and each WRITE with immediate takes one.
  void post_receives(uint64_t count) {
    receives_ = static_cast<uint32_t>(std::min<uint64_t>(receives_ + count, kMost));
  }
  void set_endless_receives() { endless_ = true; }
  /// Buffer that every SEND is placed in; null discards. Longer messages are a length error.
  void set_receive_buffer(std::span<uint8_t> buffer) {
    receive_buffer_ = buffer.data();
    receive_bytes_ = static_cast<uint32_t>(std::min<uint64_t>(buffer.size(), kMost));
  }
  /// Who has the receives instead of all these; stays across reset() and must outlive this object.
  void set_receive_sink(ReceiveSink* sink) { sink_ = sink; }

  /// One request packet; `payload` has view.payload_bytes bytes.
  RequestOutcome on_request(const RoceView& packet, const uint8_t* payload);
  /// The same of MIDDLE packets of a WRITE from PSN `first` on, each with `bytes` that nobody
  /// wants. False, and nothing done, unless all are as they have to be.
  bool take_middles(Psn first, uint32_t packets, uint32_t bytes);
  /// The message whose last packet this one was: after kMessage only.
  Received received(const RoceView& packet, const uint8_t* payload) const;

  bool has_ack() const { return ack_pending_ && (answers_ == 0 || ack_before_answers_); }
  bool has_answer() const { return answers_ != 0; }
  /// Builds the pending ACK or NAK. Only if has_ack().
  void pull_ack(OutPacket& out);
  /// Builds the next READ response or ATOMIC ACK. Only if has_answer(). False when the region of a
  /// READ has gone meanwhile: then `out` is the NAK that ends the connection.
  bool pull_answer(OutPacket& out);

  /// Forgets what was still to be answered.
  void drop_answers();
  /// And all READs and ATOMICs that there ever were. Before its shard lets go of it: the memory for
  /// them is the shard's.
  void forget_answers();
  /// Back to the start, as for a queue pair just made: no receives, the first PSN expected.
  void reset();

 private:
  static constexpr uint32_t kMost = 0xffffffff;
  static constexpr uint32_t kNone = AnswerPool::kNone;

  RequestOutcome expected(const RoceView& packet, const uint8_t* payload);
  RequestOutcome read_request(const RoceView& packet);
  RequestOutcome atomic_request(const RoceView& packet);
  RequestOutcome send_or_write(const RoceView& packet, const uint8_t* payload);
  RequestOutcome refuse(NakCode code, RcEvent why);
  RequestOutcome not_ready();
  RequestOutcome unreliable(const RoceView& packet, const uint8_t* payload);
  RequestOutcome drop_message();
  void gap();
  void end_wait_for_expected();
  bool check_sequence(const OpcodeInfo& info) const;
  bool check_length(const RoceView& packet, const OpcodeInfo& info) const;
  bool take_receive() { return sink_ != nullptr ? sink_->take() : endless_ || receives_ > 0; }
  uint32_t packets_for(uint32_t length) const;
  /// The region that `rkey` names if it may be used so from `va` for `length` bytes, else null.
  const Region* accessible(Rkey rkey, uint8_t access, uint64_t va, uint32_t length) const;

  void duplicate(const RoceView& packet);
  void acknowledge_again();
  void repeat(uint32_t old, const RoceView& packet);
  void execute_again(const RoceView& packet);
  void put_repeat(const Answer& again, Psn first, uint32_t packets);
  uint32_t remembered(const RoceView& packet) const;
  bool room_for_answer();
  uint32_t take_answer();
  void accept(const Answer& answer);
  void remember(uint32_t answer);
  void forget(uint32_t answer);
  void push_answer(uint32_t answer);
  void pop_answer();
  /// Has left the queue.
  void end_wait(uint32_t answer);
  void acknowledge(Psn psn, uint8_t syndrome);
  bool nak_pending() const {
    return ack_pending_ && (ack_syndrome_ & kSyndromeKindMask) != kSyndromeAck;
  }
  void take_nak_back();
  uint8_t ack_syndrome() const;

  AnswerPool& pool() const { return base_.regions.answers(); }
  Answer& answer(uint32_t i) const { return pool()[i]; }
  /// So many READs and ATOMICs accepted last are remembered, for duplicates.
  uint32_t most_remembered() const {
    return std::max<uint32_t>(base_.config.max_dest_rd_atomic, 1);
  }

  // In the order of how near it is to a WRITE: an idle queue pair costs memory, and where there are
  // many, each cache line costs time.
  const QpBase& base_;
  Psn epsn_;
  uint32_t msn_ = 0;
  uint64_t message_va_ = 0;
  Rkey message_rkey_ = 0;
  uint32_t message_length_ = 0;  ///< WRITE: from the RETH
  uint32_t message_done_ = 0;    ///< bytes so far
  Psn ack_psn_;
  uint32_t ack_msn_ = 0;
  uint32_t receives_ = 0;
  ReceiveSink* sink_ = nullptr;
  uint8_t* receive_buffer_ = nullptr;
  uint32_t receive_bytes_ = 0;
  uint32_t first_answer_ = kNone, last_answer_ = kNone;  ///< queue of those that wait
  uint32_t oldest_ = kNone, newest_ = kNone;             ///< of those that are remembered
  uint8_t answers_ = 0;                                  ///< that wait
  uint8_t remembered_ = 0;
  bool lost_reads_ : 1 = false;  ///< the pool had no room for all that would be remembered
  bool endless_ : 1 = false;
  bool receive_held_ : 1 = false;  ///< unreliable: one was taken for a message that was dropped
  bool ack_withheld_ : 1 = false;  ///< the pending NAK stands for an ACK, too
  uint8_t ack_syndrome_ = 0;
  bool ack_pending_ = false;
  bool ack_before_answers_ = false;  ///< the pending ACK is older than the queued answers
  bool gap_nak_sent_ = false;        ///< one NAK per gap, until the expected PSN arrives (rule A4)
  bool rnr_waiting_ = false;         ///< rest of a message that met RNR is dropped
  bool in_message_ = false;          ///< between FIRST and LAST
  OpKind message_kind_ = OpKind::kUnknown;
};

}  // namespace understudy
