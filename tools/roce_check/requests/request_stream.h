// One direction of a reliable connection as a capture shows it: the requests of one side and what
// the other side answers (rules A4, A5). Losses, NAKs and go-back-N retransmissions are legal; what
// no loss can explain is not.
//
// Requests wait in a window, one slot per PSN, until they have been answered; they leave it in PSN
// order, and that is when order, opcode sequence and lengths are judged: on what the responder
// accepted, not on what was sent in vain.
//
// A capture may begin inside a connection and may lack packets. What the responder acknowledges
// was sent: where the capture does not say of itself that it is complete, such a packet was not
// captured, which is no fault of the connection.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tools/roce_check/findings/findings.h"
#include "tools/roce_check/findings/stream_results.h"
#include "tools/roce_check/packets/packet_table.h"

namespace understudy {

/// What a stream can be held to.
struct StreamContext {
  /// The capture knows that it lacks nothing: what is not in it was not on the wire there.
  bool complete = false;
  /// The capture began before the connection did.
  bool from_start = false;
  /// Before this time it may lack what was on its way when it began.
  std::optional<Time> whole_from;
  /// The network may have duplicated and reordered between the capture and an endpoint.
  bool impaired = false;
  /// Packets of the other direction are in the capture.
  bool other_way = true;
  /// All messages are to be kept, not only their sums.
  bool keep_messages = false;
  QpLimits limits;
  std::optional<Psn> first_psn;  ///< as RDMA-CM agreed
};

/// When something happened: mostly once.
class Stamps {
 public:
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  const Stamp& operator[](size_t i) const { return i == 0 ? first_ : more_[i - 1]; }
  const Stamp& front() const { return first_; }
  const Stamp& back() const { return (*this)[count_ - 1]; }
  void push_back(Stamp stamp) {
    if (count_++ == 0) {
      first_ = stamp;
    } else {
      more_.push_back(stamp);
    }
  }

 private:
  size_t count_ = 0;
  Stamp first_;
  std::vector<Stamp> more_;
};

class RequestStream {
 public:
  RequestStream(std::string name, uint32_t pmtu, StreamContext context, Findings& findings)
      : name_(std::move(name)),
        pmtu_(pmtu),
        context_(context),
        findings_(findings),
        messages_(context_.keep_messages) {}

  /// More has become known, as more of the capture was read.
  void set_pmtu(uint32_t pmtu) { pmtu_ = pmtu; }
  void set_complete(bool complete) { context_.complete = complete; }
  void set_other_way(std::string name) {
    name_ = std::move(name);
    context_.other_way = true;
  }
  /// A request that came with a wrong ICRC.
  void damaged(Psn psn);

  void request(const PacketRecord& p);
  /// The same of an unreliable connection.
  void unreliable(const PacketRecord& p);
  void response(const PacketRecord& p);
  /// The requests that come with the first PSN from now on are of a connection that both ends have
  /// set up anew on the same queue pairs, as the other direction has shown.
  void other_way_is_reset() { other_way_reset_ = true; }
  /// The last packet of a message that the other end has sent.
  void other_way_said(Stamp stamp) { peer_said_ = stamp; }
  /// How often this direction has shown the same by itself.
  unsigned resets() const { return resets_; }
  /// The capture is over. `excused`: the connection broke, or the capture was stopped in mid-run:
  /// what is unanswered then is no fault.
  void finish(bool excused);

  /// A NAK other than PSN sequence error ended the connection.
  bool broken() const { return broken_; }
  const StreamCounts& counts() const { return counts_; }
  const StreamTimes& times() const { return times_; }
  const MessageLog& messages() const { return messages_; }
  /// Whether an answer with this PSN would be one to what was sent and is not answered yet.
  bool waits_for(Psn psn) const;

 private:
  /// What was asked for with one PSN.
  struct Request {
    bool known = false;   ///< some transmission of it has been seen
    bool answer = false;  ///< READ or ATOMIC: needs a response of its own
    uint8_t opcode = 0;
    bool ack_request = false;
    bool read_first = false;  ///< first PSN of a READ
    bool read_start = false;  ///< a request for it, first or repeated, began here
    uint32_t bytes = 0;       ///< payload; of a READ: what its response carries
    uint32_t dma_length = 0;  ///< RETH; of a READ: what is left from here on
    uint64_t va = 0;          ///< where the packet's data lie, as far as it says
    Rkey rkey = 0;
    uint32_t imm = 0;
    uint64_t frame = 0;  ///< that first showed it
    bool whole = false;  ///< its payload is in the capture, and this is its CRC:
    uint32_t payload_crc = 0;
    std::optional<uint64_t> value;  ///< of an ATOMIC's response
  };
  /// One that waits for its answer.
  struct Slot : Request {
    uint64_t messages = 0;  ///< messages that end up to here (a READ: begin)
    Stamp answered;         ///< the ACK, or the first fitting response
    Stamp nak;              ///< the last NAK that asked for it; of those after an RNR NAK, that
    Stamp gap_nak;          ///< the last sequence NAK that asked for it
    uint8_t nak_syndrome = 0;
    Stamp revealed;  ///< a packet behind it, where that was seen first
    Stamp passed;    ///< READ or ATOMIC: an answer to a later request came first
    Stamps sent;
    Stamps answers;  ///< READ/ATOMIC responses
  };

  bool is_early(Stamp stamp) const {
    return context_.whole_from && stamp.at < *context_.whole_from;
  }
  /// The packet at `stamp` shows that another one is not in the capture.
  void miss(Stamp stamp) { ++(is_early(stamp) ? counts_.sent_before : counts_.not_captured); }
  int64_t extended(Psn psn) const { return next_ + psn.distance_from(Psn(low(next_))); }
  static uint32_t low(int64_t psn) { return static_cast<uint32_t>(psn) & Psn::kMask; }
  Slot* slot(int64_t psn);
  std::string text(int64_t psn, const std::string& what) const {
    return name_ + " PSN " + std::to_string(low(psn)) + ": " + what;
  }
  void fault(Rule rule, Stamp stamp, int64_t psn, const std::string& what,
             std::optional<Basis> basis = {}) {
    findings_.add(rule, stamp, text(psn, what), basis);
  }
  /// A fault unless a packet that is missing from the capture explains it.
  void suspect(Rule rule, Stamp stamp, int64_t psn, const std::string& what) {
    findings_.add_if_gapless(rule, stamp, text(psn, what));
  }

  // request_stream.cc: what the requester sends
  uint32_t span_of(const PacketRecord& p) const;
  bool is_new_connection(const PacketRecord& p, int64_t psn) const;
  bool is_first_again(const PacketRecord& p) const;
  bool is_reset(const PacketRecord& p, int64_t psn) const;
  void start(const PacketRecord& p);
  bool extend_front(int64_t psn, Stamp stamp);
  void settle_early_answers(int64_t psn);
  void place(const PacketRecord& p, int64_t psn, uint32_t index);
  void set(Request& slot, const PacketRecord& p, uint32_t index) const;
  void compare(const Slot& slot, const PacketRecord& p, int64_t psn, uint32_t index);
  void compare_retired(const PacketRecord& p, int64_t psn, uint32_t index);
  bool compare_payload(const Request& slot, const Request& again, Stamp stamp, int64_t psn);
  void give_up_front(Stamp stamp);
  void recount(int64_t from);

  // request_retries.cc: when and why packets are sent again
  void follow_retries(const PacketRecord& p, int64_t psn);
  void settle_retry();
  void check_depth(const PacketRecord& p, int64_t psn);
  void check_credit(const PacketRecord& p, int64_t psn);
  void check_asking(const PacketRecord& p, int64_t psn);
  void finish_asking();

  // request_answers.cc and request_naks.cc: what the responder sends
  bool out_of_range(const PacketRecord& p, int64_t psn);
  void acknowledge(int64_t psn, Stamp stamp);
  void ack(const PacketRecord& p, int64_t psn);
  void nak(const PacketRecord& p, int64_t psn);
  void sequence_nak(const PacketRecord& p, int64_t psn, const Slot* slot);
  void fatal_nak(const PacketRecord& p, int64_t psn, const Slot* slot);
  Request* asked(const PacketRecord& p, int64_t psn, OpKind kind, const char* name, bool& repeated);
  void read_response(const PacketRecord& p, int64_t psn);
  void atomic_response(const PacketRecord& p, int64_t psn);
  void check_late(const Slot& slot, const PacketRecord& p, int64_t psn);
  void check_msn(const PacketRecord& p, int64_t psn, bool is_nak);
  void check_learned_msn(const PacketRecord& p, int64_t psn, int64_t msn, int64_t sent,
                         std::optional<int64_t> completed);

  // request_judgement.cc: what was accepted in the end
  void retire();
  void drop_front();
  Stamp answer_of(const Slot& slot) const;
  static bool overtaken(const Slot& slot);
  static bool nak_ignored(const Slot& slot);
  void judge(const Slot& slot, int64_t psn);
  void judge_unseen(const Slot& slot, int64_t psn);
  const Stamp* accepted(const Slot& slot, Stamp answered) const;
  void judge_message(const Request& slot, int64_t psn, Stamp sent);
  void judge_length(const Request& slot, int64_t psn, Stamp sent);
  bool answer_not_captured(const Slot& slot) const;
  void finish_early_answers();
  bool finish_slot(const Slot& slot, int64_t psn, bool excused);
  void finish_missing(const Slot& first, int64_t psn, size_t missing);

  std::string name_;
  uint32_t pmtu_;
  StreamContext context_;
  Findings& findings_;
  StreamCounts counts_;
  StreamTimes times_;
  MessageLog messages_;
  std::deque<uint32_t> damaged_;  ///< PSNs that came with a wrong ICRC, the last ones

  bool started_ = false;
  bool other_way_reset_ = false;
  Stamp peer_said_;
  unsigned resets_ = 0;
  bool broken_ = false;
  Stamp broken_at_;
  int64_t first_ = 0;  ///< PSNs of the connection, continued beyond 24 bits
  int64_t base_ = 0;   ///< of the window's front
  int64_t next_ = 0;   ///< first PSN never sent
  int64_t acked_ = 0;  ///< first PSN that no ACK covers
  std::deque<Slot> window_;
  std::deque<Request> retired_;      ///< what left the window last
  int64_t retired_end_ = 0;          ///< PSN behind the last of them; there are no gaps in between
  uint64_t retired_messages_ = 0;    ///< that ended before the window
  size_t holes_ = 0;                 ///< slots that are not known
  std::vector<PacketRecord> early_;  ///< answers to what has not been captured yet, if it ever is

  Stamp accepted_at_;  ///< transmission of the last slot judged
  Stamp answered_at_;  ///< response of the last READ slot judged
  bool msn_seen_ = false;
  bool msn_exact_ = false;  ///< the connection's first message is in the capture
  int64_t msn_ = 0;         ///< newest, continued beyond 24 bits
  int64_t msn_psn_ = 0;     ///< PSN of the response that carried it
  /// Messages that the responder had counted before those that this capture shows: each response
  /// says that they are not fewer and not more than so many. Where the start was not captured.
  struct MsnOrigin {
    int64_t least, most;
    uint64_t frame;  ///< of the response that said so first
  };
  std::optional<MsnOrigin> msn_origin_;
  std::optional<int64_t> newest_ack_;  ///< PSN
  Stamp last_duplicate_;               ///< the newest request below next_
  Stamp last_request_;
  Stamp last_response_;                  ///< to something that was sent
  std::optional<int64_t> credit_limit_;  ///< messages that the responder has receives for

  /// A step back in the requester's PSNs, until the packet behind it tells what it was.
  struct Retry {
    RetryCause cause;
    Duration delay;
    int64_t resume;  ///< where it would have gone on
    int64_t end;     ///< where it goes on after a single packet
  };
  std::optional<Retry> retry_;
  Stamp retry_at_;
  int64_t cursor_ = 0;  ///< PSN that follows the last request
  int64_t retry_psn_ = -1;
  unsigned timeouts_ = 0, rnr_naks_ = 0;  ///< in a row, without progress

  uint32_t unasked_ = 0;  ///< new SENDs and WRITEs in a row that ask for no ACK
  Stamp unasked_since_;   ///< the first of them
  bool unasked_said_ = false;

  struct OpenMessage {
    AcceptedMessage message;
    std::optional<uint32_t> declared;  ///< RETH length
  };
  std::optional<OpenMessage> open_;
  bool cut_ = false;  ///< of the message that goes on here the beginning was not seen
};

}  // namespace understudy
