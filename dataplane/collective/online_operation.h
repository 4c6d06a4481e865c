// Operations that are not known before the run: what control hands to a OnlineEmulatedRanks, and
// what it hears from it. Each operation is handed over by pointer and belongs to the shard until it
// is released.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "dataplane/collective/collective_job.h"
#include "dataplane/collective/collective_lateness.h"
#include "dataplane/collective/rank_entries.h"

namespace understudy {

/// One operation with its plan. Everything is allocated when it is made.
struct OnlineOperation {
  OnlineOperation(const CollectiveJob& job, std::unique_ptr<CollectiveShape> s,
                  std::unique_ptr<Plan> p)
      : shape(std::move(s)),
        plan(std::move(p)),
        delay(job.ranks()),
        lateness(job, std::array<const CollectiveShape*, 1>{shape.get()}),
        base(job.links.size()),
        inner_base(job.inner.size()),
        entered(job.ranks()),
        done(job.ranks(), Time::never()),
        put_off_of(job.links.size()) {
    put_off.reserve(1024);
    inner_put_off.reserve(1024);
  }

  /// Makes a finished one ready for another operation of its kind.
  void reset() {
    entered.assign(entered.size(), false);
    done.assign(done.size(), Time::never());
    put_off.clear();
    inner_put_off.clear();
    put_off_of.assign(put_off_of.size(), 0);
    began = over = finished = false;
    to_acknowledge = acknowledged = 0;
    first_entry = Time::never();
    end = Time();
    heard = carried = late = inner_late = Duration();
    bytes_sent = bytes_received = late_messages = wrong_sizes = 0;
  }

  // Set by control.
  const std::unique_ptr<CollectiveShape> shape;  ///< real, far, uses and links
  const std::unique_ptr<Plan> plan;
  uint64_t number = 0;  ///< of the job's operations
  /// Nothing replaces it, and its end is known: what differs from it is a disagreement. Else it is
  /// a guess.
  bool sure = false;
  /// By rank: from when it could enter until it does, beyond what the real ranks' programs show.
  std::vector<Duration> delay;

  // The shard's.
  CollectiveLateness lateness;
  std::vector<uint64_t> base;        ///< by link: messages before it
  std::vector<uint64_t> inner_base;  ///< by inner connection: the same
  std::vector<bool> entered;         ///< by rank
  std::vector<Time> done;            ///< by rank
  /// What has come that the plan was not ready for: places in the emulated ranks' inputs,
  /// ascending, and how many of each link.
  std::vector<uint64_t> put_off;
  std::vector<uint32_t> put_off_of;
  /// The same of messages between emulated ranks: inner connection and message, in their order.
  std::vector<std::pair<uint32_t, uint64_t>> inner_put_off;
  bool began = false;     ///< something of a real rank has come
  bool over = false;      ///< nothing replaces it any more
  bool finished = false;  ///< nothing of it is to come
  uint64_t to_acknowledge = 0, acknowledged = 0;
  Time entry, noticed;               ///< of the real ranks; when that was seen
  RankEntries::Shown shown;          ///< when ranks enter
  Time first_entry = Time::never();  ///< of its ranks
  Time end;
  Duration heard;       ///< most lateness of real ranks' messages
  Duration carried;     ///< most lateness in sum along a chain of dependent messages
  Duration inner_late;  ///< most that a message between emulated ranks left late
  uint64_t bytes_sent = 0, bytes_received = 0;
  // For the report, once it is finished:
  Duration late;               ///< most that a message left late, for this was not known
  uint64_t late_messages = 0;  ///< that did
  uint64_t wrong_sizes = 0;    ///< that left with another size, for this was not known
};

/// From the shard to control.
struct OnlineNotice {
  enum class Kind : uint8_t {
    kCredit,        ///< a real rank granted the next one of a link, of `bytes`
    kData,          ///< its next message on a link has wholly come, of `bytes`
    kSent,          ///< ours has wholly left
    kAcknowledged,  ///< our next one of a link was wholly acknowledged
    kBegan,         ///< the first that came of operation `number`, which is not known
    kWaited,        ///< and long enough for the real ranks' other first messages
    kReminder,      ///< that was asked for, with `number`
    kFinished,      ///< operation `number` is wholly over
    kReleased,      ///< operation `operation` is control's again
    kDisagrees,     ///< a message or credit of `bytes` on a link is none of operation `number`'s;
                    ///< every credit is answered from now on
    kOverfull,      ///< more has come of an unsettled operation than is kept; the same
  };
  Kind kind = Kind::kCredit;
  uint32_t link = 0;
  uint32_t bytes = 0;
  bool credit = false;    ///< kDisagrees: else a message
  uint32_t expected = 0;  ///< kDisagrees
  uint64_t number = 0;
  OnlineOperation* operation = nullptr;
  Time entry = {};  ///< kBegan: of the real rank
};

/// From control to the shard.
struct OnlineCommand {
  enum class Kind : uint8_t {
    kInstall,  ///< `operation` follows the last one, or, if it has its number, replaces it
    kOver,     ///< nothing will replace the last one
    kGiveUp,   ///< from now on every credit is answered at once
    kRemind,   ///< at `time`, with `number`
    kEnd,      ///< no operation follows the last one
  };
  Kind kind = Kind::kInstall;
  OnlineOperation* operation = nullptr;
  uint64_t number = 0;
  Time time = {};
};

/// Takes notices. In virtual time it may answer them at once, by OnlineEmulatedRanks::carry_out().
class OnlineListener {
 public:
  virtual ~OnlineListener() = default;
  /// False if it could not: it has lost track.
  virtual bool on_notice(Time now, const OnlineNotice& notice) = 0;
};

}  // namespace understudy
