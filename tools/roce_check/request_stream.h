// One direction of a reliable connection as a capture shows it: the requests of one side and what
// the other side answers (rules A4, A5). Losses, NAKs and go-back-N retransmissions are legal; what
// no loss can explain is not.
//
// Requests wait in a window, one slot per PSN, until they have been answered; they leave it in PSN
// order, and that is when order, opcode sequence and lengths are judged: on what the responder
// accepted, not on what was sent in vain.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tools/roce_check/findings.h"
#include "tools/roce_check/packet_table.h"

namespace understudy {

/// A message that its receiver has accepted, or a READ or ATOMIC that was answered.
struct AcceptedMessage {
  OpKind kind = OpKind::kUnknown;
  uint64_t bytes = 0;
  bool imm = false;
  uint64_t first_frame = 0;  ///< of the accepted transmission
  Time first_at, last_at;    ///< of its first and last packet
};

struct StreamCounts {
  uint64_t requests = 0;  ///< request packets, without retransmissions
  uint64_t retransmissions = 0;
  uint64_t responses = 0;
  uint64_t repeated_responses = 0;
  uint64_t acks = 0;
  uint64_t rnr_naks = 0;
  uint64_t naks[5] = {};    ///< by NakCode
  uint64_t unanswered = 0;  ///< request packets at the end of the capture
};

class RequestStream {
 public:
  RequestStream(std::string name, uint32_t pmtu, Findings& findings)
      : name_(std::move(name)), pmtu_(pmtu), findings_(findings) {}

  void request(const PacketRecord& p);
  void response(const PacketRecord& p);
  /// The capture is over. `excused`: the connection broke, or the capture was stopped in mid-run:
  /// what is unanswered then is no fault.
  void finish(bool excused);

  /// A NAK other than PSN sequence error ended the connection.
  bool broken() const { return broken_; }
  const StreamCounts& counts() const { return counts_; }
  const std::vector<AcceptedMessage>& messages() const { return messages_; }

 private:
  /// A transmission of a slot's packet.
  struct Sent {
    uint64_t frame;
    Time at;
  };
  struct Slot {
    bool known = false;   ///< some transmission of it has been seen
    bool answer = false;  ///< READ or ATOMIC: needs a response of its own
    uint8_t opcode = 0;
    bool ack_request = false;
    bool read_first = false;      ///< first PSN of a READ
    bool read_start = false;      ///< a request for it, first or repeated, began here
    uint32_t bytes = 0;           ///< payload; of a READ: what its response carries
    uint32_t dma_length = 0;      ///< RETH; of a READ: what is left from here on
    uint64_t messages = 0;        ///< messages that end up to here (a READ: begin)
    uint64_t answered_frame = 0;  ///< of the ACK, or the first fitting response
    uint64_t nak_frame = 0;       ///< the last NAK that asked for it
    std::vector<Sent> sent;
    std::vector<uint64_t> answers;  ///< frames of READ/ATOMIC responses
  };

  int64_t extended(Psn psn) const { return next_ + psn.distance_from(Psn(low(next_))); }
  static uint32_t low(int64_t psn) { return static_cast<uint32_t>(psn) & Psn::kMask; }
  Slot* slot(int64_t psn);
  void fault(Check check, uint64_t frame, int64_t psn, const std::string& what) {
    findings_.add(check, frame, name_ + " PSN " + std::to_string(low(psn)) + ": " + what);
  }

  // request_stream.cc: what the requester sends
  uint32_t span_of(const PacketRecord& p) const;
  bool is_new_connection(const PacketRecord& p, int64_t psn) const;
  void start(const PacketRecord& p);
  void place(const PacketRecord& p, int64_t psn, uint32_t index);
  void set(Slot& slot, const PacketRecord& p, uint32_t index) const;
  void compare(const Slot& slot, const PacketRecord& p, int64_t psn, uint32_t index);
  void recount(int64_t from);

  // request_answers.cc: what the responder sends
  void acknowledge(int64_t psn, uint64_t frame);
  void nak(const PacketRecord& p, int64_t psn);
  void read_response(const PacketRecord& p, int64_t psn);
  void atomic_response(const PacketRecord& p, int64_t psn);
  void check_msn(const PacketRecord& p, int64_t psn, bool is_nak);

  // request_judgement.cc: what was accepted in the end
  void retire();
  uint64_t answer_of(const Slot& slot) const;
  static bool nak_ignored(const Slot& slot);
  void judge(const Slot& slot, int64_t psn);
  const Sent* accepted(const Slot& slot, uint64_t answered) const;
  void judge_message(const Slot& slot, int64_t psn, const Sent& sent);
  void judge_length(const Slot& slot, int64_t psn, const Sent& sent);

  std::string name_;
  uint32_t pmtu_;
  Findings& findings_;
  StreamCounts counts_;
  std::vector<AcceptedMessage> messages_;

  bool started_ = false;
  bool broken_ = false;
  int64_t first_ = 0;  ///< PSNs of the connection, continued beyond 24 bits
  int64_t base_ = 0;   ///< of the window's front
  int64_t next_ = 0;   ///< first PSN never sent
  int64_t acked_ = 0;  ///< first PSN that no ACK covers
  std::deque<Slot> window_;
  uint64_t retired_messages_ = 0;  ///< that ended before the window
  size_t holes_ = 0;               ///< slots that are not known

  uint64_t accepted_frame_ = 0;  ///< transmission of the last slot judged
  uint64_t answered_frame_ = 0;  ///< response of the last READ slot judged
  bool msn_seen_ = false;
  bool msn_exact_ = false;  ///< the connection's first message is in the capture
  int64_t msn_ = 0;         ///< newest, continued beyond 24 bits
  int64_t msn_psn_ = 0;     ///< PSN of the response that carried it

  struct OpenMessage {
    AcceptedMessage message;
    std::optional<uint32_t> declared;  ///< RETH length
  };
  std::optional<OpenMessage> open_;
};

}  // namespace understudy
