// READs and ATOMICs that responders have taken: those that wait for their answer, and those that a
// duplicate may ask for again. One pool for all queue pairs of a shard, so that a queue pair
// without any takes no memory for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "dataplane/base/ids.h"
#include "dataplane/wire/opcodes.h"

namespace understudy {

class Responder;

/// Its answer, and what a duplicate of it must look like. No member has a value before it is set:
/// of the pool's memory only what is used is touched.
struct Answer {
  uint64_t va;
  uint64_t original;  ///< ATOMIC: what was there before
  Responder* owner;
  Psn psn;  ///< of its first response packet
  uint32_t packets, sent;
  Rkey rkey;
  uint32_t length;
  uint32_t msn;
  uint32_t older, newer;              ///< beside it in its owner's history, if `remembered`
  uint32_t behind;                    ///< in its owner's queue, if it waits there
  uint32_t before_idle, behind_idle;  ///< beside it among those that are remembered and do not wait
  OpKind kind;                        ///< kReadRequest or kAtomicRequest
  bool repeat;                        ///< asked for by a duplicate
  bool remembered;
  bool waits;
};

class AnswerPool {
 public:
  static constexpr uint32_t kNone = 0xffffffff;

  explicit AnswerPool(uint32_t capacity)
      : memory_(new std::byte[capacity * sizeof(Answer)]), capacity_(capacity) {}

  Answer& operator[](uint32_t i) { return answers()[i]; }
  const Answer& operator[](uint32_t i) const { return answers()[i]; }

  /// One that nobody uses, or kNone.
  uint32_t take();
  void give_back(uint32_t i);
  /// Whether take() gives one, at once or once idle_longest() has been forgotten.
  bool has_some() const {
    return free_ != kNone || used_ < capacity_ || reads_.first != kNone || atomics_.first != kNone;
  }

  /// From now on it is only remembered.
  void set_idle(uint32_t i);
  void unset_idle(uint32_t i);
  /// Whose answer has left the longest time ago, or kNone. READs before ATOMICs: they can be
  /// executed again.
  uint32_t idle_longest() const { return reads_.first != kNone ? reads_.first : atomics_.first; }

 private:
  struct Line {
    uint32_t first = kNone, last = kNone;
  };
  Answer* answers() const { return reinterpret_cast<Answer*>(memory_.get()); }
  Line& line_of(uint32_t i) {
    return answers()[i].kind == OpKind::kReadRequest ? reads_ : atomics_;
  }

  std::unique_ptr<std::byte[]> memory_;
  uint32_t capacity_;
  uint32_t used_ = 0;  ///< those from here on have never been taken
  uint32_t free_ = kNone;
  Line reads_, atomics_;  ///< idle ones, in the order in which they became so
};

}  // namespace understudy
