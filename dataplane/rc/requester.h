// The requester half of a reliable connection (rule A5): segments work requests, keeps what is not
// acknowledged, and goes back N on NAK, RNR or timeout. Pulled for packets: pacing happens outside.
#pragma once

#include <cstdint>
#include <vector>

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
  /// `depth`: most work requests outstanding.
  Requester(const QpConfig& config, RcCounters& counters, uint32_t depth = 512);

  /// False when the send queue is full: of work requests, or of packets (2^23 not acknowledged).
  bool post(const WorkRequest& request);
  size_t outstanding() const { return count_; }

  bool has_packet(Time now) const;
  /// Builds the next packet. Only if has_packet(now). True when it is the last of its work request;
  /// `id` is then that request's.
  bool pull(Time now, OutPacket& out, uint64_t& id);

  /// ACK, NAK or READ response. `payload` belongs to READ responses.
  void on_response(Time now, const RoceView& packet, const uint8_t* payload);
  /// To be called at or after deadline(): retransmits or fails.
  void on_timer(Time now);
  Time deadline() const;

  /// Completions since the last call, oldest first; false when there are none left.
  bool pop_completion(Completion& out);
  bool failed() const { return failed_; }
  /// Ends all work with `first` for the oldest request and kFlushed for the rest.
  void fail(WorkStatus first);

 private:
  struct Entry {
    WorkRequest request;
    Psn psn;  ///< of its first packet
    uint32_t packets = 0;
    uint32_t answered = 0;  ///< READ: response packets that came
  };

  Entry& entry(size_t i) { return ring_[(first_ + i) % ring_.size()]; }
  const Entry& entry(size_t i) const { return ring_[(first_ + i) % ring_.size()]; }
  void restart_from(Psn psn);
  void complete_until(Psn psn);
  void progress(Time now);
  void on_ack(Time now, Psn psn);
  /// Takes everything before `end` as acknowledged, but for what lies behind an unanswered READ.
  /// Returns how far that came.
  Psn acknowledge_before(Time now, Psn end);
  /// Sends again from `psn` on, unless a retry is under way already.
  void go_back(Time now, Psn psn);
  void on_nak(Time now, const RoceView& packet);
  void on_read_response(Time now, const RoceView& packet, const uint8_t* payload);
  /// The oldest unanswered READ among packets before or at `psn`, or count_.
  size_t open_read_before(Psn psn) const;
  void finish(WorkStatus status);
  Duration timeout() const;
  uint32_t reads_in_flight() const;

  const QpConfig& config_;
  RcCounters& counters_;
  std::vector<Entry> ring_;
  size_t first_ = 0, count_ = 0;  ///< oldest unfinished entry; unfinished entries
  size_t cursor_ = 0;             ///< entry (relative to first_) that is being sent
  uint32_t cursor_packet_ = 0;    ///< its next packet
  Psn next_psn_;                  ///< of the next work request posted
  Psn una_;                       ///< oldest PSN not acknowledged
  Psn sent_;                      ///< one past the highest PSN ever sent
  Time timer_ = Time::never();    ///< retransmission deadline
  Time rnr_until_;                ///< nothing is sent before
  uint8_t retries_left_, rnr_left_;
  bool retrying_ = false;  ///< a go-back is under way: further sequence NAKs are ignored
  bool failed_ = false;
  std::vector<Completion> done_;  ///< ring of completions not yet popped
  size_t done_first_ = 0, done_count_ = 0;
};

}  // namespace understudy
