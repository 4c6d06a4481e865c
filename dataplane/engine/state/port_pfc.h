// PFC frames on a real port (wire/pfc.h): what the real NIC has been told and when it has to be
// told again, and what it has told us. Times come with the calls; the model's side of a pause is
// fabric/network.h.
#pragma once

#include <array>
#include <cstdint>

#include "dataplane/base/units.h"
#include "dataplane/fabric/queue_settings.h"
#include "dataplane/wire/pfc.h"

namespace understudy {

struct PortPfcSettings {
  bool on = false;  ///< else nothing is sent, and what comes is counted only
  Rate rate;        ///< of the wire, on which quanta are counted; not unlimited
};

struct PortPfcCounters {
  uint64_t sent = 0;      ///< frames, those that only repeat what was said among them
  uint64_t received = 0;  ///< frames
  // Sums over classes:
  Duration told;   ///< the real NIC had been told to pause
  Duration heard;  ///< it had told us to
  Duration late;   ///< most that a frame left behind its time
};

class PortPfc {
 public:
  /// `classes` may be empty if it is not on; it outlives this.
  PortPfc(const PortPfcSettings& settings, const std::vector<ClassSettings>& classes);

  bool on() const { return settings_.on; }

  // What we say.
  /// A sender in the model, of which the real NIC may be several (one a cable), has to pause class
  /// `cls`, or may go on; the frame is due then.
  void tell(unsigned cls, bool pause, Time due);
  /// When a frame is due; never() if none is.
  Time next_frame() const;
  /// What is due at `now`, in one frame, which leaves now; of a class that has had to pause and to
  /// go on since then, the first of both. Pauses last as long as a frame can say, and are repeated
  /// after half of that.
  PfcFrame take_frame(Time now);

  // What we hear.
  void count_received() { ++counters_.received; }
  /// A frame has come. Gives the classes whose pause it begins, changes or ends: each has to be
  /// looked at now and when it ends. Priorities without PFC here are not heard.
  uint8_t hear(const PfcFrame& frame, Time now);
  Time pause_ends(unsigned cls) const;
  /// The class is looked at. True if its pause has begun or ended since it was last.
  bool look(unsigned cls, Time now);
  bool is_paused(unsigned cls) const { return (paused_ >> cls & 1) != 0; }

  /// With the pauses that last at `now`.
  PortPfcCounters counters_at(Time now) const;

 private:
  static constexpr unsigned kMostClasses = kPfcPriorities;
  /// Of one class. A frame is late when the loop is; beyond so many that wait, a pause and its end
  /// cancel out.
  struct Said {
    static constexpr unsigned kMostWaiting = 8;
    unsigned pausing = 0;  ///< senders in the model that have to
    bool paused = false;   ///< what the real NIC has heard last
    Time since;            ///< when it was told so
    /// When what it has yet to hear is due: pause and resume in turn, by what it has heard last.
    std::array<Time, kMostWaiting> due{};
    unsigned waiting = 0;
  };
  Time due(const Said& said) const;

  PortPfcSettings settings_;
  Duration longest_;                             ///< pause that one frame can ask for
  std::array<uint8_t, kMostClasses> members_{};  ///< priorities of each class with PFC
  std::array<Said, kMostClasses> said_;
  std::array<Time, kPfcPriorities> until_{};  ///< which each priority is to pause
  std::array<Time, kMostClasses> since_{};    ///< classes in paused_ have been
  uint8_t paused_ = 0;                        ///< classes, as they were last looked at
  PortPfcCounters counters_;
};

}  // namespace understudy
