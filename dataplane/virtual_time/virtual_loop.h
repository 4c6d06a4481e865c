// The loop in virtual time: participants say when they have something to do next; the earliest goes
// first. A run is a pure function of what they are: no clock, no thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/engine/shard_interface.h"
#include "dataplane/virtual_time/virtual_link.h"

namespace understudy {

class Participant {
 public:
  virtual ~Participant() = default;
  /// For errors.
  virtual const std::string& name() const = 0;
  /// When it has something to do; a time that has passed means at once, never() only if another
  /// one brings work.
  virtual Time next_event() const = 0;
  /// Does all that is due at `t`, which never goes back.
  virtual void advance_to(Time t) = 0;
  /// Nobody else has anything to do until `limit`: one that brings no work to others may go on for
  /// a while. Gives the time reached.
  virtual Time advance_alone(Time t, Time limit) {
    static_cast<void>(limit);
    advance_to(t);
    return t;
  }
};

/// A shard behind its ends of virtual links.
class ShardParticipant final : public Participant {
 public:
  ShardParticipant(VirtualPort& port, EngineShard& shard)
      : ShardParticipant(std::vector<VirtualPort*>{&port}, shard) {}
  /// One for each of its ports.
  ShardParticipant(std::vector<VirtualPort*> ports, EngineShard& shard);
  const std::string& name() const override { return ports_.front()->name(); }
  Time next_event() const override;
  void advance_to(Time t) override;

 private:
  std::vector<VirtualPort*> ports_;
  std::vector<TxSink*> sinks_;
  EngineShard& shard_;
};

class VirtualLoop {
 public:
  /// Participants that are due at the same time go in the order in which they were added.
  void add(Participant& participant) { participants_.push_back(&participant); }

  /// Runs until nobody has anything to do, or only after `limit`; then now() is the last time
  /// reached. May be called again. Error: a participant stays due at one time for ever.
  Result<void> run(Time limit = Time::never());
  /// Asked every so many turns of run(), which ends with its error.
  void watch(std::function<Result<void>()> look) { look_ = std::move(look); }
  Time now() const { return now_; }
  /// When somebody has something to do next; a time that has passed means at once.
  Time next() const { return next_of(nullptr); }
  /// The same of all but this one.
  Time next_but(const Participant& one) const { return next_of(&one); }

 private:
  Time next_of(const Participant* left_out) const;

  static constexpr uint64_t kTurnsBetweenLooks = 1 << 16;
  std::vector<Participant*> participants_;
  Time now_;
  std::function<Result<void>()> look_;
  uint64_t until_look_ = kTurnsBetweenLooks;
};

}  // namespace understudy
