// All emulated ranks of a job whose operations are not known before the run. Control finds out what
// they are, from what comes or from a feed, and hands them over with their plans: before anything
// of them has come, or later, with all that has come so far told to the plan then; what it would
// have sent by then is late, and counted. An operation that was a guess may be replaced by another.
//
// Credits for what real ranks send are granted ahead. What they grant is answered when the plan
// says so; where control has given up, or an operation is not what came, at once.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "dataplane/base/spsc_ring.h"
#include "dataplane/node/nccl_connection.h"
#include "dataplane/node/reactive_operation.h"

namespace understudy {

class ReactiveEnvironment final : public Endpoint {
 public:
  /// Operations that it can have at a time.
  static constexpr size_t kMost = 64;

  struct Settings {
    std::vector<Duration> delay;  ///< by rank: how much later than a real rank it enters
    std::vector<Duration> wait;   ///< by link: for the real ranks' other first messages
    size_t inputs = 0;            ///< that can be kept until their operation is settled
  };
  /// `job` is looked at for its connections and real ranks only. All of it outlives this object.
  ReactiveEnvironment(const CollectiveJob& job, CollectiveProgress& progress, Settings settings,
                      ReactiveListener& listener);

  Endpoint& endpoint(uint32_t link) { return ends_[link]; }
  NcclSender& sender(uint32_t link) { return links_[link].sender; }
  NcclReceiver& receiver(uint32_t link) { return links_[link].receiver; }

  static constexpr uint64_t kStart = 0;     ///< on_wake cookie: operations may begin
  static constexpr uint64_t kCommands = 1;  ///< on_wake cookie: there are commands()
  /// on_wake cookies: the link's connection, which its sender or receiver has been told, stands
  /// now, before kStart or after it; it is no more, for ever.
  static uint64_t joins(uint32_t link) { return cookie(WakeKind::kJoin, link); }
  static uint64_t leaves(uint32_t link) { return cookie(WakeKind::kLeave, link); }
  /// Filled by control's thread.
  SpscRing<ReactiveCommand>& commands() { return commands_; }
  /// The same, by the shard's own thread.
  void carry_out(Time now, const ReactiveCommand& command);

  void on_wake(Time now, uint64_t cookie) override;
  // Queue pairs have their own endpoints.
  void on_received(Time, Qp&, const Received&) override {}
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}

 private:
  /// Credits of a link that stay granted beyond what an operation needs: those that every operation
  /// begins with.
  uint64_t ahead(uint32_t link) const { return job_.links[link].index == 0 ? 4 : 8; }

  enum class WakeKind : uint64_t {
    kControl = 0,
    kData = 1,
    kCredit = 2,
    kWaited = 3,
    kReminder = 4,
    kJoin = 5,
    kLeave = 6
  };
  /// `plans`: Link::plans, of kData.
  static uint64_t cookie(WakeKind kind, uint32_t what, uint16_t plans = 0) {
    return static_cast<uint64_t>(kind) << 48 | uint64_t{plans} << 32 | what;
  }

  class End final : public Endpoint {
   public:
    End(ReactiveEnvironment& all, uint32_t link) : all_(all), link_(link) {}
    void on_received(Time now, Qp& qp, const Received& message) override;
    void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;
    void on_transmitted(Time scheduled, Time actual, Qp& qp, uint64_t id) override;

   private:
    ReactiveEnvironment& all_;
    const uint32_t link_;
  };
  /// Messages of a link: as many as any release grants credits for.
  static constexpr size_t kUnderWay = 256;
  struct Link {
    NcclSender sender;
    NcclReceiver receiver;
    bool joined = false;
    uint32_t owed = 0;  ///< credits whose time came before
    // Messages of all operations.
    uint64_t credits = 0;   ///< that came
    uint64_t due = 0;       ///< whose time has come
    uint64_t released = 0;  ///< whose time was planned
    uint16_t plans = 0;     ///< counts those that were replaced
    uint64_t sent = 0;
    uint64_t transmitted = 0;
    uint64_t received = 0;
    uint64_t granting = 0;                          ///< credits that were granted, or will be
    std::array<uint32_t, kUnderWay> bytes_of = {};  ///< of messages under way
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
  void pair_reflections();
  bool waits_for_reflection(const ReactiveOperation& op, uint32_t link, uint32_t bytes) const;
  ReactiveOperation* at(uint64_t number) const { return operations_[number % kMost]; }
  ReactiveOperation* last() const { return known_ == first_ ? nullptr : at(known_ - 1); }
  ReactiveOperation* operation_of(uint32_t link, uint64_t message) const;
  uint32_t wire(const ReactiveOperation& op, uint32_t link, uint64_t k) const;
  bool notify(Time now, const ReactiveNotice& notice);

  void join(Time now, uint32_t link);
  void grant(Time now, uint32_t link);
  void on_credit(Time now, uint32_t link);
  void on_data(Time now, uint32_t link, uint32_t bytes);
  void on_acknowledged(Time now, uint32_t link, uint64_t message);
  void input(Time now, Input input);
  void look_for_next(Time now, uint64_t from);
  void trim();
  bool feed(Time now, ReactiveOperation& op, uint64_t place);
  bool tell(Time now, ReactiveOperation& op, Input& input, Time time);
  void tell_put_off(Time now, ReactiveOperation& op);
  bool agrees(Time now, const ReactiveOperation& op, const Input& input);
  void install(Time now, ReactiveOperation& op);
  bool crosses(const ReactiveOperation& op) const;
  void begin_unseen(Time now, ReactiveOperation& op);
  void replay(Time now, ReactiveOperation& op);
  void lengthen(Time now, uint32_t link, const ReactiveOperation* op);
  void settle(Time now, ReactiveOperation& op);
  void enter(ReactiveOperation& op);
  void take(Time now, ReactiveOperation& op, Duration carried);
  void grant_ahead(Time now, uint32_t link, uint64_t until, Time at);
  void finish(Time now);
  void report(ReactiveOperation& op);
  void send_due(Time now, uint32_t link);
  void give_up(Time now);

  const CollectiveJob& job_;
  CollectiveProgress& progress_;
  const Settings settings_;
  ReactiveListener& listener_;
  SpscRing<ReactiveCommand> commands_;
  std::vector<Link> links_;
  std::deque<End> ends_;
  std::vector<std::vector<uint32_t>> heard_of_;  ///< by rank: links by which real ones send to it
  /// By link of ours: the one of its channel whose small messages it reflects, or kNoLink; and the
  /// other way round.
  std::vector<uint32_t> reflected_;
  std::vector<std::vector<uint32_t>> reflecting_;
  std::array<ReactiveOperation*, kMost> operations_ = {};
  uint64_t first_ = 0;             ///< the oldest that is here
  uint64_t finished_ = 0;          ///< operations that are
  uint64_t known_ = 0;             ///< operations that were handed over
  std::vector<uint64_t> settled_;  ///< by link: messages of those that are over
  std::vector<Input> inputs_;      ///< a ring
  uint64_t oldest_ = 0, newest_ = 0;
  uint64_t begun_ = 0;  ///< operations that control was told of as begun
  bool given_up_ = false;
};

}  // namespace understudy
