// What is known of one direction of a connection when its packets have been followed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "dataplane/base/units.h"
#include "dataplane/wire/opcodes.h"

namespace understudy {

/// A message that its receiver has accepted, or a READ or ATOMIC that was answered.
struct AcceptedMessage {
  OpKind kind = OpKind::kUnknown;
  uint64_t bytes = 0;
  bool imm = false;
  uint64_t first_frame = 0;  ///< of the accepted transmission
  Time first_at;             ///< of its first packet
};

struct MessageSums {
  uint64_t messages = 0, bytes = 0;
};

/// What was accepted: sums by kind, and the messages themselves, of which all are kept or the first
/// ones.
class MessageLog {
 public:
  static constexpr size_t kFirst = 256;
  explicit MessageLog(bool all = false) : all_(all) {}
  void add(const AcceptedMessage& message);
  const MessageSums& of(OpKind kind) const { return sums_[static_cast<size_t>(kind)]; }
  MessageSums total() const;
  uint64_t size() const { return total().messages; }
  /// In the order of acceptance.
  const std::vector<AcceptedMessage>& kept() const { return kept_; }

  /// A point to go back to, where what follows turns out not to have been accepted.
  struct Mark;
  Mark mark() const;
  void back_to(const Mark& mark);

 private:
  static constexpr size_t kKinds = static_cast<size_t>(OpKind::kCnp) + 1;
  bool all_;
  std::array<MessageSums, kKinds> sums_{};
  std::vector<AcceptedMessage> kept_;
};

struct MessageLog::Mark {
  std::array<MessageSums, kKinds> sums;
  size_t kept;
};

struct StreamCounts {
  uint64_t requests = 0;  ///< request packets, without retransmissions
  uint64_t retransmissions = 0;
  uint64_t responses = 0;
  uint64_t repeated_responses = 0;
  uint64_t acks = 0;
  uint64_t rnr_naks = 0;
  uint64_t naks[5] = {};      ///< by NakCode
  uint64_t unanswered = 0;    ///< request packets at the end of the capture
  uint64_t late = 0;          ///< request packets behind later ones: lost at first, or overtaken
  uint64_t not_captured = 0;  ///< packets that must have been sent but are not in the capture
  uint64_t sent_before = 0;   ///< of these not counted, as they were on their way when it began
};

/// Why a requester went back.
enum class RetryCause : uint8_t { kSequenceNak, kRnrNak, kImpliedNak, kTimeout };
inline constexpr size_t kRetryCauses = 4;
const char* retry_cause_name(RetryCause cause);

/// Quantiles of any number of durations in bounded memory: exact of the first kExact, then from
/// classes that are less than 1 % wide. The shortest and the longest are always exact.
class DurationSamples {
 public:
  static constexpr size_t kExact = 1024;
  void add(Duration d);
  uint64_t count() const { return count_; }
  /// 0 is the shortest, 500 the median, 1000 the longest; zero where there are none.
  Duration quantile(unsigned permille) const;

 private:
  std::vector<Duration> samples_;           ///< while they are few
  std::map<int32_t, uint64_t> classified_;  ///< how many, by class; afterwards
  Duration least_, most_;
  uint64_t count_ = 0;
};

struct StreamTimes {
  DurationSamples ack;   ///< from a packet that asks for an ACK to the first answer that covers it
  DurationSamples read;  ///< from a READ or ATOMIC to its first response
  DurationSamples nak;   ///< from the packet behind a gap to the NAK
  std::array<DurationSamples, kRetryCauses>
      retry;  ///< from the NAK, or the packet itself, to it again
};

/// What the two sides of a connection agreed on, as far as the capture shows it.
struct QpLimits {
  std::optional<Duration> ack_timeout;
  std::optional<unsigned> retries;
  std::optional<unsigned> rnr_retries;  ///< 7: for ever
  std::optional<unsigned> depth;        ///< READs and ATOMICs in flight
};

}  // namespace understudy
