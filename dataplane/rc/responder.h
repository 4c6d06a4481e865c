// The responder half of a reliable connection (rule A4): executes requests in PSN order, keeps what
// must be answered, and is pulled for its answers.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/rc/types.h"
#include "dataplane/wire/parse.h"

namespace understudy {

/// What became of a request packet.
struct ResponderResult {
  bool message_done = false;  ///< `received` is a message to report to the owner
  Received received;
  bool fatal = false;  ///< a NAK that ends the connection is pending
};

class Responder {
 public:
  Responder(const QpConfig& config, const RegionTable& regions, RcCounters& counters);

  /// Receives that are posted: each SEND and each WRITE with immediate takes one.
  void post_receives(uint64_t count) { receives_ += count; }
  void set_endless_receives() { endless_ = true; }
  /// Buffer that every SEND is placed in; null discards. Longer messages are a length error.
  void set_receive_buffer(std::span<uint8_t> buffer) { receive_buffer_ = buffer; }

  /// One request packet; `payload` has view.payload_bytes bytes.
  ResponderResult on_request(const RoceView& packet, const uint8_t* payload);

  bool has_ack() const { return ack_pending_ && (reads_ == 0 || ack_before_reads_); }
  bool has_read_data() const { return reads_ != 0; }
  /// Builds the pending ACK or NAK. Only if has_ack().
  void pull_ack(OutPacket& out);
  /// Builds the next READ response packet. Only if has_read_data().
  void pull_read_data(OutPacket& out);

 private:
  struct ReadJob {
    Psn psn;  ///< of its first response packet
    uint32_t packets = 0, sent = 0;
    uint64_t va = 0;
    Rkey rkey = 0;
    uint32_t length = 0;
    uint32_t msn = 0;
    bool repeat = false;  ///< asked for by a duplicate
  };

  ResponderResult duplicate(const RoceView& packet);
  ResponderResult read_request(const RoceView& packet);
  ResponderResult send_or_write(const RoceView& packet, const uint8_t* payload);
  bool check_sequence(const OpcodeInfo& info) const;
  bool check_length(const RoceView& packet, const OpcodeInfo& info) const;
  ResponderResult refuse(NakCode code, RcEvent why);
  void acknowledge(Psn psn, uint8_t syndrome);
  uint32_t packets_for(uint32_t length) const;
  void push_read(const ReadJob& job);
  void pop_read();
  /// The region that `rkey` names if it may be used so from `va` for `length` bytes, else null.
  const Region* accessible(Rkey rkey, uint8_t access, uint64_t va, uint32_t length) const;

  const QpConfig& config_;
  const RegionTable& regions_;
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

  uint64_t receives_ = 0;
  bool endless_ = false;
  std::span<uint8_t> receive_buffer_;

  bool ack_pending_ = false;
  bool ack_before_reads_ = false;  ///< the pending ACK is older than the queued READs
  Psn ack_psn_;
  uint8_t ack_syndrome_ = 0;

  std::vector<ReadJob> jobs_;  ///< ring: READs to answer, oldest first
  size_t first_read_ = 0, reads_ = 0;
  std::vector<ReadJob> history_;  ///< ring: READs accepted lately, for duplicates
  size_t history_next_ = 0;
};

}  // namespace understudy
