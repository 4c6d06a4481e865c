// All emulated ranks of a job whose operations are not known before the run. Control finds out what
// they are, from what comes or from a feed, and hands them over with their plans: before anything
// of them has come, or later, with all that has come so far told to the plan then; what it would
// have sent by then is late, and counted. An operation that was a guess may be replaced by another.
//
// Credits for what real ranks send are granted ahead. What they grant is answered when the plan
// says so; where control has given up, or an operation is not what came, at once.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "dataplane/base/spsc_ring.h"
#include "dataplane/collective/emulated_connections.h"
#include "dataplane/collective/online_operation.h"

namespace understudy {

class OnlineEmulatedRanks final : public Endpoint,
                                  public InnerListener,
                                  private EmulatedConnections::Listener {
 public:
  /// Operations that it can have at a time.
  static constexpr size_t kMost = 64;

  struct Settings {
    std::vector<Duration> delay;  ///< by rank: how late it is in every operation, at least
    std::vector<Duration> wait;   ///< by link: for the real ranks' other first messages
    size_t inputs = 0;            ///< that can be kept until their operation is settled
    /// Of CollectiveJob::inner; null without any. Then all operations are sure.
    InnerMessages* carrier = nullptr;
  };
  /// `job` is looked at for its connections and real ranks only. All of it outlives this object.
  OnlineEmulatedRanks(const CollectiveJob& job, CollectiveProgress& progress, Settings settings,
                      OnlineListener& listener);

  /// Their wake-ups are this object's.
  EmulatedConnections& connections() { return connections_; }

  static constexpr uint64_t kStart = 0;     ///< on_wake cookie: operations may begin
  static constexpr uint64_t kCommands = 1;  ///< on_wake cookie: there are commands()
  static constexpr uint64_t kForget = 2;    ///< on_wake cookie: as EmulatedRanks::kForget
  static constexpr uint64_t kLook = 3;      ///< on_wake cookie: as EmulatedRanks::kLook
  /// Filled by control's thread.
  SpscRing<OnlineCommand>& commands() { return commands_; }
  /// Carries out a command at once; called by the shard's own thread.
  void carry_out(Time now, const OnlineCommand& command);

  void on_wake(Time now, uint64_t cookie) override;
  // Queue pairs have their own endpoints.
  void on_received(Time, Qp&, const Received&) override {}
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}

  // InnerListener: of CollectiveJob::inner
  void inner_received(uint32_t inner, Time now) override;
  void inner_acknowledged(uint32_t inner, Time now) override;
  void inner_reaches(uint32_t flow, Time at) override;

 private:
  /// Credits of a link that stay granted beyond what an operation needs: those that every operation
  /// begins with.
  static uint64_t ahead(uint8_t index) { return index == 0 ? 4 : 8; }
  uint64_t ahead(uint32_t link) const { return ahead(job_.links[link].index); }

  /// The emulated end of a link receives, or sends. What two real ranks say to each other is only in
  /// the plans.
  bool hears(uint32_t link) const {
    return job_.links[link].real_sends && !job_.links[link].among_real();
  }
  bool says(uint32_t link) const {
    return !job_.links[link].real_sends && !job_.links[link].among_real();
  }

  enum class WakeKind : uint64_t {
    kControl = 0,
    kData = 1,
    kWaited = 2,
    kReminder = 3,
    kInnerData = 4,
    kInnerCredit = 5,
    kInnerReaches = 6
  };
  /// `plans`: Link::plans, of kData.
  static uint64_t cookie(WakeKind kind, uint32_t what, uint16_t plans = 0) {
    return static_cast<uint64_t>(kind) << 48 | uint64_t{plans} << 32 | what;
  }

  /// Messages of a link: as many as any release grants credits for.
  static constexpr size_t kUnderWay = 256;
  struct Link {
    // Messages of all operations.
    uint64_t credits = 0;   ///< that came
    uint64_t due = 0;       ///< whose time has come
    uint64_t released = 0;  ///< whose time was planned
    uint16_t plans = 0;     ///< counts those that were replaced
    uint64_t sent = 0;
    uint64_t transmitted = 0;
    uint64_t acknowledged = 0;
    uint64_t received = 0;
    uint64_t granting = 0;                          ///< credits that were granted, or will be
    std::array<uint32_t, kUnderWay> bytes_of = {};  ///< of messages under way
  };
  /// Messages of all operations between two emulated ranks.
  struct Inner {
    uint64_t posted = 0, received = 0, acknowledged = 0;
    uint64_t granting = 0;  ///< credits that were granted, or will be
    uint64_t settled = 0;   ///< of operations that are here or over
  };
  /// Data whose time the plan has given.
  struct Leaving {
    Time at;
    uint64_t cookie = 0;
  };
  /// What came; a plan that comes later is told all of it.
  struct Input {
    enum class Kind : uint8_t { kCredit, kData, kAcknowledgement };
    Kind kind = Kind::kCredit;
    bool fed = false;  ///< its operation was told
    uint32_t link = 0;
    uint32_t bytes = 0;
    uint64_t message = 0;  ///< of all operations
    Time time;
  };

  static constexpr uint32_t kNoLink = ~uint32_t{0};
  static constexpr uint64_t kNobody = ~uint64_t{0};
  void pair_reflections();
  bool waits_for_reflection(const OnlineOperation& op, uint32_t link, uint32_t bytes) const;
  void see_entry(uint64_t number, uint32_t link, Time entry);
  OnlineOperation* at(uint64_t number) const { return operations_[number % kMost]; }
  OnlineOperation* last() const { return known_ == first_ ? nullptr : at(known_ - 1); }
  OnlineOperation* operation_of(uint32_t link, uint64_t message) const;
  uint32_t wire(const OnlineOperation& op, uint32_t link, uint64_t k) const;
  bool notify(Time now, const OnlineNotice& notice);

  // EmulatedConnections::Listener
  void on_credit(Time now, uint32_t link) override;
  void on_data(Time now, uint32_t link, uint32_t bytes) override;
  void on_acknowledged(Time now, uint32_t link, uint64_t message) override;
  void on_left(Time scheduled, Time actual, uint32_t link, uint64_t message) override;

  void input(Time now, Input input);
  void look_for_next(Time now, uint64_t from);
  void trim();
  bool feed(Time now, OnlineOperation& op, uint64_t place);
  bool tell(Time now, OnlineOperation& op, Input& input, Time time);
  void tell_put_off(Time now, OnlineOperation& op);
  bool tell_inner(Time now, OnlineOperation& op, uint32_t inner, uint64_t k);
  bool agrees(Time now, const OnlineOperation& op, const Input& input);
  void install(Time now, OnlineOperation& op);
  bool crosses(const OnlineOperation& op) const;
  void begin_unseen(Time now, OnlineOperation& op);
  void replay(Time now, OnlineOperation& op);
  void lengthen(Time now, uint32_t link, const OnlineOperation* op);
  void settle(Time now, OnlineOperation& op);
  void enter(OnlineOperation& op);
  void take(Time now, OnlineOperation& op, Duration carried);
  OnlineOperation* inner_operation(uint32_t inner, uint64_t message) const;
  static void count_late(OnlineOperation& op, Duration late);
  void take_inner(Time now, OnlineOperation& op, uint32_t inner, const PlanOutput& out);
  void grant_inner(Time now, uint32_t inner, uint64_t until, Time at);
  void post_inner(Time now, uint32_t inner);
  void end_inner();
  void grant_ahead(Time now, uint32_t link, uint64_t until, Time at);
  void finish(Time now);
  void report(OnlineOperation& op);
  void send_due(Time now, uint32_t link);
  void give_up(Time now);
  void look();
  std::optional<LinkWait> wait_of(const OnlineOperation& op, uint32_t link) const;

  const CollectiveJob& job_;
  CollectiveProgress& progress_;
  const Settings settings_;
  OnlineListener& listener_;
  SpscRing<OnlineCommand> commands_;
  EmulatedConnections connections_;
  RankEntries entries_;
  RankEntries::Shown shown_;  ///< of operation `shown_of_`
  uint64_t shown_of_ = kNobody;
  Time start_;
  std::vector<Link> links_;
  std::vector<Inner> inner_;
  std::vector<Leaving> leaving_;                 ///< empty between calls
  std::vector<std::vector<uint32_t>> heard_of_;  ///< by rank: links by which real ones send to it
  std::vector<std::vector<uint32_t>> inner_of_;  ///< by rank: the same of emulated ones
  /// By link of ours: the one of its channel whose small messages it reflects, or kNoLink; and the
  /// other way round.
  std::vector<uint32_t> reflected_;
  std::vector<std::vector<uint32_t>> reflecting_;
  std::array<OnlineOperation*, kMost> operations_ = {};
  uint64_t first_ = 0;             ///< the oldest that is here
  uint64_t finished_ = 0;          ///< operations that are
  uint64_t known_ = 0;             ///< operations that were handed over
  std::vector<uint64_t> settled_;  ///< by link: messages of those that are over
  std::vector<Input> inputs_;      ///< a ring
  uint64_t oldest_ = 0, newest_ = 0;
  uint64_t begun_ = 0;  ///< operations that control was told of as begun
  bool given_up_ = false;
  bool ended_ = false;        ///< no operation follows the last one
  bool inner_ended_ = false;  ///< nothing more is said between emulated ranks
};

}  // namespace understudy
