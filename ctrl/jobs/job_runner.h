// The jobs of a run whose real ranks are programs: offers them to the clients that dial the emulated
// neighbours, connects, starts them, and keeps what the clients report.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/jobs/emulated_ranks_binding.h"
#include "ctrl/jobs/job_watch.h"
#include "ctrl/jobs/ranks_host.h"
#include "ctrl/network/shared_network.h"
#include "ctrl/peers/ring/ring_peer.h"
#include "ctrl/report/run_report.h"
#include "ctrl/shards/shard_control.h"

namespace understudy {

class JobRunner final : public RingObserver {
 public:
  /// `controls[i]` belongs to port i of the configuration, `states[j]` to job j; null: somebody
  /// else runs that job. Jobs keep the configuration's numbers. `reference`: by port, of the
  /// reference node behind it or null; empty: there is none. Ranks on such nodes are played here,
  /// and speak to programs' ranks as emulated ones do.
  static Result<std::unique_ptr<JobRunner>> create(
      const Config& config, const std::vector<ShardControl*>& controls,
      std::vector<std::unique_ptr<JobState>> states,
      const std::vector<ShardControl*>& reference = {});

  /// What a node whose ranks are played here offers; empty when it is no program's neighbour.
  std::vector<RingOffer> offers(NodeId node) const;
  /// A ring endpoint as a peer wants it.
  Result<EndpointReady> connect(const EndpointRequest& request);

  /// Where a job's feed is listened to.
  struct FeedPort {
    uint32_t job = 0;
    NodeId node = kNoNode;
    unsigned nic = 0;
    uint16_t port = 0;
  };
  std::vector<FeedPort> feeds() const;
  /// In virtual time, before the run: the one job with a feed hears this file of records (understudy
  /// feed --record), and nothing is listened to. Error: it cannot be read.
  Result<void> follow(const std::string& feed);
  /// The job's feed is also that of others: see FedOperations::route() and told_by(). Before
  /// anything is told, for all communicators.
  void route_feed(size_t job, FedRoutes routes);
  void feed_from(size_t job, size_t other);
  /// What takes a connection of a profiler plugin there.
  std::unique_ptr<FeedPeer> feed_peer(uint32_t job);

  /// Control's turn: looks for operations that became known. Returns lines on jobs that have lost
  /// track of theirs, that do not go on, or, in real time, whose real nodes are slow.
  std::vector<std::string> poll(Time now, const JobWatch::Surroundings& run);
  /// There is a job whose operations are not told, and which is not over.
  bool find_out() const;
  /// Every job is over: all operations done and its clients have said so, or it has failed.
  bool finished() const;
  /// No emulated rank still has to do, after all clients, what needs none of them any more: in a
  /// tree results go on to others.
  bool settled() const;
  /// Some ranks are on reference nodes, and whether all of these are done.
  bool has_reference() const;
  bool reference_over() const;
  /// Queue pairs under congestion control that are there, job by job.
  std::vector<const std::vector<ControlledPair>*> controlled() const;
  /// Lines on jobs whose times will be no better than an estimate.
  std::vector<std::string> doubts() const;
  /// How far the jobs are, and what those stand still for that do not go on.
  std::string status() const;
  JobReport report(size_t job) const;
  /// Before the run: keeps when messages of all jobs did what, for timeline().
  void record();
  /// Once nothing runs any more.
  void add_timeline(std::vector<TimelineTrack>& tracks) const;
  bool has(size_t job) const { return jobs_[job].state != nullptr; }
  /// No job is its.
  bool empty() const;

  // Of a job whose real ranks are NCCL's: it has no clients here; whoever joins its communicator
  // says how it goes.
  EmulatedRanksBinding& emulated(size_t job) { return *jobs_[job].emulated; }
  /// That its emulated ranks were in, one after another.
  size_t communicators_over(size_t job) const;
  /// Its feed, while it may be joined; else null.
  FedOperations* feed_of(size_t job) {
    return jobs_[job].forgetting ? nullptr : jobs_[job].emulated->feed();
  }
  const CollectiveSetup& setup(size_t job) const { return jobs_[job].setup(); }
  ShardControl& control(size_t job) { return *jobs_[job].control; }
  /// Whether a rank speaks for itself. Others are played here: emulated, or on a reference node,
  /// whose shard's control this is, else null.
  bool is_program(size_t job, uint32_t rank) const { return is_program(jobs_[job], rank); }
  ShardControl* reference_control(size_t job, uint32_t rank) const;
  /// Once its plan stands: connects its ranks on reference nodes with emulated ones and with each
  /// other.
  Result<void> open_reference(size_t job);
  /// The ranks of such a rank's node, which are there from then on; else null.
  RanksHost* reference(size_t job, uint32_t rank) { return reference_of(jobs_[job], rank); }
  /// Whoever is played here begins, if that may be: where operations are told, and on reference
  /// nodes, once the real ranks have joined that the first one needs.
  void start_joined(size_t job);
  /// Of emulated ranks, then of those on reference nodes.
  std::vector<const CollectiveProgress*> progress(size_t job) const;
  /// Before any of its connections is asked for: the job's plan is made anew for so many channels
  /// of NCCL's search. References to its setup and emulated ranks end.
  Result<void> plan_again(size_t job, uint32_t search_channels);
  /// Its communicator is over, and `end` says how. If `next`, emulated ranks forget it: references
  /// to them end once is_ready() is false, and begin anew when it is true again.
  void ended_communicator(size_t job, Time now, const std::string& how, bool next);
  /// The operations of the present one may begin.
  void joined(size_t job, Time now) {
    if (!jobs_[job].joined && jobs_[job].emulated_started) jobs_[job].joined = now;
  }
  std::optional<Time> joined(size_t job) const { return jobs_[job].joined; }
  /// Emulated ranks may be joined.
  bool is_ready(size_t job) const { return !jobs_[job].forgetting; }
  /// Why they will never be again, or empty.
  const std::string& no_further(size_t job) const { return jobs_[job].no_further; }
  void begun(size_t job) { jobs_[job].has_begun = true; }
  /// All real ranks stand ready.
  bool has_begun(size_t job) const { return jobs_[job].has_begun; }
  /// What its real ranks did in communicators that no job describes, of all that it joined.
  void answered(size_t job, const AnsweredReport& answered) { jobs_[job].answered = answered; }
  bool has_ended(size_t job) const { return jobs_[job].has_ended; }
  /// `failure`: nobody has to do any more, and why; empty: its ranks have left.
  void ended(size_t job, Time now, const std::string& failure) {
    if (jobs_[job].has_ended) return;
    jobs_[job].has_ended = true;
    jobs_[job].ended_at = now;
    jobs_[job].failure = failure;
  }

  void on_ring_ready(uint32_t job, uint32_t real_rank, uint32_t emulated_rank) override;
  void on_ring_result(uint32_t job, uint32_t real_rank, const RingResultMessage& result) override;
  void on_ring_done(uint32_t job, uint32_t real_rank, uint32_t emulated_rank) override;
  std::optional<RingLinkEnd> on_ring_meeting(uint32_t job, const RingLinkEnd& end) override;

 private:
  using Kinds = std::map<std::string, Kernel>;  ///< by FoundKind::text
  struct Job {
    const CollectiveSetup& setup() const { return *state->setup; }
    std::unique_ptr<JobConfig> own;   ///< of a plan that was made again
    std::unique_ptr<JobState> state;  ///< null: somebody else's, the rest is empty
    std::unique_ptr<EmulatedRanksBinding> emulated;
    /// By real node; null: a program's. Empty: there is none on a reference node.
    std::vector<ShardControl*> behind;
    std::vector<std::unique_ptr<RanksHost>> reference;  ///< the same, once it is connected
    /// What programs are told that play whole nodes, by the first of their ranks.
    std::map<uint32_t, std::shared_ptr<const NodeJobMessage>> node_jobs;
    /// What programs told of their ends of links that they share: by sender, receiver, channel,
    /// index and whether it is the sender's.
    std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint8_t, bool>, RingLinkEnd> ends;
    ShardControl* control = nullptr;               ///< of its shard
    uint32_t clients = 0;                          ///< connections that these make
    using Client = std::pair<uint32_t, uint32_t>;  ///< real rank, and the rank that it has called
    std::set<Client> ready, done;
    bool has_begun = false, has_ended = false;                 ///< all clients are ready, or done
    bool emulated_started = false, reference_started = false;  ///< of a job with join
    Time ended_at = Time::never();                             ///< of a job with join
    std::string failure;                                       ///< why it ended, if it has failed
    AnsweredReport answered;
    FedRoutes feed_routes;
    std::optional<size_t> feed_from;  ///< another job
    uint32_t plugins = 0;             ///< that feed it, while they are connected
    bool lost = false;                ///< track of its operations, which was said
    JobWatch watch;
    // Of a job that joins several communicators:
    std::optional<JobReport> former;  ///< of all that are over
    Kinds kinds;                      ///< that these found, where none is listed
    bool forgetting = false;          ///< the last one of these
    std::string no_further;           ///< why no further one can be joined
    std::optional<Time> joined;       ///< the present one, by its real ranks
    /// Timelines are of all communicators.
    struct Played {
      std::unique_ptr<JobState> state;
      std::unique_ptr<EmulatedRanksBinding> emulated;
    };
    std::vector<Played> played;
    std::vector<std::pair<uint32_t, RingResultMessage>> results;  ///< and of which rank
  };

  explicit JobRunner(const Config& config) : config_(config) {}
  std::vector<size_t> own() const;
  void route_feed(Job& job);
  Result<void> host(Job& job, const JobConfig& config);
  void find_reference(Job& job, const JobConfig& config,
                      const std::vector<ShardControl*>& reference) const;
  Result<void> host_reference(Job& job, const JobConfig& config);
  void start(Job& job);
  void begin_again(size_t number);
  JobReport report_of_last(size_t job) const;
  static const OperationSource* source_of(const Job& job);
  static Kinds kinds_of(const Job& job);
  void model_found(JobReport& report, size_t job) const;
  /// Of all communicators so far; the last one ended, or is still there.
  JobReport with_last(std::optional<JobReport> former, size_t job, std::optional<Time> ended,
                      const std::string& how) const;
  static ShardControl* control_behind(const Job& job, uint32_t rank);
  static RanksHost* reference_of(const Job& job, uint32_t rank);
  static bool is_program(const Job& job, uint32_t rank);
  static std::vector<uint32_t> programs(const Job& job);
  static void make_node_jobs(const Config& config, const JobConfig& job, Job& made);
  uint32_t clients_of(uint32_t job) const;
  void add_offers(uint32_t job, uint32_t real, NodeId node, std::vector<RingOffer>& offers) const;
  void add_node_offers(uint32_t job, NodeId node, std::vector<RingOffer>& offers) const;
  void add_results(JobReport& report, size_t job) const;
  void add_reference(JobReport& report, const Job& job) const;

  const Config& config_;
  std::vector<Job> jobs_;
  bool recorded_ = false;
  std::optional<std::vector<std::vector<uint8_t>>> feed_;  ///< pieces of follow()
};

}  // namespace understudy
