// All emulated ranks of a job, of which nothing is known but the communicator: what its real ranks
// do is inferred from their credits and messages, and the plan of what it is taken for drives what
// emulated ranks send. When it turns out to be something else, the plan of that takes over with all
// that has come so far; what it would have sent by then is late, and counted.
//
// Where nothing explains what comes any more, every credit is answered at once.
//
// It makes plans while packets move, and so belongs to virtual time.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "collective_model/inference.h"
#include "ctrl/build/collective.h"
#include "ctrl/report/run_report.h"
#include "dataplane/node/collective_job.h"
#include "dataplane/node/nccl_connection.h"

namespace understudy {

class InferredEnvironment final : public Endpoint {
 public:
  /// `told` is looked at for its connections and real ranks, and to say what was inferred rightly.
  /// All of it outlives this object.
  InferredEnvironment(const Config& config, const JobConfig& job, const Topology* topology,
                      const CollectiveJob& told, CollectiveProgress& progress);

  Endpoint& endpoint(uint32_t link) { return ends_[link]; }
  NcclSender& sender(uint32_t link) { return links_[link].sender; }
  NcclReceiver& receiver(uint32_t link) { return links_[link].receiver; }

  static constexpr uint64_t kStart = 0;  ///< on_wake cookie: all connections stand, begin

  void on_wake(Time now, uint64_t cookie) override;
  // Queue pairs have their own endpoints.
  void on_received(Time, Qp&, const Received&) override {}
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}

  /// No more will come. An operation that is over may not be known to be before that.
  void end();
  /// What was found, once the run is over.
  const InferenceReport& report() const { return report_; }

 private:
  enum class WakeKind : uint64_t { kStart = 0, kData = 1, kCredit = 2, kDecide = 3 };
  static uint64_t cookie(WakeKind kind, uint64_t what) {
    return static_cast<uint64_t>(kind) << 32 | what;
  }
  static constexpr uint32_t kNone = ~uint32_t{0};

  class End final : public Endpoint {
   public:
    End(InferredEnvironment& all, uint32_t link) : all_(all), link_(link) {}
    void on_received(Time now, Qp& qp, const Received& message) override;
    void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;
    void on_transmitted(Time scheduled, Time actual, Qp& qp, uint64_t id) override;

   private:
    InferredEnvironment& all_;
    const uint32_t link_;
  };
  struct Link {
    NcclSender sender;
    NcclReceiver receiver;
    uint32_t connection = kNone;  ///< as the inference counts them
    // Messages of all operations.
    uint64_t credits = 0;   ///< that came
    uint64_t due = 0;       ///< whose time has come
    uint64_t released = 0;  ///< whose time was planned
    uint16_t plans = 0;     ///< counts those that were replaced
    uint64_t sent = 0;
    uint64_t transmitted = 0;
    uint64_t received = 0;
    uint64_t granting = 0;            ///< credits that were granted, or will be
    std::deque<uint32_t> bytes = {};  ///< of messages sent, of the operations kept
    uint64_t first = 0;               ///< messages before these
  };
  /// What came from the real ranks; a replaced plan is told all of it again.
  struct Input {
    uint32_t link = 0;
    bool acknowledged = false;  ///< else data
    uint64_t message = 0;       ///< of all operations
    Time time;
  };
  /// The part of a link in an operation.
  struct Use {
    uint32_t rank = 0, connection = 0;  ///< of the emulated end
    uint64_t messages = 0;
  };
  struct Flight {
    Operation operation;
    std::vector<std::shared_ptr<const RankSchedule>> ranks;
    std::vector<Use> uses;                     ///< by link
    std::vector<std::vector<uint32_t>> links;  ///< by rank and connection, or kNone
    std::unique_ptr<Plan> plan;                ///< null: not decided
    std::vector<uint64_t> base;                ///< by link: messages before it
    std::vector<bool> entered;                 ///< by rank
    std::vector<Time> done;                    ///< by rank
    bool began = false;
    bool waited = false;    ///< long enough for the real ranks' first messages
    bool over = false;      ///< what it was is said
    bool finished = false;  ///< nothing of it is to come
    size_t number = 0;      ///< once over
    uint64_t acknowledged = 0;
    Time entry;
    Time noticed;                      ///< that real ranks had entered
    Time first_entry = Time::never();  ///< of its ranks
    Time end;
    Duration late;
    uint64_t late_messages = 0;
  };

  Flight& current() { return flights_.back(); }
  void on_credit(Time now, uint32_t link);
  void on_data(Time now, uint32_t link, const Received& message);
  void begin(Time now, uint32_t link, uint64_t message);
  Duration job_wire_time(uint32_t link) const;
  void input(Time now, const Input& input);
  bool feed(Flight& flight, const Input& input);
  void reconsider(Time now);
  bool decided(const Inference::Taken& taken) const;
  void make(Flight& f, const Operation& operation);
  void replay(Time now, size_t flight);
  void enter(size_t flight);
  void take(Time now, size_t flight);
  void grant_ahead(Time now, uint32_t link, uint64_t until, Time at);
  void conclude(Time now, const InferredOperation& said);
  bool right(const Flight& f, size_t number) const;
  void finish();
  uint32_t size_of(const Flight& f, uint32_t link, uint64_t k) const;
  void send_due(Time now, uint32_t link);
  void give_up(Time now, const std::string& why);

  const Config& config_;
  const JobConfig& job_;
  const Topology* topology_;
  const CollectiveJob& told_;
  CollectiveProgress& progress_;
  const Communicator communicator_;
  Inference inference_;
  std::vector<Link> links_;
  std::deque<End> ends_;
  std::deque<Flight> flights_;  ///< the last one is under way or has not begun
  std::deque<Input> inputs_;    ///< of the operations in flights_
  std::vector<Operation> before_;
  size_t concluded_ = 0;
  Time next_entry_ = Time::never();  ///< the first that came of the next operation
  Time next_noticed_;
  Time last_;  ///< when something came
  bool given_up_ = false;
  InferenceReport report_;
};

}  // namespace understudy
