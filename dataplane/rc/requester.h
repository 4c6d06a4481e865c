// The requester half of a reliable connection (rule A5): segments work requests, keeps what is not
// acknowledged, and goes back N on NAK, RNR or timeout. Pulled for packets: pacing happens outside.
// requester.cc sends and keeps time, requester_response.cc hears what the peer answers.
#pragma once

#include <cstdint>
#include <memory>

#include "dataplane/rc/types.h"
#include "dataplane/wire/parse.h"

namespace understudy {

/// A work request that completed, in posting order.
struct Completion {
  uint64_t id = 0;
  WorkStatus status = WorkStatus::kSuccess;
};

class Requester {
 public:
  explicit Requester(const QpBase& base);

  /// False when the send queue is full: of work requests, or of packets (2^23 not acknowledged);
  /// and for what can never be sent: more than 2^31 bytes, a READ or ATOMIC where max_rd_atomic is
  /// 0.
  bool post(const WorkRequest& request);
  size_t outstanding() const { return count_; }
  /// SQD: what has begun is finished, nothing else is sent until it is taken back.
  void set_drained(bool drained) { drained_ = drained; }

  bool has_packet(Time now) const { return now >= rnr_until_ && may_send(); }
  /// Builds the next packet. Only if has_packet(now). True when it is the last of its work request;
  /// `id` is then that request's.
  bool pull(Time now, OutPacket& out, uint64_t& id);

  /// ACK, NAK, READ response or ATOMIC ACK. `payload` belongs to READ responses.
  void on_response(Time now, const RoceView& packet, const uint8_t* payload);
  /// To be called at or after deadline(): retransmits or fails.
  void on_timer(Time now);
  Time deadline() const;
  /// What it would send now waits for a link through which nothing comes: that counts as sent and
  /// not answered, for nobody knows better.
  void hold(Time now) {
    if (!base_.config.unreliable && timer_.is_never() && may_send()) start_timer(now);
  }
  /// The oldest PSN that is not acknowledged.
  Psn unacknowledged() const { return una_; }
  /// PSN of the packet that goes next.
  Psn next_psn() const {
    return cursor_ < count_ ? entry(cursor_).psn.advance(cursor_packet_) : sent_;
  }

  /// Completions since the last call, oldest first; false when there are none left.
  bool pop_completion(Completion& out);
  bool failed() const { return failed_; }
  /// Ends all work: kFlushed.
  void flush() { fail(WorkStatus::kFlushed, count_); }
  /// Back to the start, as for a queue pair just made: work is forgotten without completion.
  void reset();

 private:
  /// What a READ or ATOMIC has instead of a payload.
  struct Fetch {
    uint8_t* read_to;
    uint64_t compare_add, swap;
  };
  /// A work request, in the room of one: there are as many as may ever be posted.
  struct Entry {
    uint64_t id = 0;
    uint64_t remote_va = 0;
    union {
      PayloadRef payload = {};
      Fetch fetch;  ///< if it wants_answer
    };
    Rkey rkey = 0;
    uint32_t length = 0;
    uint32_t imm = 0;  ///< or what a SEND invalidates
    Psn psn;           ///< of its first packet
    uint32_t packets = 0;
    uint32_t answered = 0;  ///< READ and ATOMIC: response packets that came
    uint32_t ssn = 0;       ///< 24-bit number of the message, counted from 1
    WorkOp op = WorkOp::kWrite;
    bool fence = false;
    bool solicited = false;
    bool wants_answer = false;                 ///< READ and ATOMIC
    bool takes_receive = false;                ///< SEND and WRITE with immediate
    WorkStatus status = WorkStatus::kSuccess;  ///< once it is done

    bool open() const { return wants_answer && answered < packets; }
  };

  uint32_t room() const { return base_.config.send_queue; }
  /// Entry `i` from the oldest unfinished one, less than room(). Without a division: each packet
  /// asks often.
  uint32_t place(uint32_t i) const {
    return i < room() - first_ ? first_ + i : first_ - (room() - i);
  }
  Entry& entry(uint32_t i) { return ring_[place(i)]; }
  const Entry& entry(uint32_t i) const { return ring_[place(i)]; }
  void fill(const Entry& e, OutPacket& out) const;
  void fill_request(const Entry& e, RoceFields& f) const;
  bool may_send() const;
  void restart_from(Psn psn);
  void complete_until(Psn psn);
  void progress(Time now);
  void take_credits(const RoceView& packet);
  /// The peer's credits do not allow this message.
  bool limited(const Entry& e) const;
  void on_ack(Time now, Psn psn);
  /// Takes everything before `end` as acknowledged, but for what lies behind an unanswered READ or
  /// ATOMIC. Returns how far that came.
  Psn acknowledge_before(Time now, Psn end);
  /// Sends again from `psn` on, unless a retry is under way already (rule A5.5).
  void go_back(Time now, Psn psn);
  void on_nak(Time now, const RoceView& packet);
  void on_rnr_nak(Time now, const RoceView& packet);
  void on_answer(Time now, const RoceView& packet, const uint8_t* payload);
  /// The unfinished entry that `psn` belongs to, or count_.
  uint32_t entry_of(Psn psn) const;
  /// The oldest unanswered READ or ATOMIC among packets before or at `psn`, or count_.
  uint32_t open_before(Psn psn) const;
  void finish(WorkStatus status);
  /// Ends all work: `status` for the request `culprit`, kFlushed for the others.
  void fail(WorkStatus status, uint32_t culprit);
  void retry_from(Psn psn);
  Duration timeout() const;
  void start_timer(Time now);
  uint32_t answers_in_flight() const;

  // What a queue pair that sends nothing is asked for comes first.
  const QpBase& base_;
  Time timer_ = Time::never();     ///< retransmission deadline; runs while an answer is asked for
  Time rnr_until_;                 ///< nothing is sent before
  uint32_t count_ = 0;             ///< unfinished entries
  uint32_t cursor_ = 0;            ///< entry (relative to first_) that is being sent
  uint32_t cursor_packet_ = 0;     ///< its next packet
  uint32_t first_ = 0;             ///< oldest unfinished entry
  std::unique_ptr<Entry[]> ring_;  ///< room() of them; null without any
  uint32_t done_ = 0;              ///< finished entries before first_, of which nobody knows yet
  Psn next_psn_;                   ///< of the next work request posted
  uint32_t next_ssn_ = 1;
  Psn una_;                ///< oldest PSN not acknowledged
  Psn sent_;               ///< one past the highest PSN ever sent
  Psn asked_;              ///< one past the newest PSN since the last go-back with AckReq
  Time asked_at_;          ///< when the timer started
  uint32_t last_ssn_ = 0;  ///< newest message that the peer's credits allow
  uint8_t retries_left_, rnr_left_;
  bool retrying_ = false;  ///< a go-back is under way: further sequence NAKs are ignored
  bool drained_ = false;
  bool failed_ = false;
  bool credits_limit_ = false;  ///< the newest credits of the peer are a limit
};

}  // namespace understudy
